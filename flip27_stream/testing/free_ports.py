"""Ports for servers that tests start, kill and start again."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from functools import cache

_FIRST, _LAST = 15_000, 32_000
"""The first and the last port, below the system's range of ephemeral ports."""

_taken: set[int] = set()  # The ports of this process, which its own locks do not keep from being taken again.


def free_port() -> int:
    """Returns a loopback port on which no process listens.

    As long as this process runs, no further call returns this port, and no call in another process of this user. So a
    server that was killed finds its port free when it is started again.

    Raises:
        OSError: The file of the locks in the folder for temporary files cannot be written or locked.
    """
    while True:
        port = random.randint(_FIRST, _LAST)
        if port not in _taken and _lock(port) and _is_unused(port):
            _taken.add(port)
            return port


def _lock(port: int) -> bool:
    """Locks the byte at offset ``port`` of a file. The system unlocks it when this process ends, even by kill -9."""
    file = _lock_file()
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: another process has the lock.
        return False
    return True


@cache
def _lock_file() -> int:
    """Returns the descriptor of the file of the locks.

    It is never closed, since that would unlock all ports of this process.
    """
    return os.open(
        f"{tempfile.gettempdir()}/flip27-stream-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600
    )


def _is_unused(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
