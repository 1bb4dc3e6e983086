"""Dates and times in text, as columns."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.connectors.files.formats.schemas import INSTANT, LOCAL
from flip27_stream.errors import OptionError

_ZONED = r":\d\d(\.\d*)?(Z|[+-]\d\d(:?\d\d)?)$"
_TOO_FINE = r"(\.\d{6})\d+"
_DATE = r"^\d{4}-\d\d-\d\d$"

_STRPTIME = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "XXX": "%z",
    "XX": "%z",
    "Z": "%z",
}
_PATTERN = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")


def instants(text: pa.StringArray) -> pa.TimestampArray:
    """Times in ISO 8601's form, with ``T`` or a space; in UTC where there is no zone, midnight where there is no time.

    What is finer than microseconds is cut off.

    Raises:
        pa.ArrowInvalid: a text is no time; the message quotes it.
    """
    try:
        return text.cast(INSTANT)
    except pa.ArrowInvalid:
        plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(text), _TOO_FINE, r"\1")
        dated = pc.if_else(pc.match_substring_regex(plain, _DATE), _joined(plain, " 00:00:00"), plain)
        zoned = pc.match_substring_regex(dated, _ZONED)
        return pc.if_else(zoned, dated, _joined(dated, "Z")).cast(INSTANT)


def local_times(text: pa.StringArray) -> pa.TimestampArray:
    """Times without a zone; see :func:`instants`."""
    try:
        return text.cast(LOCAL)
    except pa.ArrowInvalid:
        return pc.replace_substring_regex(pc.utf8_trim_whitespace(text), _TOO_FINE, r"\1").cast(LOCAL)


def parsed_times(text: pa.StringArray, pattern: str, kind: pa.DataType) -> pa.TimestampArray:
    """Times in a form of one's own; see :func:`strptime_format`. Without a zone in it they are in UTC."""
    return pc.strptime(text, pattern, "us").cast(kind)


def strptime_format(option: str, pattern: str) -> str:
    """A pattern of Java's as C's ``strptime`` has it.

    Raises:
        OptionError: it has a letter that Arrow's parser knows nothing for.
    """
    made, at = [], 0
    while at < len(pattern):
        found = _PATTERN.match(pattern, at)
        if found is None or (found[2] and found[0] not in _STRPTIME):
            raise OptionError.of(
                option, pattern, f"Allowed letters: {', '.join(_STRPTIME)}, and text in single quotes."
            )
        made.append(_STRPTIME[found[0]] if found[2] else (found[1] or found[0]).replace("%", "%%"))
        at = found.end()
    return "".join(made)


def _joined(text: pa.StringArray, suffix: str) -> pa.StringArray:
    return pc.binary_join_element_wise(text, suffix, "")
