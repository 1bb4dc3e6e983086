"""Planning with a split-watermark table of a catalog: rows reach the spool across restarts, and some queries are
refused. No JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.files import FileSource
from flip27_stream.errors import AlignmentError
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from offsets import INITIAL
from tests.connectors.files.support.file_query import SECOND, UNLIMITED, write
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.table import catalog_spool
from watermark_alignment.table.catalog_spool import CatalogSpool

NAME = "main.streaming.split_watermarks"


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[CatalogSpool]:
    """The spool of a session that writes the table."""
    spool = CatalogSpool(str(tmp_path / "user" / "warehouse"), NAME)
    spool.create()
    writer = spool.writer_lock()
    assert writer.acquire(shared=True)
    yield spool
    writer.release()


def spec(tmp_path: Path, folder: str = "in", group: str = "web") -> SourceSpec:
    """Returns a source of files that is aligned by a table of a catalog."""
    options = {
        "scan.watermark.alignment.group": group,
        "scan.watermark.alignment.max-drift": "1 hour",
        "scan.watermark.alignment.table": NAME,
        "scan.watermark.event-time": "ts",
    }
    alignment = AlignmentOptions.parse(options)
    assert alignment is not None
    files = {"path": str(tmp_path / folder), "maxRowsPerTrigger": "40"}
    schema = FileSource(files).schema
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        timestamp_assigner("ts", schema)
    )
    strategy = strategy.with_watermark_alignment(group, alignment.max_drift_ms)
    driver = Driver(spool_root=str(tmp_path / "user" / "warehouse"))
    return SourceSpec(FileSource(files, strategy, schema=schema), strategy, alignment, driver)


Offset = dict[str, Any]


def run(
    spec: SourceSpec, begun: tuple[Offset, Offset] | None = None, most: int = 1000
) -> tuple[Offset, Offset]:
    """Runs micro-batches until there is nothing to read, or ``most``; returns the offsets of the last one.

    Args:
        spec: The source.
        begun: A batch that a former process planned, and that Spark runs again.
        most: The greatest number of batches. The process ends when the last one is planned.
    """
    coordinator = SourceCoordinator(spec)
    coordinator.prepare_available_now()
    start = end = dict(INITIAL)
    try:
        if begun is not None:
            start, end = begun
            read(spec, coordinator, start, end)
        for number in range(most):
            start, end = end, coordinator.latest_offset(end, UNLIMITED)
            if start == end:
                break
            if number < most - 1:
                read(spec, coordinator, start, end)
    finally:
        coordinator.close()
    return start, end


def read(spec: SourceSpec, coordinator: SourceCoordinator, start: Offset, end: Offset) -> None:
    for task in coordinator.tasks(start, end):
        list(read_task(spec, replace(task, report_to=None)))


def test_rows_reach_the_spool_over_restarts(tmp_path: Path, spool: CatalogSpool) -> None:
    """The rows of all batches reach the spool across restarts. A process that ends in a batch leaves that batch to
    the next process.
    """
    for number in range(3):
        write(tmp_path / "in" / f"{number}.parquet", number * 100 * SECOND)
    source = spec(tmp_path)
    begun = run(source, most=3)
    begun = run(source, begun, most=2)
    run(source, begun)
    (commits,) = spool.pending().values()
    found = [commit.read() for commit in commits]
    assert [commit.batch for commit in commits] == list(range(commits[-1].batch + 1))
    assert sum(sum(rows["rows"].to_pylist()) for _, rows, _ in found) == 300
    assert {tuple(set(rows["group"].to_pylist())) for _, rows, _ in found} == {("web",)}
    assert all("flip27.batch" in metadata for _, _, metadata in found)


def test_a_second_source_of_the_group_fails_at_its_start(
    tmp_path: Path, spool: CatalogSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_spool, "_FORMER_PROCESS_S", 0.1)
    for folder in ("in", "other"):
        write(tmp_path / folder / "0.parquet", SECOND)
    first = SourceCoordinator(spec(tmp_path))
    first.prepare_available_now()
    assert first.latest_offset(dict(INITIAL), UNLIMITED)["batch"] == 0
    with pytest.raises(AlignmentError, match=r"Group 'web' has another source, '.+', and source"):
        run(spec(tmp_path, "other"))
    run(spec(tmp_path, "other", "shop"))
    first.close()
    run(spec(tmp_path, "other"))


def test_without_a_writer_a_query_fails_at_its_start(tmp_path: Path) -> None:
    write(tmp_path / "in" / "0.parquet", SECOND)
    with pytest.raises(AlignmentError, match="no session writes it"):
        run(spec(tmp_path))
    with pytest.raises(AlignmentError, match="Spark Connect"):
        run(replace(spec(tmp_path), driver=Driver()))
