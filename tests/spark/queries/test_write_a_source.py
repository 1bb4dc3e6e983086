"""A source that a user writes, on a real Spark. The pages docs/write-a-source.md and docs/readers.md promise what
these tests show.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import flip27_stream
from examples.log_folder import LogFolder
from tests.spark.support.sources.echo_folder import BROKEN, EchoFolder
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
MINUTE = 60_000


class LogQueries:
    """A folder of logs, and queries over it that write Parquet files."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.folder = path / "logs"
        self.folder.mkdir()
        self.watermarks = str(path / "watermarks")
        self._output, self._checkpoint = str(path / "output"), str(path / "checkpoint")
        spark.dataSource.register(flip27_stream.data_source(LogFolder(str(self.folder)), name="logs"))
        spark.dataSource.register(flip27_stream.data_source(EchoFolder(str(self.folder)), name="echo"))

    def append(self, file: str, times: list[int]) -> None:
        with open(self.folder / file, "a") as log:
            log.writelines(f"{time} text\n" for time in times)

    def run(self, stream: DataFrame) -> StreamingQuery:
        """Reads all existing rows into the files, from the end of the last run."""
        writer = stream.writeStream.format("parquet").option("checkpointLocation", self._checkpoint)
        query = writer.trigger(availableNow=True).start(self._output)
        query.awaitTermination()
        return query

    def rows(self) -> list[tuple[Any, ...]]:
        return _rows(self.spark.read.parquet(self._output))

    def heard(self) -> list[str]:
        return (self.folder / "heard").read_text().splitlines()


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row.file, row.number) for row in frame.collect())


@pytest.fixture
def logs(spark: SparkSession, tmp_path: Path) -> LogQueries:
    return LogQueries(spark.newSession(), tmp_path)


def expected(**sizes: int) -> list[tuple[str, int]]:
    return sorted((f"{name}.log", n) for name, size in sizes.items() for n in range(size))


def test_an_own_source_reads_a_new_split_after_a_restart(logs: LogQueries) -> None:
    """SX-03, SX-06: each row is read exactly once, also rows and files that came while no query ran.

    Spark counts every row.
    """
    logs.append("a.log", [NOON + i for i in range(2500)])
    logs.append("b.log", [NOON + i for i in range(10)])
    assert _rows(logs.spark.read.format("logs").load()) == expected(a=2500, b=10)
    stream = logs.spark.readStream.format("logs").load()
    first = logs.run(stream)
    assert logs.rows() == expected(a=2500, b=10)
    counted = [p["numInputRows"] for p in first.recentProgress if p["numInputRows"]]
    assert (len(counted), sum(counted)) == (3, 2510), "the read limit makes three batches of it"
    logs.append("a.log", [NOON] * 5)
    logs.append("c.log", [NOON] * 7)
    logs.run(stream)
    assert logs.rows() == expected(a=2505, b=10, c=7)


def test_an_own_source_is_aligned_and_in_the_table(logs: LogQueries) -> None:
    """FLIP-217: a source without positions by event time is aligned by pauses, which follow from what its tasks
    report. It is in the split-watermark table.
    """
    logs.append("slow.log", [NOON + i for i in range(2000)])
    logs.append("fast.log", [NOON + i * MINUTE for i in range(2000)])
    stream = (
        logs.spark.readStream.format("logs")
        .option("scan.watermark.alignment.group", "shop")
        .option("scan.watermark.alignment.max-drift", "5 minutes")
        .option("scan.watermark.alignment.table", logs.watermarks)
        .option("scan.watermark.max-future", "0")
        .load()
    )
    logs.run(stream)
    assert logs.rows() == expected(slow=2000, fast=2000)
    table = SplitWatermarkTable(logs.watermarks, {}).rows().sort_by("batch").to_pylist()
    fast = [(row["batch"], row["rows"], row["status"]) for row in table if row["split"] == "fast.log"]
    slow = [(row["batch"], row["rows"]) for row in table if row["split"] == "slow.log"]
    assert fast[:3] == [(0, 0, "ACTIVE"), (1, 500, "ACTIVE"), (2, 0, "PAUSED")]
    assert slow[:4] == [(0, 0), (1, 500), (2, 1000), (3, 500)]
    assert sum(rows for _, rows, _ in fast) == sum(rows for _, rows in slow) == 2000


def test_events_go_both_ways_and_requests_name_the_host(logs: LogQueries) -> None:
    """CO-22: readers get greetings with the tasks of the first batch, and the enumerator gets their echoes with the
    reports. Requests for splits name the host.
    """
    logs.append("a.log", [NOON] * 10)
    logs.append("b.log", [NOON] * 10)
    logs.run(logs.spark.readStream.format("echo").load())
    assert logs.rows() == expected(a=10, b=10)
    host = socket.gethostname()
    assert sorted(logs.heard()) == sorted(
        line
        for n in (0, 1)
        for line in (f"reader {n}", f"event of {n}: echo {{'to': {n}}}", f"request of {n} at {host}")
    )


def test_a_reader_that_fails_gives_its_splits_back(logs: LogQueries) -> None:
    """CO-06: a reader that fails gives its splits back to the enumerator, and fails the query. The next run reads the
    same batch, and gives the splits back before its readers register.
    """
    logs.append("a.log", [NOON] * 10)
    stream = logs.spark.readStream.format("echo").load()
    (logs.folder / BROKEN).touch()
    with pytest.raises(StreamingQueryException):
        logs.run(stream)
    (logs.folder / BROKEN).unlink()
    logs.append("a.log", [NOON] * 10)
    logs.run(stream)
    assert logs.rows() == expected(a=20)
    heard = logs.heard()
    again = heard.index("back ['a.log']")
    assert heard[again + 1] == "reader 0", (
        "what came back is said before the readers of the new process register"
    )
