"""Finds Java."""

from __future__ import annotations

import os
import shutil

from flip27_stream.errors import ConnectorError


def java() -> str:
    """Returns the path of ``java``: that in ``JAVA_HOME`` if this is set, otherwise the one in ``PATH``.

    Raises:
        ConnectorError: Java was not found.
    """
    home = os.environ.get("JAVA_HOME")
    wanted = os.path.join(home, "bin", "java") if home else "java"
    found = shutil.which(wanted)
    if found is None:
        raise ConnectorError(
            f"Java not found ('{wanted}'). Install a Java 17, 21 or 25 runtime, or set JAVA_HOME."
        )
    return found
