"""What is known of splits after a plan: in columns, and one split after the other. No JVM."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.spark.planning.micro_batch.split_tracker import TrackedRow
from flip27_stream.spark.planning.micro_batch.tracked_splits import TrackedSplits
from watermark_alignment.planner import Plan

_TIMES = st.none() | st.integers(-3, 9) | st.sampled_from([2**63 - 1, -(2**63) + 1])
_SEQUENCE_NUMBER = 49 * 10**54
"""Such a position does not fit 64 bits, so that splits are looked at one after the other."""


@st.composite
def rows(draw: st.DrawFn) -> tuple[TrackedRow, int]:
    """What is known of a split, and the position up to which a plan reads it."""
    position = draw(st.integers(0, 5))
    end = position + draw(st.integers(0, 3))
    row = position, end, draw(_TIMES), draw(_TIMES), draw(_TIMES), None, False
    return row, draw(st.integers(position, end))


@given(st.lists(rows(), max_size=6), _TIMES)
def test_greatest_event_time_read_is_the_same_in_columns(
    splits: list[tuple[TrackedRow, int]], horizon: int | None
) -> None:
    ids = [f"s{number}" for number in range(len(splits))]
    ends = dict(zip(ids, (end for _, end in splits), strict=True))
    large: TrackedRow = (_SEQUENCE_NUMBER, _SEQUENCE_NUMBER, None, None, None, None, False)
    in_columns = TrackedSplits(ids, [row for row, _ in splits])
    one_by_one = TrackedSplits([*ids, "shard"], [*(row for row, _ in splits), large])
    assert in_columns.columns is not None
    assert one_by_one.columns is None
    expected = one_by_one.read_max_after(_plan({**ends, "shard": _SEQUENCE_NUMBER}, horizon))
    assert expected.pop("shard") is None
    assert in_columns.read_max_after(_plan(ends, horizon)) == expected


def _plan(ends: dict[str, int], horizon: int | None) -> Plan:
    return Plan(horizon, ends, {}, {}, None, None)
