"""Decodes times of a form that the user gives: one of Java's patterns, such as ``dd/MM/yyyy HH:mm``, or a time zone."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.decoding.datetime_text import (
    INSTANT,
    LOCAL,
    LOCAL_EXAMPLE,
    ZONED_EXAMPLE,
    instants,
    local_times,
)
from flip27_stream.decoding.time_zones import in_zone
from flip27_stream.errors import OptionError

_LETTERS: Final = {
    "yyyy": r"(\d{4})",
    "MM": r"(\d\d)",
    "dd": r"(\d\d)",
    "HH": r"(\d\d)",
    "mm": r"(\d\d)",
    "ss": r"(\d\d)",
    "XXX": r"(Z|[+-]\d\d:\d\d)",
    "XX": r"(Z|[+-]\d{4})",
    "Z": r"([+-]\d{4})",
}
_ISO_8601: Final = (("yyyy", "1970", "-"), ("MM", "01", "-"), ("dd", "01", "T"),
                    ("HH", "00", ":"), ("mm", "00", ":"), ("ss", "00", ""))  # fmt: skip
_ZONES: Final = ("XXX", "XX", "Z")
_PARTS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'\[\]{}#]+")
_HAS_ZONE: Final = r"\d[ T].*[-+ZUG]"
UTC: Final = "UTC"


class TimeForm(ABC):
    """The form of times in text."""

    @abstractmethod
    def expected(self, *, zoned: bool) -> str:
        """Returns what a text should be, for messages; see :meth:`microseconds`."""

    @abstractmethod
    def times(self, text: pa.StringArray, kind: pa.DataType) -> pa.TimestampArray:
        """Parses a column of text.

        Args:
            text: The column.
            kind: The type of the result, :data:`INSTANT` or :data:`LOCAL`.

        Raises:
            pa.ArrowInvalid: A text does not have this form, or is not a valid time. The message quotes it.
        """

    def microseconds(self, text: str, *, zoned: bool) -> int | None:
        """Returns the microseconds since the epoch, or ``None`` if ``text`` is not such a time.

        Args:
            text: The text.
            zoned: Whether the time is of type :data:`INSTANT`; otherwise it is of type :data:`LOCAL`.
        """
        try:
            return int(self.times(pa.array([text], pa.string()), INSTANT if zoned else LOCAL)[0].value)
        except pa.ArrowInvalid:
            return None


@dataclass(frozen=True)
class TimesInZone(TimeForm):
    """Parses times in the forms that Spark casts from. A text without an offset from UTC is in ``time_zone``."""

    time_zone: str

    def expected(self, *, zoned: bool) -> str:
        return ZONED_EXAMPLE if zoned else LOCAL_EXAMPLE

    def times(self, text: pa.StringArray, kind: pa.DataType) -> pa.TimestampArray:
        if kind == LOCAL:
            return local_times(text)
        zoned, null = pc.match_substring_regex(text, _HAS_ZONE), pa.scalar(None, pa.string())
        local = local_times(pc.if_else(zoned, null, text))
        return pc.coalesce(instants(pc.if_else(zoned, text, null)), in_zone(local, self.time_zone))


@dataclass(frozen=True)
class TimePattern(TimeForm):
    """Parses times of one form. Parts that the pattern lacks are those of 1970-01-01 00:00:00.

    Attributes:
        expression: A regular expression for a whole text, with a group for each letter of the pattern.
        iso_8601: The same time in ISO 8601, with references to these groups.
        name: The pattern and its option, for errors.
        has_zone: Whether the pattern has an offset from UTC.
        time_zone: The time zone of texts without such an offset.
    """

    expression: str
    iso_8601: str
    name: str
    has_zone: bool = False
    time_zone: str = UTC

    def expected(self, *, zoned: bool) -> str:
        return f"a time that matches {self.name}"

    @classmethod
    def of(cls, option: str, pattern: str) -> TimePattern:
        """Returns the parser for ``pattern``, which is the value of ``option``.

        Raises:
            OptionError: The pattern has a letter that is not supported, or the same letter twice.
        """
        expression, groups, at = "", list[str](), 0
        while at < len(pattern):
            part = _PARTS.match(pattern, at)
            if part is None or (part[2] and (part[0] not in _LETTERS or part[0] in groups)):
                raise OptionError.of(
                    option,
                    pattern,
                    f"Allowed letters, each once: {', '.join(_LETTERS)}; text in single quotes; and other characters "
                    "except [ ] { } #, because optional parts are not supported.",
                )
            if part[2]:
                groups.append(part[0])
            expression += _LETTERS[part[0]] if part[2] else re.escape(_literal(part[0]))
            at = part.end()
        places = {letters: rf"\{number}" for number, letters in enumerate(groups, 1)}
        clock = "".join(places.get(letters, default) + end for letters, default, end in _ISO_8601)
        zone = next((places[letters] for letters in _ZONES if letters in places), None)
        name = f"pattern '{pattern}' of option '{option}'"
        return cls(f"^{expression}$", clock + (zone or "Z"), name, zone is not None)

    def times(self, text: pa.StringArray, kind: pa.DataType) -> pa.TimestampArray:
        fits = pc.match_substring_regex(text, self.expression)
        if pc.any(pc.invert(fits)).as_py():
            odd = text.filter(pc.invert(fits))[0].as_py()
            raise pa.ArrowInvalid(f"{odd!r} does not match {self.name}")
        found = pc.replace_substring_regex(text, self.expression, self.iso_8601).cast(INSTANT)
        if kind == LOCAL:
            return found.cast(LOCAL)
        return found if self.has_zone or self.time_zone == UTC else in_zone(found.cast(LOCAL), self.time_zone)


def _literal(part: str) -> str:
    """Returns the text that a part without letters stands for. Two single quotes are one, in quotes and outside."""
    if part == "''":
        return "'"
    return part[1:-1].replace("''", "'") if part.startswith("'") else part
