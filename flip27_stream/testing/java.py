"""Where Java is."""

from __future__ import annotations

import os
import shutil

from flip27_stream.errors import ConnectorError


def java() -> str:
    """The ``java`` executable: that of ``JAVA_HOME`` where it is set, else the one on the path.

    Raises:
        ConnectorError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    wanted = os.path.join(home, "bin", "java") if home else "java"
    found = shutil.which(wanted)
    if found is None:
        raise ConnectorError(
            f"Java not found ('{wanted}'). Install a Java 17 or 21 runtime, or set JAVA_HOME."
        )
    return found
