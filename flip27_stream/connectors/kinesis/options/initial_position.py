"""Parses option ``initialPosition``, the position at which a new query begins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum

from flip27_stream.errors import OptionError
from flip27_stream.options.iso_times import epoch_ms, parse_iso_time
from flip27_stream.options.kinds import json_object
from flip27_stream.time_text import time_text

_ALLOWED = (
    'Allowed: latest, trim_horizon, earliest, or JSON such as {"at_timestamp": "2024-06-25T10:23:45Z"} or '
    '{"at_timestamp": "06/25/2024 10:23:45 PDT", "format": "MM/dd/yyyy HH:mm:ss ZZZ"}.'
)
_FIRST_MS, _LAST_MS = 946_684_800_000, 253_402_300_799_999
"""The years 2000 and 9999: the time of a record is later, and a number of seconds is an earlier time."""
_CLOCKS_DIFFER_MS = 60_000
_FIRST_S = _FIRST_MS // 1000
_ZONES = {"UTC": 0, "GMT": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6}
_ZONES |= {"PST": -8, "PDT": -7}
_FIELDS = {
    "yyyy": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d{1,2})",
    "dd": r"(?P<day>\d{1,2})",
    "HH": r"(?P<hour>\d{1,2})",
    "mm": r"(?P<minute>\d{1,2})",
    "ss": r"(?P<second>\d{1,2})",
    "SSS": r"(?P<ms>\d{1,3})",
}
_DAY_MINUTES = 24 * 60
_PATTERN = re.compile(r"(?P<quoted>'[^']*')|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z'])")


class Start(Enum):
    """The kinds of initial positions."""

    LATEST = "latest"
    TRIM_HORIZON = "trim_horizon"
    AT_TIMESTAMP = "at_timestamp"


@dataclass(frozen=True)
class InitialPosition:
    """The place where reading begins. ``time`` (ms) is only used for AT_TIMESTAMP."""

    start: Start
    time: int = 0

    def start_time(self, now: int) -> int:
        """Returns the time (ms) from which a new query reads shards, unless it reads them from the trim horizon.

        Args:
            now: The present time (ms).

        Raises:
            OptionError: The time is more than a minute in the future. The service would begin at the next record. A
                smaller difference may be that of two clocks: the end of a fresh history is a time of the service.
        """
        if self.start is not Start.AT_TIMESTAMP:
            return now
        if self.time > now + _CLOCKS_DIFFER_MS:
            raise OptionError(
                f"Option 'initialPosition' begins at {time_text(self.time)} UTC, which is in the future. Start the "
                "query after that time, or begin at an earlier time or at latest."
            )
        return self.time


def parse_initial_position(text: str, name: str) -> InitialPosition:
    """Returns the initial position in the value ``text`` of option ``name``.

    Raises:
        OptionError: The text is not an initial position.
    """
    word = text.strip().lower()
    if word in ("latest", "trim_horizon", "earliest"):
        return InitialPosition(Start.LATEST if word == "latest" else Start.TRIM_HORIZON)
    if not word.startswith("{"):
        raise OptionError.of(name, text, _ALLOWED)
    fields = json_object(text, name, _ALLOWED)
    given = {key.lower(): value for key, value in fields.items()}
    time, pattern = given.pop("at_timestamp", None), given.pop("format", None)
    if (
        len(fields) != 1 + (pattern is not None)
        or given
        or not isinstance(time, (str, int))
        or isinstance(time, bool)
    ):
        raise OptionError.of(name, text, _ALLOWED)
    if isinstance(time, int) and pattern is None and 0 <= time < _FIRST_S:
        # Every record is later, whether these are milliseconds or seconds. An empty history of a hybrid source gives 0.
        return InitialPosition(Start.TRIM_HORIZON)
    if isinstance(time, int):
        moment: int | None = time if pattern is None else None
    else:
        parsed = parse_iso_time(time) if pattern is None else _parsed(time, str(pattern))
        moment = None if parsed is None else epoch_ms(parsed)
    if moment is None:
        raise OptionError.of(
            name, text, f"The time does not match 'format', or is not in ISO 8601. {_ALLOWED}"
        )
    if not _FIRST_MS <= moment <= _LAST_MS:
        raise OptionError.of(
            name, text, "Allowed: a time from the year 2000 to 9999. A number is in milliseconds since 1970."
        )
    return InitialPosition(Start.AT_TIMESTAMP, moment)


def _parsed(text: str, pattern: str) -> datetime | None:
    """Returns the time that ``text`` has in the form of ``pattern``, or ``None`` if the two do not fit.

    The pattern is one of Java's ``SimpleDateFormat`` with numbers and a zone only.
    """
    regex = ""
    for part in _PATTERN.finditer(pattern):
        letters = part["letters"]
        if letters in _FIELDS:
            regex += _FIELDS[letters]
        elif letters is not None and letters[0] in "zZX":
            regex += r"(?P<zone>[A-Za-z]+|[+-]\d{2}:?\d{2})"
        elif letters is not None:
            return None
        else:
            regex += re.escape((part["quoted"] or part["other"]).strip("'"))
    try:
        found = re.fullmatch(regex, text.strip())
    except re.error:
        return None
    return None if found is None else _of_fields(found.groupdict())


def _of_fields(fields: dict[str, str | None]) -> datetime | None:
    zone = _zone(fields.get("zone"))
    numbers = {name: int(value) for name, value in fields.items() if name != "zone" and value is not None}
    microsecond = numbers.pop("ms", 0) * 1000
    if zone is None or not {"year", "month", "day"} <= numbers.keys():
        return None
    try:
        return datetime(**numbers, microsecond=microsecond, tzinfo=zone)
    except ValueError:
        return None


def _zone(text: str | None) -> timezone | None:
    if text is None:
        return timezone.utc
    if text.upper() in _ZONES:
        return timezone(timedelta(hours=_ZONES[text.upper()]))
    if found := re.fullmatch(r"([+-])(\d{2}):?(\d{2})", text):
        minutes = int(found[2]) * 60 + int(found[3])
        if minutes >= _DAY_MINUTES:
            return None
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    return None
