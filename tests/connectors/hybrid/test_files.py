"""A hybrid source of real sources: a Delta table, then a folder to which Parquet files are added. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.spark.source_spec import Driver, SourceSpec
from tests.connectors.hybrid.support.kit import SOME, HybridQuery

START = datetime(2023, 11, 14, tzinfo=timezone.utc)
ROWS = pa.schema([("split", pa.string()), ("event_time", pa.timestamp("us", tz="UTC"))])


def rows(name: str, first: int, last: int) -> pa.Table:
    times = [START + timedelta(seconds=s) for s in range(first, last)]
    return pa.table([pa.array([name] * len(times)), pa.array(times, ROWS.field(1).type)], schema=ROWS)


def second(time: Any) -> int:
    return int((time - START).total_seconds())


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], HybridSource]:
    """Returns a function that makes the source: a table of seconds 0 to 59 in 6 files, which were written in another
    order, and then a folder whose files begin at second 40.
    """
    table, folder = tmp_path / "table", tmp_path / "folder"
    for first in (20, 0, 50, 10, 40, 30):
        write_deltalake(table, rows("old", first, first + 10), mode="append")
    folder.mkdir()
    for first in (40, 60, 80):
        pq.write_table(rows("new", first, first + 20), folder / f"{first}.parquet")

    def later(switch: SourceSwitchContext) -> FileSource:
        return FileSource({"path": str(folder), "maxFilesPerTrigger": "1"})

    def only_after(records: pa.RecordBatch) -> pa.RecordBatch:
        seam = pa.scalar(START + timedelta(seconds=60), ROWS.field(1).type)
        return records.filter(pc.greater_equal(records["event_time"], seam))

    def source() -> HybridSource:
        history = FileSource(
            {"path": str(table), "files.format": "delta", "maxFilesPerTrigger": "2"}, bounded=True
        )
        builder = HybridSource.builder(history, event_time="event_time")
        return builder.add_source(later, converter=only_after, event_time="event_time").build()

    return source


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("limit", [SOME, None])
def test_a_table_then_files_as_they_come(
    make: Callable[[], HybridSource], tmp_path: Path, aligned: bool, restarts: bool, limit: int | None
) -> None:
    """HY-17, FI-17: every row comes once, over restarts, and with a file that is written while the query runs."""
    query = HybridQuery(make, tmp_path / "watermarks" if aligned else None, drift_ms=5000)
    written = False
    idle = 0
    while idle < 2:
        if restarts:
            query.restart()
        idle = 0 if query.step(limit) is not None else idle + 1
        if not written and query.index == 1:
            pq.write_table(rows("new", 100, 110), tmp_path / "folder" / "100.parquet")
            written = True
            query.restart()
        assert len(query.offsets) < 60, query.offsets[-2:]
    read = sorted((name, second(time)) for name, time in query.rows)
    assert read == sorted([("old", s) for s in range(60)] + [("new", s) for s in range(60, 110)])
    assert query.offset["enumerator"][1]["end"] == int((START + timedelta(seconds=59)).timestamp() * 1000)


def test_a_batch_read_has_all_sources(make: Callable[[], HybridSource]) -> None:
    """``spark.read`` reads the rows that an AvailableNow run would read."""
    source = make()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    reader = Flip27BatchReader(SourceSpec(source, strategy, alignment=None, driver=Driver(parallelism=2)))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(len(batch) for batch in batches) == 60 + 40
    assert {name for batch in batches for name in batch["split"].to_pylist()} == {"old", "new"}


def test_available_now_reads_all_sources(make: Callable[[], HybridSource]) -> None:
    """HY-12: one AvailableNow run reads the rows of the table and of the folder."""
    assert len(HybridQuery(make, available_now=True).run()) == 60 + 40
