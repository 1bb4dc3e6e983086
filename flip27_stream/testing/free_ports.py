"""Ports for servers that tests start, kill and start again."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import BinaryIO

_FIRST, _LAST = 15_000, 32_000
"""The first and the last port, below the system's range of ephemeral ports."""

_taken: set[int] = set()  # The ports that this process has taken; it could lock them again.


def free_port() -> int:
    """Returns a loopback port on which no process listens.

    As long as this process runs, no further call returns this port, and no call in another process of this user. So a
    server that was killed finds its port free when it is started again.
    """
    while True:
        port = random.randint(_FIRST, _LAST)
        if port not in _taken and _lock(port) and _is_unused(port):
            _taken.add(port)
            return port


def _lock(port: int) -> bool:
    """Locks the byte at offset ``port`` of a file. The system unlocks it when this process ends, even by kill -9."""
    try:
        fcntl.lockf(_lock_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _lock_file() -> BinaryIO:
    """Returns the file of the locks, which is never closed, since that would unlock all ports of this process."""
    return (Path(tempfile.gettempdir()) / f"flip27-stream-ports-{os.getuid()}").open("ab")


def _is_unused(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
