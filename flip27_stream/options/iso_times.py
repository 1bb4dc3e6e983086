"""Parses ISO 8601 times in the values of options."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from flip27_stream.time_text import EPOCH

_HOUR, _MINUTE = "(?:[01][0-9]|2[0-3])", "[0-5][0-9]"
_TIME: Final = rf"{_HOUR}(?::{_MINUTE}(?::{_MINUTE}(?P<fraction>\.[0-9]{{1,9}})?)?)?"
_OFFSET: Final = rf"[+-]{_HOUR}:{_MINUTE}(?::{_MINUTE}(?:\.[0-9]{{6}})?)?"
_FORM: Final = re.compile(
    rf"(?P<date>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:.(?P<time>{_TIME})(?P<zone>{_OFFSET}|[zZ])?|[zZ])?",
    re.DOTALL,
)
"""The texts that ``datetime.fromisoformat`` of Python 3.10 accepts, and fractions of one to nine digits. Later
versions of Python accept more. Any character may stand between date and time.
"""


def parse_iso_time(text: str) -> datetime | None:
    """Returns the time of an ISO 8601 date, or date and time, such as ``2026-01-31T12:00:00.000Z``.

    The time zone is ``Z`` or an offset such as ``+01:00``; without one the time is in UTC. The same texts are accepted
    with every version of Python.

    Returns:
        The time with a time zone, or ``None`` if ``text`` has another form.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    zone, fraction = found["zone"] or "Z", found["fraction"] or ""
    seconds = (found["time"] or "00").removesuffix(fraction)
    microseconds = f"{fraction:0<7}"[:7] if fraction else ""
    try:
        return datetime.fromisoformat(
            f"{found['date']}T{seconds}{microseconds}{'+00:00' if zone in 'zZ' else zone}"
        )
    except ValueError:
        return None


def epoch_ms(time: datetime) -> int:
    """Returns the whole milliseconds since the epoch of a time with a time zone, rounded down."""
    return (time - EPOCH) // timedelta(milliseconds=1)
