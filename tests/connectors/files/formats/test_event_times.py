"""Event times of statistics are those that the rows have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flip27_stream.connectors.files.formats.event_times import TimeRange
from tests.event_time.support.extracted import times

_LARGEST = 2**63 - 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("ticks", [0, 1_999_999, _LARGEST // 1000, _LARGEST // 1000 + 1, _LARGEST])
def test_statistics_and_rows_have_the_same_event_times(unit: str, ticks: int) -> None:
    """Both round down, and limit times that do not fit into 64 bits to the same number of ms."""
    column = pa.array([ticks], pa.int64()).cast(pa.timestamp(unit))
    assert [TimeRange.of_column(column).greatest] == times("at", column, "at")
    assert TimeRange.of(ticks, ticks, column.type) == TimeRange.of_column(column)


def test_seconds_beyond_64_bits_of_milliseconds_are_limited_to_whole_seconds() -> None:
    assert TimeRange.of(-1, _LARGEST, pa.timestamp("s")) == TimeRange(0, 9_223_372_036_854_775_000)
