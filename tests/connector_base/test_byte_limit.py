"""Ranges are cut to a number of bytes, and keep what is known of the records behind them."""

from __future__ import annotations

from flip27_stream.api import SplitRange
from flip27_stream.connector_base.byte_limit import within_bytes


def test_a_range_that_cannot_be_cut_stays_limited() -> None:
    """A cut to the bytes can still be at the end of the range, since it is at a record and sizes are estimates."""
    found = SplitRange(0, 10, drained=False, limited=True)
    [cut] = within_bytes({"a": found}, 50, {"a": 10.0}, lambda *_: 10).values()
    assert (cut.end, cut.limited, cut.drained) == (10, True, False)
