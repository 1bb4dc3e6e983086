"""The TCP connection of a Python worker to the JVM."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from flip27_stream.spark.execution.worker_socket import acknowledge_at_once, tcp_connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="the socket option exists on Linux only"
)

_ROUNDS = 8


def _is_quick(spark: SparkSession) -> bool:
    """Returns whether the kernel acknowledges at once what the JVM sends to the worker of a task.

    The function is a local one because workers cannot import tests.
    """

    def quick(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        flags = [c.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) for c in tcp_connections()]
        yield from (pa.RecordBatch.from_pydict({"quick": [bool(flags) and all(flags)]}) for _ in batches)

    (row,) = spark.range(0, 1, numPartitions=1).mapInArrow(quick, "quick boolean").collect()
    return bool(row.quick)


@pytest.mark.jvm
def test_after_tasks_of_ours_the_next_task_of_the_worker_does_not_wait_for_an_acknowledgement(
    registered: SparkSession, tmp_path: Path
) -> None:
    """Fact 33: the JVM sends a task in two small writes, the second one after an acknowledgement of the first. Without
    the option a worker is slow from its second or third task on.
    """
    (tmp_path / "one.json").write_text('{"n": 1}\n')
    lines = registered.read.format("flip27_files").schema("n long").option("files.format", "json")
    frame = lines.load(str(tmp_path))
    found = []
    for _ in range(_ROUNDS):
        assert [row.n for row in frame.collect()] == [1]
        found.append(_is_quick(registered))
    assert all(found[_ROUNDS // 2 :])


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0],
    ):
        yield client


def _is_quick_here(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


def test_the_option_is_set_on_a_connection_of_the_process(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    assert not _is_quick_here(connection)
    acknowledge_at_once()
    assert _is_quick_here(connection)


def test_a_connection_stays_blocking_where_a_users_function_has_set_a_default_timeout(
    connection: socket.socket,
) -> None:
    """Duplicates share their flags: a default timeout of Python would make the JVM's connection non-blocking."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(5.0)
    try:
        acknowledge_at_once()
    finally:
        socket.setdefaulttimeout(before)
    assert os.get_blocking(connection.fileno())


def test_no_descriptor_is_left_open(connection: socket.socket) -> None:
    """A Unix domain socket, a socket of datagrams and a listening one are not touched, and nothing leaks."""
    first, second = socket.socketpair()
    with first, second, socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        before = len(os.listdir("/proc/self/fd"))
        acknowledge_at_once()
        assert len(os.listdir("/proc/self/fd")) == before
