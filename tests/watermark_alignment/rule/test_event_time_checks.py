"""Which event times the check of units calls wrong, over all units and plausible dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import product

import pytest

from flip27_stream.event_time.units import UNITS, milliseconds_of
from watermark_alignment.event_time_checks import wrong_unit

PER_SECOND = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}
DAY_MS = 86_400_000


def of(year: int, month: int = 1, day: int = 1) -> int:
    """Returns the seconds since the epoch."""
    return int(datetime(year, month, day, tzinfo=timezone.utc).timestamp())


NOW = of(2026, 11, 27) * 1000
CLOCKS = (of(2001) * 1000, NOW, of(2036) * 1000)


def dates(first: int, last: int) -> Iterator[int]:
    """Yields a day of each month. Seconds that are read as nanoseconds lose up to 12 days, so it is the 15th."""
    return (of(year, month, 15) for year in range(first, last + 1) for month in range(1, 13))


def read(seconds: int, written: str, unit: str) -> int:
    """Returns the event time (ms) of a number that is written in one unit and read as if it had another."""
    return seconds * PER_SECOND[written] * 1000 // PER_SECOND[unit]


def warning(*times: int, unit: str = "ms", now: int = NOW) -> str | None:
    return wrong_unit("clicks", "/t", unit, times, now)


@pytest.mark.parametrize("now", CLOCKS)
@pytest.mark.parametrize("unit", UNITS)
def test_no_right_date_is_called_wrong(unit: str, now: int) -> None:
    """A right date is accepted alone, beside another right date, and beside 0 for an unknown time."""
    right = [read(seconds, unit, unit) for seconds in dates(1980, 2035)]
    assert {warning(time, unit=unit, now=now) for time in right} == {None}
    assert {warning(0, *pair, unit=unit, now=now) for pair in product(right[::25], repeat=2)} == {None}


@pytest.mark.parametrize("unit", UNITS)
def test_no_other_date_after_january_1970_is_called_wrong(unit: str) -> None:
    """The earliest dates are accepted, and the last day of the year 9999, which stands for "never" in many systems."""
    days = [of(1970, 2), *dates(1971, 1979), *dates(2036, 2100), of(9999, 12, 31)]
    assert {warning(read(seconds, unit, unit), unit=unit) for seconds in days} == {None}


@pytest.mark.parametrize("now", CLOCKS)
@pytest.mark.parametrize("written", UNITS)
@pytest.mark.parametrize("unit", UNITS)
def test_a_date_in_another_unit_is_found_with_its_unit(written: str, unit: str, now: int) -> None:
    """The warning has a condition, with the year, if the date is before 2000 or after tomorrow."""
    if written == unit:
        return
    for seconds in dates(1981, 2035):
        text = str(warning(read(seconds, written, unit), unit=unit, now=now))
        assert f"set scan.watermark.event-time.unit to '{written}'" in text, seconds
        is_present = of(2000) <= seconds <= now // 1000 + 86_400
        year = datetime.fromtimestamp(seconds, timezone.utc).year
        years = re.findall(r"times too \w+, if the records are of the year (\d{4}): ", text)
        assert years == ([] if is_present else [str(year)]), seconds
        assert ("perhaps they are counters" in text) == (not is_present)


def test_nanoseconds_that_are_read_as_seconds_are_named() -> None:
    """As seconds they are too great for 64 bits, so the event time does not have their factor."""
    text = str(warning(0, milliseconds_of(NOW * 10**6, "s"), unit="s"))
    assert text.startswith("Event times are 1,000,000,000 times too great: ")
    assert "set scan.watermark.event-time.unit to 'ns'." in text
    assert "if the records are of" not in text


def test_a_number_of_seconds_for_never_is_no_unit() -> None:
    """The greatest number stands for "never" beside right times, and in milliseconds."""
    never = 2**63 - 1
    assert warning(NOW, milliseconds_of(never, "s"), unit="s") is None
    assert warning(milliseconds_of(never, "s")) is None


def test_the_condition_names_the_years() -> None:
    assert warning(of(1995), of(1997)) == (
        "Event times are 1,000 times too small, if the records are of the years 1995 to 1997: 1970-01-10 03:08:38 is "
        "read from source clicks by scan.watermark.event-time '/t'. They look like seconds that are read as "
        "milliseconds: set scan.watermark.event-time.unit to 's'. A changed option needs a new checkpoint, because "
        "this one has the former event times. If they are of other years, perhaps they are "
        "counters: name the place of the event time (scan.watermark.event-time)."
    )


def test_history_that_reaches_the_present_has_no_condition() -> None:
    for written in ("s", "us"):
        text = str(warning(*(read(seconds, written, "ms") for seconds in (of(1995), of(2026)))))
        assert f"set scan.watermark.event-time.unit to '{written}'." in text
        assert "if the records are of" not in text


@pytest.mark.parametrize("days", [4, 6, 10, 22, 28])
def test_a_time_of_january_1970_beside_right_times_is_no_other_unit(days: int) -> None:
    """A device may write the time since it was started. It would be seconds only in the years 1980 to 1999, or in the
    future.
    """
    assert warning(days * DAY_MS, NOW) is None
    assert warning(days * DAY_MS) is not None


def test_right_history_beside_another_unit_is_not_judged() -> None:
    assert warning(of(1995) * 1000, NOW * 1000) is None
    assert "Some event times are 1,000 times too great" in str(warning(of(2005) * 1000, NOW * 1000))


def test_numbers_that_are_times_in_no_unit_are_called_counters() -> None:
    for number in (5, 20_000, NOW // 60_000, of(1979), of(2051)):
        assert "in January 1970: 1970-01-" in str(warning(number))


def test_without_a_true_clock_nothing_is_said() -> None:
    for now in (0, of(1995) * 1000):
        assert warning(5, of(1995), NOW * 1000, now=now) is None
        assert warning(of(1995), now=now) is None
