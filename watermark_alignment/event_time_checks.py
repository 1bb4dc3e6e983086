"""Checks for mistakes about event time that make alignment ineffective. Pure: no clock, no I/O, no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from watermark_alignment.formatting import event_time as event_time_text
from watermark_alignment.options import EVENT_TIME, EVENT_TIME_UNIT

UNITS: Final = ("s", "ms", "us", "ns")
_YEAR_2000_MS: Final = 946_684_800_000
_DAY_MS: Final = 86_400_000
_NAMES: Final = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def wrong_unit(source: str, event_time: str, unit: str, times: Sequence[int], now: int) -> str | None:
    """Returns a warning if event times have another unit than the expected unit.

    Args:
        source: The name of the source.
        event_time: ``scan.watermark.event-time``.
        unit: The configured unit of integers, one of :data:`UNITS`.
        times: Some event times that were read, converted to ms.
        now: The clock (ms).

    Returns:
        The warning. ``None`` if the times lie between the year 2000 and tomorrow; or if no factor of 1,000 moves them
        there, and not all of them are in January 1970.
    """
    if times and now > _YEAR_2000_MS and all(_is_no_time(time, now + _DAY_MS, unit) for time in times):
        return (
            f"Event times are in January 1970: {event_time_text(times[0])} is read from source {source} by "
            f"{EVENT_TIME.name} '{event_time}'. If these are numbers, they are no present times in "
            f"{_NAMES[unit]} or in any other unit: perhaps they are counters. Name the place of the event time "
            f"({EVENT_TIME.name})."
        )
    until = now + _DAY_MS
    times = [time for time in times if not _is_no_time(time, until, unit)]  # Such as 0 for an unknown time.
    found = {steps_off(time, until, unit): time for time in times}
    if len(found) > 1 and not _YEAR_2000_MS <= found.get(None, until) <= until:
        return None
    off = next(((steps, time) for steps, time in found.items() if steps is not None), None)
    if off is None:
        return None
    steps, time = off
    place = UNITS.index(unit) + steps
    factor = f"1{',000' * abs(steps)} times too {'great' if steps > 0 else 'small'}"
    what = f"{event_time_text(time)} is read from source {source} by {EVENT_TIME.name} '{event_time}'"
    if len(found) > 1:
        return (
            f"Some event times are {factor}: {what}, and other records have another unit. Make producers write one "
            "unit, or find the unit of each record with a function (module:function)."
        )
    if not 0 <= place < len(UNITS):
        return f"Event times are {factor}: {what}. Set {EVENT_TIME_UNIT.name} to their unit."
    return (
        f"Event times are {factor}: {what}. They look like {_NAMES[UNITS[place]]} that are read as {_NAMES[unit]}: "
        f"{_remedy(event_time, UNITS[place])}."
    )


def _remedy(event_time: str, unit: str) -> str:
    remedy = f"set {EVENT_TIME_UNIT.name} to '{unit}'"
    if not _is_column(event_time):
        return remedy
    return remedy + (
        " if the column is a bigint. A timestamp column has a unit of its own: correct what writes it, or compute "
        "event times with module:function. A JSON integer in a timestamp column counts seconds, as in Spark: "
        "declare the column as bigint where it counts another unit"
    )


def _is_no_time(time: int, until: int, unit: str) -> bool:
    """Returns whether an event time (ms) is in January 1970, whatever its unit is."""
    return 0 <= time < 31 * _DAY_MS and steps_off(time, until, unit) is None


def _is_column(event_time: str) -> bool:
    """Returns whether an event time is a column, and not a JSON pointer or a function."""
    return not event_time.startswith("/") and ":" not in event_time


def steps_off(time: int, until: int, unit: str = "ms") -> int | None:
    """Returns how often ``time`` (ms) must be divided by 1,000 to lie between the year 2000 and ``until`` (ms).

    Args:
        time: An event time (ms), converted from ``unit``.
        until: The latest plausible event time (ms).
        unit: The configured unit, one of :data:`UNITS`. It bounds the multiplications, because the longest unit is the
            second.

    Returns:
        A number from -3 to 3, where negative numbers stand for multiplications by 1,000; ``None`` if the time already
        lies between the two, or if no number moves it there.
    """
    for steps in (0, *range(-1, -UNITS.index(unit) - 1, -1), 1, 2, 3):
        moved = time * 1000**-steps if steps < 0 else time // 1000**steps
        if _YEAR_2000_MS <= moved <= until:
            return steps or None
    return None


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
