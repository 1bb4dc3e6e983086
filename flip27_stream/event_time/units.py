"""The units of event times that are integers (``scan.watermark.event-time.unit``)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

MILLISECONDS: Final = "ms"
UNITS: Final = ("s", MILLISECONDS, "us", "ns")
"""Arrow's names of the units, from the longest to the shortest; each unit is 1,000 of the next."""

_LARGEST: Final = 2**63 - 1
LATEST: Final = _LARGEST - 1
"""The greatest event time (ms). The greatest number of 64 bits is later than every event time: it is the horizon of a
plan that reads everything, and in Flink the watermark at the end of a stream.
"""
LATEST_OF_SECONDS: Final = _LARGEST // 1000 * 1000
"""The event time (ms) of all numbers of seconds that are too great for 64 bits, such as nanoseconds since 1970."""
_PER_MS: Final = {MILLISECONDS: 1, "us": 1000, "ns": 1_000_000}


def to_milliseconds(ticks: pa.Int64Array, unit: str) -> pa.Int64Array:
    """Returns ``ticks`` converted to ms, rounded down and limited to :data:`LATEST`; null for negative numbers.

    Args:
        ticks: Int64 numbers of ``unit``.
        unit: One of :data:`UNITS`.
    """
    ticks = pc.if_else(pc.greater_equal(ticks, 0), ticks, pa.scalar(None, pa.int64()))
    # Arrow's division truncates. Since no number is negative now, it rounds down.
    if unit == "s":
        return pc.multiply(pc.min_element_wise(ticks, _LARGEST // 1000, skip_nulls=False), 1000)
    if unit == MILLISECONDS:
        return pc.min_element_wise(ticks, LATEST, skip_nulls=False)
    return pc.divide(ticks, _PER_MS[unit])


def milliseconds_of(number: int, unit: str) -> int:
    """Returns a number of ``unit``, 0 or greater, converted to ms, rounded down and limited to :data:`LATEST`."""
    return min(number, _LARGEST // 1000) * 1000 if unit == "s" else min(number // _PER_MS[unit], LATEST)
