"""Decodes times with one of Java's patterns, such as ``dd/MM/yyyy HH:mm``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.decoding.datetime_text import INSTANT, LOCAL
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


@dataclass(frozen=True)
class TimePattern:
    """Parses times of one form. Parts that the pattern lacks are those of 1970-01-01 00:00:00 UTC.

    Attributes:
        expression: A regular expression for a whole text, with a group for each letter of the pattern.
        iso_8601: The same time in ISO 8601, with references to these groups.
        name: The pattern and its option, for errors.
    """

    expression: str
    iso_8601: str
    name: str

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
        zone = next((places[letters] for letters in _ZONES if letters in places), "Z")
        return cls(f"^{expression}$", clock + zone, f"pattern '{pattern}' of option '{option}'")

    def times(self, text: pa.StringArray, kind: pa.DataType) -> pa.TimestampArray:
        """Returns the times of a text column, with the type ``kind``, :data:`INSTANT` or :data:`LOCAL`.

        Raises:
            pa.ArrowInvalid: A text does not have this form, or is not a valid time. The message quotes it.
        """
        fits = pc.match_substring_regex(text, self.expression)
        if pc.any(pc.invert(fits)).as_py():
            odd = text.filter(pc.invert(fits))[0].as_py()
            raise pa.ArrowInvalid(f"{odd!r} does not match {self.name}")
        found = pc.replace_substring_regex(text, self.expression, self.iso_8601).cast(INSTANT)
        return found.cast(LOCAL) if kind == LOCAL else found

    def microseconds(self, text: str) -> int | None:
        """Returns the microseconds since the epoch, or ``None`` if ``text`` is not such a time."""
        try:
            return int(self.times(pa.array([text], pa.string()), INSTANT)[0].value)
        except pa.ArrowInvalid:
            return None


def _literal(part: str) -> str:
    """Returns the text that a part without letters stands for. Two single quotes are one, in quotes and outside."""
    if part == "''":
        return "'"
    return part[1:-1].replace("''", "'") if part.startswith("'") else part
