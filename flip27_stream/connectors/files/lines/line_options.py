"""The options of CSV and JSON files: those of Spark's own sources that Arrow supports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from flip27_stream.decoding.datetime_text import LOCAL
from flip27_stream.decoding.time_forms import UTC, TimeForm, TimePattern, TimesInZone
from flip27_stream.decoding.time_zones import in_zone
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import BOOLEAN, any_text, one_of
from flip27_stream.options.option import Kind, Option


def _pattern(text: str, option: str) -> TimePattern:
    return TimePattern.of(option, text)


def _time_zone(text: str, option: str) -> str:
    try:
        if text != UTC:  # PyArrow would import pandas, also in a query without this option.
            in_zone(pa.array([0], LOCAL), text)
    except pa.ArrowInvalid:
        raise OptionError.of(
            option,
            text,
            "Allowed: a name of the time zone database of this machine, such as Europe/Berlin, or an "
            "offset such as +02:00.",
        ) from None
    return text


def _separator(text: str, option: str) -> str:
    given = {"\\t": "\t", "\\\\": "\\"}.get(text, text)
    if len(given) != 1 or not given.isascii() or given in "\r\n\0":
        raise OptionError.of(option, text, "Allowed: one ASCII character.")
    return given


def _character(text: str, option: str) -> str | None:
    """Returns the character, or ``None`` for an empty value."""
    given = {"\\t": "\t", "\\\\": "\\"}.get(text, text)
    if given in ("", "\0"):
        return None
    if len(given) != 1 or not given.isascii() or given in "\r\n":
        raise OptionError.of(option, text, "Allowed: one ASCII character, or an empty value.")
    return given


_UTF_8: Final = one_of({"UTF-8": None, "UTF8": None, "US-ASCII": None}, "`UTF-8`")

MODE: Final = Option(
    "mode",
    one_of({"FAILFAST": False, "DROPMALFORMED": True}),
    "FAILFAST",
    "CSV and JSON: what happens to a record that does not decode: the query fails, or the record is left out.",
)
ENCODING: Final = Option(
    "encoding",
    _UTF_8,
    "UTF-8",
    "CSV and JSON: encoding of the text.",
)
CHARSET: Final = Option(
    "charset",
    _UTF_8,
    "UTF-8",
    "Another name of `encoding`.",
)
TIMESTAMP_FORMAT: Final = Option(
    "timestampFormat",
    Kind("pattern of `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss`, `XXX`", _pattern),
    None,
    "CSV and JSON: the pattern of times. By default these are the forms that Spark casts from, such as ISO 8601.",
)
TIME_ZONE: Final = Option(
    "timeZone",
    Kind("name of a time zone, or an offset such as `+02:00`", _time_zone),
    UTC,
    "CSV and JSON: the time zone of times without an offset from UTC in columns of type `timestamp`.",
)
MULTI_LINE: Final = Option(
    "multiLine",
    BOOLEAN,
    "false",
    "CSV: values in quotes may contain line breaks; then a file cannot be cut.",
)
HEADER: Final = Option(
    "header",
    BOOLEAN,
    "false",
    "CSV: the first line has the names of the columns.",
)
SEP: Final = Option(
    "sep",
    Kind("one character", _separator),
    ",",
    "CSV: the character between values.",
)
DELIMITER: Final = Option(
    "delimiter",
    Kind("one character", _separator),
    ",",
    "Another name of `sep`.",
)
QUOTE: Final = Option(
    "quote",
    Kind("one character or empty", _character),
    '"',
    "CSV: the character around values that contain a separator. Empty: no quotes.",
)
ESCAPE: Final = Option(
    "escape",
    Kind("one character or empty", _character),
    "\\",
    "CSV: the character before a quote inside quotes. Empty: no escape.",
)
NULL_VALUE: Final = Option(
    "nullValue",
    any_text(),
    None,
    "CSV: the text that stands for null, besides the empty value.",
)
INFER_SCHEMA: Final = Option(
    "inferSchema",
    BOOLEAN,
    "false",
    "CSV: without a schema, infer the types of columns. `false`: all columns are strings.",
)

_COMMON: Final[tuple[Option[Any], ...]] = (MODE, ENCODING, CHARSET, TIMESTAMP_FORMAT, TIME_ZONE, MULTI_LINE)
JSON_OPTIONS: Final = _COMMON
CSV_OPTIONS: Final = (*_COMMON, HEADER, SEP, DELIMITER, QUOTE, ESCAPE, NULL_VALUE, INFER_SCHEMA)


@dataclass(frozen=True)
class LineOptions:
    """The options that CSV and JSON share.

    Attributes:
        drop_malformed: Whether to skip records that do not decode (``mode`` DROPMALFORMED), instead of failing
            (FAILFAST).
        time_form: The form of times; ``None`` for the forms that Spark casts from, in UTC if they have no offset.
    """

    drop_malformed: bool = False
    time_form: TimeForm | None = None


@dataclass(frozen=True)
class CsvOptions(LineOptions):
    """The options of CSV files.

    Attributes:
        header: Whether the first line has the names of the columns.
        separator: The character between values.
        quote: The character around values that have a separator in them; ``None`` if values are not quoted.
        escape: The character before a quote inside quotes; ``None`` to allow only doubled quotes, which are always
            allowed.
        multi_line: Whether values in quotes can have line breaks. Then a file cannot be read from the middle.
        null_value: A text that means null, besides the empty value.
        infer_schema: Whether to infer types if the user gives no schema. Otherwise all columns are strings.
    """

    header: bool = False
    separator: str = ","
    quote: str | None = '"'
    escape: str | None = "\\"
    multi_line: bool = False
    null_value: str = ""
    infer_schema: bool = False


def parse_csv_options(options: Mapping[str, str]) -> CsvOptions:
    """Returns the options of CSV files.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: A value is wrong, or Spark supports it and Arrow does not.
    """
    return CsvOptions(
        **_common(options),
        header=HEADER.require(options),
        separator=_one_value(SEP, DELIMITER, options),
        quote=QUOTE.get(options),
        escape=ESCAPE.get(options),
        multi_line=MULTI_LINE.require(options),
        null_value=NULL_VALUE.get(options) or "",
        infer_schema=INFER_SCHEMA.require(options),
    )


def parse_json_options(options: Mapping[str, str]) -> LineOptions:
    """Returns the options of JSON lines.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: A value is wrong.
    """
    if MULTI_LINE.require(options):
        raise MULTI_LINE.wrong(
            True, "Allowed for json: false, because each line of a file must be one JSON object."
        )
    return LineOptions(**_common(options))


def _one_value(option: Option[str], other: Option[str], options: Mapping[str, str]) -> str:
    """Returns the value of an option that has two names.

    Raises:
        OptionError: The value is wrong, or the two names have different values.
    """
    value, second = option.require(options), other.require(options)
    if option.is_given(options) and other.is_given(options) and value != second:
        raise OptionError(
            f"Options '{option.name}' and '{other.name}' are two names of one option, and have different values: "
            f"{value!r}, {second!r}. Give one of them."
        )
    return value if option.is_given(options) else second


def _common(options: Mapping[str, str]) -> dict[str, Any]:
    ENCODING.get(options)
    CHARSET.get(options)
    return {
        "drop_malformed": MODE.require(options),
        "time_form": _time_form(TIMESTAMP_FORMAT.get(options), TIME_ZONE.require(options)),
    }


def _time_form(pattern: TimePattern | None, time_zone: str) -> TimeForm | None:
    if pattern is not None:
        return replace(pattern, time_zone=time_zone)
    return None if time_zone == UTC else TimesInZone(time_zone)
