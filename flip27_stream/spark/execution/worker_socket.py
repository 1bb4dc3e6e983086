"""The TCP connection between Spark's JVM and a Python worker, without its delayed acknowledgements."""

from __future__ import annotations

import functools
import gc
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_DESCRIPTORS = "/proc/self/fd"


@functools.cache
def without_delayed_acknowledgements() -> None:
    """Makes the next tasks of this worker process begin 40 ms earlier, on Linux; see fact 33 about Spark.

    The JVM sends a task in two small writes. Nagle's algorithm holds back the second one until the worker's kernel
    acknowledges the first. The kernel delays this acknowledgement if the worker has sent data before. The socket option
    ``TCP_QUICKACK`` ends the delay until the worker sends again, so it has to be set between two tasks. There Spark
    collects garbage (``pyspark/daemon.py``), which calls :data:`gc.callbacks`.
    """
    from pyspark import TaskContext

    in_worker = TaskContext.get() is not None
    if in_worker and hasattr(socket, "TCP_QUICKACK") and os.path.isdir(_DESCRIPTORS):
        gc.callbacks.append(_collected)


def _collected(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        acknowledge_at_once()


def acknowledge_at_once() -> None:
    """Sets ``TCP_QUICKACK`` on all TCP connections of this process. Between two tasks these are those to the JVM.

    Connections of a user's functions are not harmed by the option.
    """
    for connection in tcp_connections():
        with suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def tcp_connections() -> Iterator[socket.socket]:
    """Yields a duplicate of each TCP connection that this process has open, and closes it afterwards."""
    for name in os.listdir(_DESCRIPTORS):
        if (found := _duplicate(int(name))) is not None:
            with found:
                is_stream = found.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
                if is_stream and found.family in (socket.AF_INET, socket.AF_INET6):
                    yield found


def _duplicate(descriptor: int) -> socket.socket | None:
    """Returns a duplicate of a socket; ``None`` if the descriptor is not a socket, or is already closed."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        duplicate = os.dup(descriptor)
    except OSError:
        return None
    try:
        # Without SOCK_NONBLOCK, a default timeout of the process would make the connection itself non-blocking.
        return socket.socket(type=socket.SOCK_STREAM | socket.SOCK_NONBLOCK, fileno=duplicate)
    except OSError:
        os.close(duplicate)
        return None
