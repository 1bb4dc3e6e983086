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
    """Returns a warning if event times have another unit than the one that they are read as.

    Args:
        source: The name of the source.
        event_time: ``scan.watermark.event-time``.
        unit: The unit that integers are read as, one of :data:`UNITS`.
        times: Some event times (ms), as they were read.
        now: The clock (ms).

    Returns:
        The warning; ``None`` if the times lie between the year 2000 and tomorrow, or if no single factor would move all
        of them there.
    """
    found = {steps_off(time, now + _DAY_MS) for time in times}
    steps = found.pop() if len(found) == 1 else None
    if steps is None:
        return None
    what = f"{event_time_text(times[0])} is read of source {source} by {EVENT_TIME.name} '{event_time}'"
    factor = f"1{',000' * abs(steps)} times too {'great' if steps > 0 else 'small'}"
    place = UNITS.index(unit) + steps
    remedy = (
        f"They look like {_NAMES[UNITS[place]]} that are read as {_NAMES[unit]}: set {EVENT_TIME_UNIT.name} to "
        f"'{UNITS[place]}'."
        if 0 <= place < len(UNITS)
        else f"Set {EVENT_TIME_UNIT.name} to their unit."
    )
    return (
        f"Event times are {factor}: {what}. {remedy} (A JSON integer in a timestamp column counts seconds, as in "
        "Spark: declare the column as bigint where it counts another unit.)"
    )


def steps_off(time: int, until: int) -> int | None:
    """Returns how often ``time`` (ms) must be divided by 1,000 to lie between the year 2000 and ``until`` (ms).

    Returns:
        A number from -1 to 3, where -1 stands for a multiplication by 1,000; ``None`` if the time lies there as it is,
        or if no such number moves it there.
    """
    for steps in (0, -1, 1, 2, 3):
        moved = time * 1000 if steps < 0 else time // 1000**steps
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
        f"that were read, so nothing is aligned. {sample + ' ' if sample else ''}Name the place where the time is: a "
        "column, a JSON pointer to an integer or an ISO-8601 text, or module:function."
    )
