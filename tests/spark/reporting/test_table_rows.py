"""The columns of the split-watermark table equal rows that are computed split by split. No JVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from flip27_stream.spark.reporting.table_rows import BatchRecord, PlannedSplits, TableRows
from watermark_alignment.planner import Plan
from watermark_alignment.split_columns import UNKNOWN
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

TIMES = st.one_of(
    st.none(), st.integers(-(2**63) + 1, 2**63 - 1), st.integers(1_700_000_000_000, 1_700_000_000_050)
)
"""Event times (ms) of splits. ``UNKNOWN`` is left out, because it stands for an unknown time in a column."""
GREATEST_POSITION = 2**70
"""Sequence numbers of Kinesis do not fit 64 bits."""


@dataclass(frozen=True)
class Split:
    id: str
    start: int
    end: int
    state: SplitStatus | None
    state_after: SplitStatus | None
    counts_rows: bool
    front: int | None
    seen: int | None
    reported: int | None


@st.composite
def splits(draw: st.DrawFn) -> Split:
    start = draw(st.integers(0, GREATEST_POSITION))
    end = start + draw(st.integers(0, 3))
    states = st.one_of(st.none(), st.sampled_from(list(SplitStatus)))
    return Split(
        draw(st.text("abc", min_size=1, max_size=3)),
        start,
        end,
        draw(states),
        draw(states),
        draw(st.booleans()),
        draw(TIMES),
        draw(TIMES),
        draw(st.one_of(st.none(), st.integers(0, 5))) if end > start else None,
    )


def shown(time: int | None) -> datetime | None:
    """Returns a time (ms) as readers of the table see it; ``None`` if it is before year 1 or after year 9999."""
    try:
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        return None if time is None else epoch + timedelta(milliseconds=time)
    except OverflowError:
        return None


def status(split: Split) -> SplitStatus:
    if split.state is not None:
        return split.state
    stood_idle = split.start == split.end and split.state_after is SplitStatus.IDLE
    return SplitStatus.IDLE if stood_idle else SplitStatus.ACTIVE


def drift(time: int | None, least: int | None) -> int | None:
    return None if time is None or least is None else min(max(time - least, 0), 2**63 - 1)


def rows_of(split: Split) -> int:
    if split.reported is not None:
        return split.reported
    return split.end - split.start if split.counts_rows else 0


def planned(found: list[Split]) -> BatchRecord:
    columns = PlannedSplits(
        [s.id for s in found],
        [s.start for s in found],
        [s.end for s in found],
        [s.state for s in found],
        [s.counts_rows for s in found],
    )
    record = BatchRecord(4, columns)
    reports = [SplitReport(s.id, s.start, s.end, rows=s.reported) for s in found if s.reported is not None]
    record.add_report(TaskReport(4, 0, 0, splits=[*reports, SplitReport("retired", 0, 9, rows=9)]))
    return record


@given(
    st.lists(splits(), max_size=6, unique_by=lambda split: split.id),
    st.one_of(st.none(), TIMES),
    st.sampled_from([0, 1000, 2**62 - 1]),
)
def test_columns_equal_rows_that_are_computed_split_by_split(
    found: list[Split], floor: int | None, disorder: int
) -> None:
    found = sorted(found, key=lambda split: split.id)
    after = Plan(
        horizon=None,
        ends={},
        states={s.id: s.state_after for s in found if s.state_after is not None},
        fronts={s.id: s.front for s in found},
        own_watermark=None,
        held_by=None,
    )
    record = planned(found)
    read_max = {s.id: s.seen for s in found}
    table = TableRows("web", "clicks", disorder).of_batch(record, after, read_max, floor, 1_700_000_000_000)
    fronts = [
        s.front
        for s in found
        if s.front is not None and status(s).counts and s.state_after is not SplitStatus.FINISHED
    ]
    least = min([*fronts, *([] if floor is None else [floor + disorder + 1])], default=None)
    assert table.to_pylist() == [
        {
            "group": "web",
            "source": "clicks",
            "split": s.id,
            "batch": 4,
            "start_position": str(s.start),
            "end_position": str(s.end),
            "rows": rows_of(s),
            "watermark": shown(None if s.front is None else s.front - disorder - 1),
            "max_event_time": shown(s.seen),
            "status": status(s).value,
            "drift_ms": drift(s.seen, least),
            "recorded_at": shown(1_700_000_000_000),
        }
        for s in found
    ]
    assert record.unreported() == sum(s.start < s.end and s.reported is None for s in found)


@pytest.mark.parametrize("seen", [2**63 - 1, UNKNOWN + 1])
def test_a_drift_beyond_a_long_is_the_greatest_there_is(tmp_path: Path, seen: int) -> None:
    """A drift beyond 64 bits is written as the greatest number.

    Two event times may be that far apart where any time is plausible, and a row that fits no column would stop the
    writer.
    """
    active = SplitStatus.ACTIVE
    found = [
        Split("a", 0, 1, active, active, True, UNKNOWN + 1, UNKNOWN + 1, None),
        Split("b", 0, 1, active, active, True, 2**63 - 1, seen, None),
    ]
    after = Plan(None, {}, {}, {s.id: s.front for s in found}, None, None)
    rows = TableRows("web", "clicks", 0).of_batch(planned(found), after, {"b": seen, "a": None}, None, 0)
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.open()
    table.append("clicks/1", 0, rows, {})
    written = {row["split"]: row["drift_ms"] for row in table.rows().to_pylist()}
    assert written == {"a": None, "b": min(seen - (UNKNOWN + 1), 2**63 - 1)}
