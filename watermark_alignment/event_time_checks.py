"""Checks for mistakes about event time that make alignment ineffective.

The module has no clock, no I/O and no Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flip27_stream.event_time.units import LATEST_OF_SECONDS, UNITS
from flip27_stream.time_text import time_text
from watermark_alignment.options import EVENT_TIME, EVENT_TIME_UNIT

_YEAR_1980_MS: Final = 315_532_800_000
"""The earliest time that a number in another unit is taken for.

A thousand times as much is after the year 9999, so a right time of any year is taken for no such number, except times
of January 1970.
"""
_YEAR_2000_MS: Final = 946_684_800_000
_YEAR_2050_MS: Final = 2_524_608_000_000
_DAY_MS: Final = 86_400_000
_NANOSECONDS_AS_SECONDS: Final = 3
_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_OTHERWISE: Final = (
    " If they are of other years, perhaps they are counters: name the place of the event time "
    f"({EVENT_TIME.name})."
)


_NEW_CHECKPOINT: Final = (
    " A changed option needs a new checkpoint, because this one has the former event times."
)


def wrong_unit(source: str, event_time: str, unit: str, times: Sequence[int], now: int) -> str | None:
    """Returns a warning if event times have another unit than the expected unit.

    Args:
        source: The name of the source.
        event_time: ``scan.watermark.event-time``.
        unit: The configured unit of integers, one of :data:`UNITS`.
        times: Some event times that were read, converted to ms.
        now: The clock (ms). If it is before 2000, the clock is wrong, and there is no warning.

    Returns:
        The warning. ``None`` if the times can be right: not all of them are in January 1970, and no factor of 1,000
        moves them to the years from 1980 to 2050. If times differ in their factor, there is a warning only if the
        factors move all of them between the year 2000 and tomorrow.
    """
    if not times or now <= _YEAR_2000_MS:
        return None
    present = range(_YEAR_2000_MS, now + _DAY_MS + 1)
    if all(_is_no_time(time, _near(now + _DAY_MS), unit) for time in times):
        return (
            f"Event times are in January 1970: {time_text(times[0])} is read from source {source} by "
            f"{EVENT_TIME.name} '{event_time}'. If these are numbers, they are no present times in "
            f"{_NAMES[unit]} or in any other unit: perhaps they are counters. Name the place of the event time "
            f"({EVENT_TIME.name}).{_NEW_CHECKPOINT}"
        )
    found = _by_steps(times, present, unit)
    off = next((steps for steps in found if steps is not None), None)
    if off is None:
        return None
    place = UNITS.index(unit) + off
    factor = f"1{',000' * abs(off)} times too {'great' if off > 0 else 'small'}"
    what = f"{time_text(found[off][0])} is read from source {source} by {EVENT_TIME.name} '{event_time}'"
    if len(found) > 1:
        return (
            f"Some event times are {factor}: {what}, and other records have another unit. Make producers write one "
            "unit, or find the unit of each record with a function (module:function)."
        )
    years = _years_if_not(present, [_moved(time, off) for time in found[off] if time != LATEST_OF_SECONDS])
    condition = f", if the records are of the {years}" if years else ""
    if not 0 <= place < len(UNITS):
        return (
            f"Event times are {factor}{condition}: {what}. Set {EVENT_TIME_UNIT.name} to their unit."
            f"{_NEW_CHECKPOINT}"
        )
    return (
        f"Event times are {factor}{condition}: {what}. They look like {_NAMES[UNITS[place]]} that are read as "
        f"{_NAMES[unit]}: {_remedy(event_time, UNITS[place])}.{_NEW_CHECKPOINT}{_OTHERWISE if years else ''}"
    )


def _by_steps(times: Sequence[int], present: range, unit: str) -> dict[int | None, list[int]]:
    """Returns the times by what :func:`_steps` says of them.

    Times that are no times, such as 0 for an unknown time, are left out. The result is empty if the times need
    different factors, and one of them is in ``present`` neither as it is nor with a factor.
    """
    for period in (_near(present[-1]), present):
        found: dict[int | None, list[int]] = {}
        known = [time for time in times if not _is_no_time(time, period, unit)]
        # Numbers of seconds that are too great for 64 bits are not known. They count if there are no others.
        for time in [time for time in known if time != LATEST_OF_SECONDS] or known:
            found.setdefault(_steps(time, period, unit), []).append(time)
        if len(found) == 1:
            return found
    return found if all(time in present for time in found.get(None, [])) else {}


def _years_if_not(present: range, times: Sequence[int]) -> str:
    """Returns the years of ``times``, such as "years 1995 to 1997"; "" without times, or with one in ``present``."""
    if not times or any(time in present for time in times):
        return ""
    first, last = (time_text(time)[:4] for time in (min(times), max(times)))
    return f"year {first}" if first == last else f"years {first} to {last}"


def _remedy(event_time: str, unit: str) -> str:
    remedy = f"set {EVENT_TIME_UNIT.name} to '{unit}'"
    if not _is_column(event_time):
        return remedy
    return remedy + (
        " if the column is a bigint. A timestamp column has a unit of its own: correct what writes it, or compute "
        "event times with module:function. A JSON integer in a timestamp column counts seconds, as in Spark: "
        "declare the column as bigint where it counts another unit"
    )


def _is_no_time(time: int, period: range, unit: str) -> bool:
    """Returns whether an event time (ms) is in January 1970, and in no unit in ``period``."""
    return 0 <= time < 31 * _DAY_MS and _steps(time, period, unit) is None


def _is_column(event_time: str) -> bool:
    """Returns whether an event time is a column, and not a JSON pointer or a function."""
    return not event_time.startswith("/") and ":" not in event_time


def _near(until: int) -> range:
    """Returns the times (ms) from 1980 to 2050, or to ``until`` (ms) if that is later.

    The range is empty if ``until`` is before 2000: then the clock is wrong.
    """
    return range(_YEAR_1980_MS, max(until, _YEAR_2050_MS)) if until > _YEAR_2000_MS else range(0)


def steps_off(time: int, until: int) -> int | None:
    """Returns how many times ``time`` (ms) must be divided by 1,000 to lie in the years from 1980 to 2050.

    Args:
        time: An event time (ms).
        until: The latest plausible event time (ms). If it is after 2050, it takes the place of that year.

    Returns:
        A number from -1 to 3, where -1 stands for a multiplication by 1,000; ``None`` if the time already lies in these
        years, or if no number moves it there.
    """
    return _steps(time, _near(until), "ms")


def _steps(time: int, period: range, unit: str) -> int | None:
    """Returns how many times ``time`` (ms) must be divided by 1,000 to lie in ``period``, as :func:`steps_off` does.

    The time was converted from ``unit``, one of :data:`UNITS`. It bounds the multiplications, because the longest unit
    is the second.
    """
    if time == LATEST_OF_SECONDS and unit == "s":
        return _NANOSECONDS_AS_SECONDS
    for steps in (0, *range(-1, -UNITS.index(unit) - 1, -1), 1, 2, 3):
        if _moved(time, steps) in period:
            return steps or None
    return None


def _moved(time: int, steps: int) -> int:
    factor: int = 1000 ** abs(steps)
    return time * factor if steps < 0 else time // factor


def no_event_time(source: str, event_time: str, records: int, sample: str) -> str:
    """Returns the warning that none of the records that were read has an event time.

    Args:
        source: The name of the source.
        event_time: ``scan.watermark.event-time``.
        records: The number of records that were read.
        sample: A sentence about one of these records, without its values.
    """
    return (
        f"{EVENT_TIME.name} '{event_time}' gives no event time for any of the {records:,} records of source {source} "
        f"that were read, so nothing is aligned. {_place(sample)}"
    )


def no_event_time_in_split(source: str, event_time: str, records: int, split: str, sample: str) -> str:
    """Returns the warning that many records of a split, one after another, have no event time.

    Args:
        source: The name of the source.
        event_time: ``scan.watermark.event-time``.
        records: The number of these records.
        split: The id of the split.
        sample: A sentence about one of these records, without its values.
    """
    return (
        f"{EVENT_TIME.name} '{event_time}' gives no event time for any of {records:,} records of split {split} of "
        f"source {source}, one after another, so these are not aligned; other records have one. {_place(sample)}"
    )


def _place(sample: str) -> str:
    return (
        f"{sample + ' ' if sample else ''}Name the place of the event time: a column, a JSON pointer to an integer or "
        "to a date and time such as 2026-01-31T12:00:00Z, or module:function."
    )
