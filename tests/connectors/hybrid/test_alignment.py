"""Alignment of a hybrid source: before, at and after the switch. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.errors import AlignmentError
from tests.connectors.hybrid.support.kit import SOME, HybridQuery, NotingFactory, history
from tests.spark.support.sources.memory_source import LogEnumerator
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

DRIFT = 10

OLD: dict[str, list[int | None]] = {"x": list(range(1000, 1100)), "y": list(range(1060, 1100, 4))}
NEW: dict[str, list[int | None]] = {"a": list(range(1100, 1200)), "b": list(range(1105, 1400, 5))}


def hybrid(made: NotingFactory) -> Callable[[], HybridSource]:
    return lambda: HybridSource.builder(history("old", OLD)).add_source(made).build()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("limit", [25, SOME])
def test_no_split_runs_ahead_before_at_or_after_the_switch(
    tmp_path: Path, limit: int, restarts: bool
) -> None:
    """I3, I4: at every batch boundary no row that was read is more than the drift ahead of any split of both sources.
    The first live batch is aligned like any other.
    """
    made = NotingFactory(NEW)
    query = HybridQuery(hybrid(made), tmp_path / "table", drift_ms=DRIFT)
    logs = OLD | NEW
    while query.step(limit) is not None:
        if restarts:
            query.restart()
        positions = {name: state[0] for name, state in query.offset["splits"].items()}
        read = max(t for _, t in query.rows if t is not None)
        for name, position in positions.items():
            log = logs[name.partition(":")[2]]
            if name.startswith("1:") or position < len(log):
                front = log[min(position, len(log) - 1)]
                assert front is not None
                assert read - front <= DRIFT, f"{name} at {position}"
    assert query.index == 1
    held = [t for name, t in query.rows if name == "b"]
    assert max(t for t in held if t is not None) == 1205, "the limit of a caught-up split that is not idle"
    made.world.logs["a"] = [*NEW["a"], 1390]
    assert max(t for _, t in query.run() if t is not None) == 1395


def test_a_watermark_over_all_never_drops_a_row_of_the_live_source(tmp_path: Path) -> None:
    """I4: no row is more than the drift behind the greatest event time that was read before its batch. So a watermark
    over all splits drops no row if its delay is more than the drift.
    """
    query = HybridQuery(hybrid(NotingFactory(NEW)), tmp_path / "table", drift_ms=DRIFT)
    greatest = 0
    while (rows := query.step(20)) is not None:
        times = [t for _, t in rows if t is not None]
        assert min(times) >= greatest - DRIFT
        greatest = max(greatest, *times)
    assert {name for name, _ in query.rows} == {*OLD, *NEW}


def test_the_table_names_splits_of_all_sources(tmp_path: Path) -> None:
    """Splits that leave the offset at the switch are in the table with their last batch."""
    query = HybridQuery(hybrid(NotingFactory(NEW)), tmp_path / "table", drift_ms=DRIFT)
    query.run()
    query.coordinator.close()
    rows = SplitWatermarkTable(str(tmp_path / "table"), {}).rows().to_pylist()
    counted: dict[str, int] = {}
    for row in rows:
        counted[row["split"]] = counted.get(row["split"], 0) + row["rows"]
    assert {"0:x": 100, "0:y": 10}.items() <= counted.items()
    assert set(counted) == {"0:x", "0:y", "1:a", "1:b"}
    assert len({row["source"] for row in rows}) == 1


def test_a_source_that_cannot_be_cut_is_named(tmp_path: Path) -> None:
    """AS-18: an aligned query names the source whose enumerator cannot find positions by event time."""
    source = HybridSource.builder(history("old", {"o": [1]}, enumerator=LogEnumerator)).build()
    with pytest.raises(
        AlignmentError, match=r"Source 0 of the hybrid source \(old\) cannot be cut by event time"
    ):
        HybridQuery(lambda: source, tmp_path / "table").step()


def test_a_split_without_an_answer_keeps_its_source_unfinished(tmp_path: Path) -> None:
    """Rule 5: a split whose end is unknown is neither empty nor read."""
    old = history("old", OLD)
    made = NotingFactory(NEW)
    builder = HybridSource.builder(old).add_source(made)
    query = HybridQuery(builder.build, tmp_path / "table")
    while query.offset.get("splits", {}).get("0:y", [0])[0] < 3:
        assert query.step(25) is not None
    old.world.silent.add("y")
    query.run(25)
    assert query.index == 0
    old.world.silent.clear()
    query.run(25)
    assert query.index == 1
