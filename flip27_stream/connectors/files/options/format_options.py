"""The file formats by name, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from flip27_stream.connectors.files.formats.file_format import FileFormat
from flip27_stream.connectors.files.formats.orc import OrcFormat
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.connectors.files.formats.spark_types import refuse_wanted
from flip27_stream.connectors.files.lines.csv_lines import CsvFormat
from flip27_stream.connectors.files.lines.json_lines import JsonFormat
from flip27_stream.connectors.files.lines.line_options import (
    CSV_OPTIONS,
    JSON_OPTIONS,
    parse_csv_options,
    parse_json_options,
)
from flip27_stream.connectors.files.lines.text import TextFormat
from flip27_stream.errors import OptionError
from flip27_stream.options.given import given_options
from flip27_stream.options.option import Option

FORMAT_OPTIONS: Mapping[str, tuple[Option[Any], ...]] = {
    "parquet": (),
    "orc": (),
    "json": JSON_OPTIONS,
    "csv": CSV_OPTIONS,
    "text": (),
}
"""The options of each format."""


def file_format(name: str, options: Mapping[str, str], schema: pa.Schema | None = None) -> FileFormat:
    """Returns the format with a name.

    Args:
        name: The value of option ``files.format``, in any case. Data files of Delta tables are ``parquet``.
        options: All options of the user, with names in any case. Options that belong to no format are ignored.
        schema: The columns that the user wants, without partition columns. They are the columns of files that have no
            types of their own.

    Raises:
        OptionError: The format does not exist, one of its options is wrong or belongs to another format, or the format
            cannot have these columns.
    """
    key = name.strip().lower()
    if key not in FORMAT_OPTIONS:
        raise OptionError.of("files.format", name, f"Allowed: {', '.join(FORMAT_OPTIONS)}, delta.")
    if schema is not None:
        refuse_wanted(schema)
    given = given_options(options)
    _refuse_options_of_others(key, given)
    if key == "parquet":
        return ParquetFormat()
    if key == "orc":
        return OrcFormat()
    if key == "text":
        return TextFormat(schema)
    if key == "json":
        json = parse_json_options(given)
        return JsonFormat(schema, json.drop_malformed, json)
    csv = parse_csv_options(given)
    return CsvFormat(schema, csv.drop_malformed, csv)


def _refuse_options_of_others(key: str, given: Mapping[str, str]) -> None:
    for other, options in FORMAT_OPTIONS.items():
        for option in options:
            if option.is_given(given) and option not in FORMAT_OPTIONS[key]:
                raise OptionError(
                    f"Option '{option.name}' is for 'files.format' {other}, but option 'files.format' is {key}. "
                    f"Leave option '{option.name}' out, or change 'files.format'."
                )
