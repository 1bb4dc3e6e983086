"""Tests of times as text."""

from __future__ import annotations

import pytest

from flip27_stream.time_text import time_text


@pytest.mark.parametrize(
    ("ms", "to_the_second", "to_the_millisecond"),
    [
        (0, "1970-01-01 00:00:00", "1970-01-01 00:00:00.000"),
        (1_769_860_800_999, "2026-01-31 12:00:00", "2026-01-31 12:00:00.999"),
        (-1, "1969-12-31 23:59:59", "1969-12-31 23:59:59.999"),
        (253_402_300_800_000, "253402300800000 ms", "253402300800000 ms"),
        (2**63 - 1, "9223372036854775807 ms", "9223372036854775807 ms"),
        (-(2**63), "-9223372036854775808 ms", "-9223372036854775808 ms"),
    ],
)
def test_a_time_is_shown_in_utc_or_as_a_number(ms: int, to_the_second: str, to_the_millisecond: str) -> None:
    assert time_text(ms) == to_the_second
    assert time_text(ms, "milliseconds") == to_the_millisecond
