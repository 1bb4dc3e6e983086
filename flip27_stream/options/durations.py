"""Parses durations and units of time in the values of options."""

from __future__ import annotations

import re
from collections.abc import Collection
from fractions import Fraction
from typing import Final

from flip27_stream.errors import OptionError

DURATION_FORMS: Final = (
    'a number and a unit such as "5 minutes", "5min", "300 s", "250 ms", "1 h 30 min", or "PT5M"'
)

_MS_PER_UNIT: Final = {
    unit: factor
    for units, factor in (
        ("ns nano nanos nanosecond nanoseconds", Fraction(1, 1_000_000)),
        ("us µs micro micros microsecond microseconds", Fraction(1, 1000)),
        ("ms milli millis millisecond milliseconds", Fraction(1)),
        ("s sec secs second seconds", Fraction(1000)),
        ("m min mins minute minutes", Fraction(60_000)),
        ("h hour hours", Fraction(3_600_000)),
        ("d day days", Fraction(86_400_000)),
        ("w week weeks", Fraction(7 * 86_400_000)),
    )
    for unit in units.split()
}
_SHORT: Final = {_MS_PER_UNIT[unit]: unit for unit in ("ns", "us", "ms", "s", "m", "h", "d", "w")}
_MAX_MS: Final = 2**62
"""The limit of durations in ms; the sum of a time and a shorter duration fits into 64 bits."""

_TERM: Final = re.compile(r"([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([a-zµ]+)\s*")
_TERMS: Final = re.compile(rf"(?:{_TERM.pattern})+")
_ISO: Final = re.compile(
    r"p(?=[0-9t])((?:[0-9]+[wd])*)(?:t(?=[0-9])((?:[0-9]+[hm])*(?:[0-9]+(?:\.[0-9]+)?s)?))?"
)


def parse_duration(text: str, option: str) -> int:
    """Returns a duration in ms. It may have Flink's, Spark's or ISO-8601 spelling; "0" needs no unit.

    Args:
        text: The value of the option.
        option: The name of the option, for the error.

    Raises:
        OptionError: ``text`` is not a duration, is negative, is not whole milliseconds, or is too long.
    """
    if not isinstance(text, str):
        raise OptionError.of(option, text, f"Expected a duration: {DURATION_FORMS}.")
    words = text.strip().lower().removeprefix("interval ").strip()
    if words == "0":
        return 0
    if iso := _ISO.fullmatch(words):
        words = "".join(part for part in iso.groups() if part)
    if not _TERMS.fullmatch(words):
        raise OptionError.of(option, text, f"Expected a duration: {DURATION_FORMS}.")
    terms = _TERM.findall(words)
    if any(unit not in _MS_PER_UNIT for _, unit in terms):
        raise OptionError.of(option, text, f"Expected a duration: {DURATION_FORMS}.")
    duration = sum((Fraction(number) * _MS_PER_UNIT[unit] for number, unit in terms), Fraction())
    if duration.denominator != 1:
        raise OptionError.of(option, text, "Expected a whole number of milliseconds.")
    if duration >= _MAX_MS:
        raise OptionError.of(option, text, f"Expected less than {_MAX_MS // 86_400_000} days.")
    return int(duration)


def parse_duration_or_ms(text: str, option: str) -> int:
    """Returns a duration in ms, as :func:`parse_duration` does; a number without a unit is in ms.

    Args:
        text: The value of the option.
        option: The name of the option, for the error.

    Raises:
        OptionError: ``text`` is not an allowed duration.
    """
    words = text.strip()
    return parse_duration(f"{words} ms" if re.fullmatch(r"\d+", words, re.ASCII) else words, option)


def parse_unit(text: str, option: str, allowed: Collection[str]) -> str:
    """Returns the short name of a unit of time, such as ``ms`` for ``Milliseconds``.

    Args:
        text: The value of the option, in any spelling that durations allow.
        option: The name of the option, for the error.
        allowed: The short names of the allowed units.

    Raises:
        OptionError: ``text`` is not one of the allowed units.
    """
    factor = _MS_PER_UNIT.get(text.strip().lower())
    unit = None if factor is None else _SHORT[factor]
    if unit is None or unit not in allowed:
        raise OptionError.of(option, text, f"Allowed: {', '.join(allowed)}.")
    return unit
