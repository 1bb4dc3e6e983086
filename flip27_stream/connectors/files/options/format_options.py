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
        options: All options of the user, with names in any case. Options of other formats are ignored.
        schema: The columns that the user wants, without partition columns. They are the columns of files that have no
            types of their own.

    Raises:
        OptionError: The format does not exist, one of its options is wrong, or it cannot have these columns.
    """
    key = name.strip().lower()
    if key not in FORMAT_OPTIONS:
        raise OptionError.of("files.format", name, f"Allowed: {', '.join(FORMAT_OPTIONS)}, delta.")
    if schema is not None:
        refuse_wanted(schema)
    given = given_options(options)
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


def refuse_options_of_others(name: str, options: Mapping[str, str]) -> None:
    """Checks that no option of another format is given.

    Args:
        name: The value of option ``files.format``, in lower case.
        options: All options of the user, by their names in lower case.

    Raises:
        OptionError: An option belongs to other formats only; the message names these.
    """
    for option in (option for some in FORMAT_OPTIONS.values() for option in some):
        if option.is_given(options) and option not in FORMAT_OPTIONS.get(name, ()):
            formats = " or ".join(other for other, some in FORMAT_OPTIONS.items() if option in some)
            raise OptionError(
                f"Option '{option.name}' is for 'files.format' {formats}, but option 'files.format' is {name}. "
                f"Leave option '{option.name}' out, or change 'files.format'."
            )
