"""The TCP connection between Spark's JVM and a Python worker, without its delayed acknowledgements."""

from __future__ import annotations

import functools
import gc
import os
import socket
import stat
from collections.abc import Iterator
from typing import Any

_DESCRIPTORS = "/proc/self/fd"


@functools.cache
def without_delayed_acknowledgements() -> None:
    """Lets the next tasks of this worker process begin 40 ms earlier, on Linux; see fact 33 about Spark.

    The JVM sends a task in two small writes. Nagle's algorithm holds back the second one until the worker's kernel
    acknowledges the first. The kernel delays that on a connection on which the worker has answered. The socket option
    ``TCP_QUICKACK`` ends the delay until the worker sends again, so it has to be set between two tasks: Spark collects
    garbage there, after all is sent (``pyspark/daemon.py``), and calls :data:`gc.callbacks`.
    """
    from pyspark import TaskContext

    in_worker = TaskContext.get() is not None
    if in_worker and hasattr(socket, "TCP_QUICKACK") and os.path.isdir(_DESCRIPTORS):
        gc.callbacks.append(_collected)


def _collected(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        for connection in tcp_connections():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def tcp_connections() -> Iterator[socket.socket]:
    """Yields a duplicate of each TCP connection that this process has open, and closes it afterwards.

    Between two tasks these are the connections to the JVM. The option does no harm to others, of a user's functions.
    """
    for name in os.listdir(_DESCRIPTORS):
        try:
            is_socket = stat.S_ISSOCK(os.fstat(int(name)).st_mode)
            duplicate = socket.socket(fileno=os.dup(int(name))) if is_socket else None
        except OSError:  # the descriptor with which the folder was listed
            continue
        if duplicate is not None:
            with duplicate:
                if duplicate.type == socket.SOCK_STREAM and duplicate.family != socket.AF_UNIX:
                    yield duplicate
