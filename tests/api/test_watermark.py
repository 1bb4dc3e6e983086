"""Tests of watermark strategies and of their timestamp assigners."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from flip27_stream.api import (
    RecordTimestampAssigner,
    TimestampAssigner,
    WatermarkAlignment,
    WatermarkStrategy,
)


@pytest.mark.parametrize("timeout", [0, -1])
def test_wm_05_idle_timeout_is_positive(timeout: int) -> None:
    """An idle timeout of zero or less raises an error (WM-05)."""
    with pytest.raises(ValueError, match="idle_timeout_ms must be positive"):
        WatermarkStrategy.for_monotonous_timestamps().with_idleness(timeout)


def test_wm_30_a_strategy_keeps_alignment_and_idleness_in_any_order() -> None:
    """A strategy keeps its alignment and its idle timeout, whichever is set last.

    The default update interval is 1 s (WM-30).
    """
    plain = WatermarkStrategy.for_monotonous_timestamps()
    both = plain.with_watermark_alignment("group-1", 200).with_idleness(200)
    assert (both.alignment, both.idle_timeout_ms) == (WatermarkAlignment("group-1", 200, 1000), 200)
    assert both == plain.with_idleness(200).with_watermark_alignment("group-1", 200)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: WatermarkAlignment("g", -1), "max_drift_ms"),
        (lambda: WatermarkAlignment("g", 0, 0), "update_interval_ms"),
        (lambda: WatermarkAlignment("g", 0, -1), "update_interval_ms"),
        (lambda: WatermarkAlignment("", 0), "group"),
        (lambda: WatermarkStrategy.for_bounded_out_of_orderness(-1), "max_out_of_orderness_ms"),
    ],
)
def test_op_04_an_error_names_the_wrong_parameter(make: Callable[[], object], named: str) -> None:
    """The error about a wrong parameter names the parameter (OP-04)."""
    with pytest.raises(ValueError, match=named):
        make()


def test_op_04_a_drift_of_zero_is_allowed() -> None:
    """A maximum drift of zero is allowed (OP-04)."""
    assert WatermarkAlignment("g", 0).max_drift_ms == 0


def test_assigners_give_times_of_a_column_or_of_the_record() -> None:
    class FromColumn(TimestampAssigner):
        def extract_timestamps(
            self, records: pa.RecordBatch, timestamps: pa.Int64Array | None
        ) -> pa.Int64Array:
            return records.column("t")

    records = pa.RecordBatch.from_pydict({"t": [1, None]})
    times = pa.array([7, 8])
    assert RecordTimestampAssigner().extract_timestamps(records, times) is times
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FromColumn())
    assert strategy.timestamp_assigner.extract_timestamps(records, times).to_pylist() == [1, None]
    with pytest.raises(ValueError, match="carry no timestamps"):
        RecordTimestampAssigner().extract_timestamps(records, None)
