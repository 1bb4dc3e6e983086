"""A token provider of a user: a function that processes of Spark import and call.

The token is in a file whose name these processes know, since they have the environment of the test.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

_TEST = f"{Path(__file__).resolve()} {os.environ.get('PYTEST_XDIST_WORKER', '')}"
FILE = Path(tempfile.gettempdir(), f"flip27-token-{hashlib.sha256(_TEST.encode()).hexdigest()[:16]}")
CALLS = FILE.with_suffix(".calls")


def token() -> str:
    """Returns the token in :data:`FILE`, and appends the id of this process to :data:`CALLS`."""
    with open(CALLS, "a") as calls:
        calls.write(f"{os.getpid()}\n")
    return FILE.read_text()
