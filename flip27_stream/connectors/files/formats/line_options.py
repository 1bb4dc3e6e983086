"""Options of CSV and JSON files: names, meanings and defaults of Spark's own sources, as far as Arrow can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flip27_stream.decoding.time_patterns import TimePattern
from flip27_stream.errors import OptionError
from flip27_stream.options.option_values import OptionValues

_COMMON = ("mode", "encoding", "charset", "timestampFormat", "multiLine")
JSON_OPTIONS = _COMMON
CSV_OPTIONS = (*_COMMON, "header", "sep", "delimiter", "quote", "escape", "nullValue", "inferSchema")


@dataclass(frozen=True)
class LineOptions:
    """What CSV and JSON have in common.

    Attributes:
        drop_malformed: leave out records that do not decode (``mode`` DROPMALFORMED) instead of failing (FAILFAST).
        timestamp_format: of times; ``None`` for the forms that Spark casts from.
    """

    drop_malformed: bool = False
    timestamp_format: TimePattern | None = None


@dataclass(frozen=True)
class CsvOptions(LineOptions):
    """Options of CSV files.

    Attributes:
        header: the first line has the names of the columns.
        separator: one character between values.
        quote: one character around values that hold a separator; ``None`` for none.
        escape: one character before a quote inside quotes; ``None`` for none, doubled quotes are always understood.
        escape_given: whether the user chose ``escape``.
        multi_line: values in quotes may hold line breaks, so that a file cannot be read from the middle.
        null_value: what stands for null where it is not in quotes.
        infer_schema: find out types where the user gives no schema; otherwise all is string.
    """

    header: bool = False
    separator: str = ","
    quote: str | None = '"'
    escape: str | None = "\\"
    escape_given: bool = False
    multi_line: bool = False
    null_value: str = ""
    infer_schema: bool = False


def parse_csv_options(values: OptionValues) -> CsvOptions:
    """Check the options of CSV files.

    Raises:
        OptionError: a value is wrong, or one that Spark knows and Arrow cannot do.
    """
    separator = "sep" if values.has("sep") else "delimiter"
    return CsvOptions(
        **_common(values),
        header=values.boolean("header", False),
        separator=_character(values, separator, ",", none=False) or ",",
        quote=_character(values, "quote", '"'),
        escape=_character(values, "escape", "\\"),
        escape_given=values.has("escape"),
        multi_line=values.boolean("multiLine", False),
        null_value=values.text("nullValue") or "",
        infer_schema=values.boolean("inferSchema", False),
    )


def parse_json_options(values: OptionValues) -> LineOptions:
    """Check the options of files of JSON lines.

    Raises:
        OptionError: a value is wrong.
    """
    if values.boolean("multiLine", False):
        raise OptionError.of("multiLine", True, "Allowed for json: false; there is an object in each line.")
    return LineOptions(**_common(values))


def _common(values: OptionValues) -> dict[str, Any]:
    for name in ("encoding", "charset"):
        values.one_of(name, None, {"utf-8": None, "utf8": None, "us-ascii": None})
    pattern = values.text("timestampFormat")
    return {
        "drop_malformed": values.one_of("mode", False, {"failfast": False, "dropmalformed": True}),
        "timestamp_format": None if pattern is None else TimePattern.of("timestampFormat", pattern),
    }


def _character(values: OptionValues, name: str, default: str, *, none: bool = True) -> str | None:
    given = values.text(name)
    text = default if given is None else {"\\t": "\t", "\\\\": "\\"}.get(given, given)
    if none and text in ("", "\0"):
        return None
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise OptionError.of(name, given, f"Allowed: one ASCII character{', or nothing' if none else ''}.")
    return text
