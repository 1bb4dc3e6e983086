"""Dates and times in text, in the forms that Spark casts from."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE: Final = r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})%s)?)?"
_DAY: Final = re.compile(_DATE % r"(?:[ T].*)?", re.DOTALL)
_TIME: Final = re.compile(
    _DATE % r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?"
    r" ?(?:(Z|UTC|GMT)|(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?)?)?"
)
_BLANK: Final = "".join(map(chr, (*range(33), 127)))
_ERA: Final = 400, 146_097  # years and days after which the calendar repeats


def days(text: str) -> int | None:
    """Days since the epoch, ``None`` if ``text`` is no date; a time behind it is ignored."""
    parts = _DAY.fullmatch(text.strip(_BLANK))
    return None if parts is None else _days(*parts.groups("1"))


def microseconds(text: str, *, zoned: bool) -> int | None:
    """Microseconds since the epoch, ``None`` if ``text`` is no time; in UTC where it names no zone.

    Without ``zoned`` it is a local time, and may name none. More than six decimals are cut off.
    """
    parts = _TIME.fullmatch(text.strip(_BLANK))
    if parts is None:
        return None
    year, month, day, hour, minute, second, fraction, utc, sign, zone_hour, zone_minute = parts.groups()
    if not zoned and (utc or sign):
        return None
    day_number = _days(year, month or "1", day or "1")
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    zone = int(zone_hour or 0), int(zone_minute or 0)
    if day_number is None or max(clock[0], zone[0]) > 23 or max(*clock[1:], zone[1]) > 59:
        return None
    offset = zone[0] * 60 + zone[1]
    minutes = (day_number * 24 + clock[0]) * 60 + clock[1] - (-offset if sign == "-" else offset)
    return (minutes * 60 + clock[2]) * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))


def _days(year: str, month: str, day: str) -> int | None:
    """Python knows the years from 1 to 9999, and days are 32 bits."""
    era, year_of_era = divmod(int(year), _ERA[0])
    try:
        in_era = date(_ERA[0] + year_of_era, int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    number = in_era + (era - 1) * _ERA[1]
    return number if -(1 << 31) <= number < 1 << 31 else None
