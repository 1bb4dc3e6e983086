"""Decoders of dates and times in text, in the forms that Spark casts from: of columns, and of single texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

INSTANT: Final = pa.timestamp("us", tz="UTC")
"""Spark's ``timestamp``."""

LOCAL: Final = pa.timestamp("us")
"""Spark's ``timestamp_ntz``."""

ZONED_EXAMPLE: Final = "a time such as 2026-01-31T12:00:00Z"
LOCAL_EXAMPLE: Final = (
    "a time without a zone such as 2026-01-31T12:00:00, as type timestamp_ntz needs (give the column type "
    "timestamp_ltz if its times have zones)"
)
"""What a text of type :data:`INSTANT` or :data:`LOCAL` should be, for messages."""

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DATE: Final = r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})%s)?)?"
_DAY: Final = re.compile(_DATE % r"(?:[ T].*)?", re.DOTALL)
_TIME: Final = re.compile(
    _DATE % r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?"
    r"(?: *(?:(Z|UTC|GMT|UT)|(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{1,2})(?::?([0-9]{2}))?)?))?)?"
)
_BLANK: Final = "".join(map(chr, (*range(33), 127)))
_ERA: Final = 400, 146_097  # The calendar repeats after this number of years, which have this number of days.

_ZONED: Final = r":\d\d(\.\d*)?(Z|[+-]\d\d(:?\d\d)?)$"
_USUAL: Final = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d*)?)?(Z|[+-]\d\d:?\d\d)?)?$"
_TOO_FINE: Final = r"(\.\d{6})\d+"
_DATE_ALONE: Final = r"^\d{4}-\d\d-\d\d$"


def dates(text: pa.StringArray) -> pa.Date32Array:
    """Returns the dates of a text column. A time after the date is ignored.

    Raises:
        pa.ArrowInvalid: A text is not a date. The message quotes it.
    """
    try:
        return text.cast(pa.date32())
    except pa.ArrowInvalid:
        return _one_by_one(text, pa.int32(), days, "a date such as 2026-01-31").view(pa.date32())


def instants(text: pa.StringArray) -> pa.TimestampArray:
    """Returns the instants of a text column, in UTC if a text has no time zone; see :func:`microseconds`.

    Raises:
        pa.ArrowInvalid: A text is not a time. The message quotes it.
    """
    found = _instants_at_once(text)
    if found is None:
        read = partial(microseconds, zoned=True)
        return _one_by_one(text, pa.int64(), read, ZONED_EXAMPLE).view(INSTANT)
    return found


def instants_or_null(text: pa.StringArray) -> pa.TimestampArray:
    """Returns the instants of a text column, null for a text that is not a time; see :func:`instants`.

    Texts may have bytes that are not UTF-8.
    """
    found = _instants_at_once(text)
    if found is not None:
        return found
    usual = pc.match_substring_regex(text, _USUAL).fill_null(False)
    found = _instants_at_once(pc.if_else(usual, text, pa.scalar(None, pa.string())))
    if found is None:
        return _each_or_null(text)
    odd = pc.and_not(text.is_valid(), usual)
    return pc.replace_with_mask(found, odd, _each_or_null(text.filter(odd)))


def local_times(text: pa.StringArray) -> pa.TimestampArray:
    """Returns the local times of a text column; see :func:`instants`."""
    try:
        return text.cast(LOCAL)
    except pa.ArrowInvalid:
        pass
    try:
        return _no_finer(text).cast(LOCAL)
    except pa.ArrowInvalid:
        read = partial(microseconds, zoned=False)
        return _one_by_one(text, pa.int64(), read, LOCAL_EXAMPLE).view(LOCAL)


def days(text: str) -> int | None:
    """Returns the days since the epoch, or ``None`` if ``text`` is not a date. A time after the date is ignored."""
    parts = _DAY.fullmatch(text.strip(_BLANK))
    return None if parts is None else _days(*parts.groups("1"))


def microseconds(text: str, *, zoned: bool) -> int | None:
    """Returns the microseconds since the epoch, or ``None`` if ``text`` is not a time or its time exceeds 64 bits.

    Decimals of a second after the sixth are dropped.

    Args:
        text: A date and a time. Parts at the end can be missing.
        zoned: Whether the text can have an offset from UTC; without an offset it is in UTC. If false, it is a local
            time.
    """
    parts = _TIME.fullmatch(text.strip(_BLANK))
    if parts is None:
        return None
    year, month, day, *clock, fraction, utc, sign, hours, minutes, seconds = parts.groups()
    if not zoned and (utc or sign):
        return None
    since_midnight = _seconds(*clock)
    offset = _seconds(hours, minutes, seconds)
    day_number = _days(year, month or "1", day or "1")
    if day_number is None or since_midnight is None or offset is None:
        return None
    total = day_number * 86_400 + since_midnight + (offset if sign == "-" else -offset)
    found = total * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    return found if -(1 << 63) <= found < 1 << 63 else None


def _seconds(hour: str | None, minute: str | None, second: str | None) -> int | None:
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    return (clock[0] * 60 + clock[1]) * 60 + clock[2]


def _days(year: str, month: str, day: str) -> int | None:
    """Returns the days since the epoch, or ``None`` if they exceed 32 bits.

    Python's dates have only the years 1 to 9999.
    """
    era, year_of_era = divmod(int(year), _ERA[0])
    try:
        in_era = date(_ERA[0] + year_of_era, int(month), int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
    number = in_era + (era - 1) * _ERA[1]
    return number if -(1 << 31) <= number < 1 << 31 else None


def _instants_at_once(text: pa.StringArray) -> pa.TimestampArray | None:
    """Returns the instants of texts in the usual forms; ``None`` if a text has another form or is not a time."""
    try:
        return text.cast(INSTANT)
    except pa.ArrowInvalid:
        pass
    plain = _no_finer(text)
    dated = pc.if_else(pc.match_substring_regex(plain, _DATE_ALONE), _joined(plain, " 00:00:00"), plain)
    zoned = pc.match_substring_regex(dated, _ZONED)
    try:
        return pc.if_else(zoned, dated, _joined(dated, "Z")).cast(INSTANT)
    except pa.ArrowInvalid:
        return None


def _each_or_null(text: pa.StringArray) -> pa.TimestampArray:
    texts = (
        None if one is None else one.decode(errors="replace") for one in text.view(pa.binary()).to_pylist()
    )
    times = (None if one is None else microseconds(one, zoned=True) for one in texts)
    return pa.array(times, pa.int64()).view(INSTANT)


def _no_finer(text: pa.StringArray) -> pa.StringArray:
    """Returns ``text`` without surrounding blanks and without decimals of a second after the sixth."""
    return pc.replace_substring_regex(pc.ascii_trim(text, _BLANK), _TOO_FINE, r"\1")


def _joined(text: pa.StringArray, suffix: str) -> pa.StringArray:
    return pc.binary_join_element_wise(text, suffix, "")


def _one_by_one(
    text: pa.StringArray, kind: pa.DataType, convert: Callable[[str], int | None], example: str
) -> pa.Array:
    values = text.to_pylist()
    found = [None if value is None else convert(value) for value in values]
    for value, number in zip(values, found, strict=True):
        if number is None and value is not None:
            raise pa.ArrowInvalid(f"{value!r} is not {example}")
    return pa.array(found, kind)
