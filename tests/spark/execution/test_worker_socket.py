"""The TCP connection of a Python worker to the JVM."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from flip27_stream.spark.execution.worker_socket import tcp_connections

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.jvm,
    pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="the socket option exists on Linux only"),
]

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


def test_after_tasks_of_ours_the_next_task_of_the_worker_does_not_wait_for_an_acknowledgement(
    registered: SparkSession, tmp_path: Path
) -> None:
    """Fact 33: the JVM sends a task in two small writes, the second one after an acknowledgement of the first. Without
    the option a worker is slow from its second or third task on."""
    (tmp_path / "one.json").write_text('{"n": 1}\n')
    lines = registered.read.format("flip27_files").schema("n long").option("files.format", "json")
    frame = lines.load(str(tmp_path))
    found = []
    for _ in range(_ROUNDS):
        assert [row.n for row in frame.collect()] == [1]
        found.append(_is_quick(registered))
    assert all(found[_ROUNDS // 2 :])
