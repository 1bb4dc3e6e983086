"""A query that goes on from an old copy of its checkpoint writes its batches to the table again. No JVM."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from flip27_stream.api import ReadLimits
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemorySource, MemoryWorld
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


@pytest.fixture
def query(tmp_path: Path) -> DrivenQuery:
    world = MemoryWorld({"a": list(range(1000, 1100))})
    source = MemorySource(world, limits=ReadLimits(max_rows=2))
    return DrivenQuery(world, tmp_path / "table", options={"scan.source.id": "s"}, source=source)


def run(query: DrivenQuery, batches: int) -> None:
    for _ in range(batches):
        query.clock.advance(1000)
        query.batch(2)


def shown(query: DrivenQuery) -> int:
    query.restart()  # Writes what waits to be written.
    [split] = StatusReader(SplitWatermarkTable(str(query.table), {})).read(query.clock()).splits
    return split.batch


def test_batches_that_run_again_are_recorded_again(
    query: DrivenQuery, caplog: pytest.LogCaptureFixture
) -> None:
    run(query, 5)
    saved = copy.deepcopy(query.offset)
    assert saved is not None
    run(query, 20)
    query.restart()
    for _ in range(2):
        query.offset = copy.deepcopy(saved)
        run(query, 10)
        assert shown(query) == saved["batch"] + 9
    assert len([r for r in caplog.records if "was restored from a copy" in r.getMessage()]) == 2


def test_a_restart_is_no_restored_checkpoint(query: DrivenQuery, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(4):
        run(query, 4)
        query.restart()
    run(query, 1)
    batches = [row["batch"] for row in query.rows()]
    assert len(batches) == len(set(batches))
    assert not [r for r in caplog.records if "was restored from a copy" in r.getMessage()]
