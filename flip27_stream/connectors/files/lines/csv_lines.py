"""CSV files, read with the results of Spark's own source where Arrow supports them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.types as pt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.schemas import Projection, spark_schema
from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.connectors.files.lines.compression import codec_of, head_of, unpacked
from flip27_stream.connectors.files.lines.line_blocks import LONGEST_LINE, LineBlock, line_end
from flip27_stream.connectors.files.lines.line_format import LineDecoder, LineFormat
from flip27_stream.connectors.files.lines.line_options import CsvOptions
from flip27_stream.decoding.datetime_text import INSTANT, LOCAL, dates, instants, local_times
from flip27_stream.errors import OptionError, RecordFormatError

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class CsvFormat(LineFormat):
    """The CSV format. Columns are found by name if there is a header, otherwise by their order.

    A line break always ends a record unless ``multiLine`` is set, so that a file can be read from the middle.
    """

    options: CsvOptions = field(default_factory=CsvOptions)

    name = "csv"

    def __post_init__(self) -> None:
        for column in self.columns or ():
            if pt.is_nested(column.type):
                raise OptionError(
                    f"Column '{column.name}' of the schema is {column.type}; CSV has no such values. Leave the "
                    "column out of .schema(...)."
                )

    @property
    def splittable(self) -> bool:
        return not self.options.multi_line

    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema:
        head = head_of(file, codec_of(path))
        names, first = self._names(head), self._header_end(head)
        schema = pa.schema([(name, pa.string()) for name in names])
        sample = head[first : head.rfind(b"\n") + 1]
        if self.options.infer_schema and sample.strip():
            converted = pcsv.ConvertOptions(null_values=[self.options.null_value], strings_can_be_null=True)
            parsing = self.parsing(sample)
            schema = pcsv.read_csv(
                pa.BufferReader(sample), _at_once(names, sample), parsing, converted
            ).schema
        return spark_schema(pa.schema([_inferred(f) for f in schema]), f"csv file {path}")

    def _decoder(self, file: pa.NativeFile, path: str, schema: pa.Schema) -> CsvDecoder:
        if self.options.header or not self.columns:
            names = self._names(head_of(file, codec_of(path)))
        else:
            names = list(self.columns.names)
        what = f"csv file {path}"
        wanted = self.columns if self.columns is not None else schema
        if names and len(wanted) and not any(find_column(names, name) is not None for name in wanted.names):
            raise RecordFormatError(
                f"Columns {', '.join(wanted.names)} are not among those of {what}: {', '.join(names)}. To skip files "
                "that do not fit, set option ignoreCorruptFiles to true."
            )
        return CsvDecoder(self, names, schema, what)

    def _first_record(self, head: bytes) -> int:
        return self._header_end(head) if self.options.header else super()._first_record(head)

    def _blocks(self, file: pa.NativeFile, path: str, start: int, end: int) -> Iterator[LineBlock]:
        if not self.options.multi_line:
            yield from super()._blocks(file, path, start, end)
        elif start == 0 < end:
            data = unpacked(file, codec_of(path)).read(LONGEST_LINE + 1)
            if len(data) > LONGEST_LINE:
                raise RecordFormatError(
                    f"The csv file {path} has more than {LONGEST_LINE} bytes, and option multiLine reads it in one "
                    "piece. Set multiLine to false, or divide the file."
                )
            first = self._first_record(data)
            yield LineBlock(first, data[first:], whole=True)

    def _names(self, head: bytes) -> list[str]:
        """Returns the names of all columns in the file.

        These are the names in the first line, or Spark's names if there is no header.
        """
        text = head.removeprefix(_MARK).lstrip(b"\r\n")
        line = text if self.options.multi_line else text[: line_end(text, 0)]
        if not line.strip():
            return []
        names = pcsv.read_csv(pa.BufferReader(line + b"\n"), parse_options=self.parsing(line)).column_names
        if self.options.header:
            return [name or f"_c{i}" for i, name in enumerate(names)]
        return [f"_c{i}" for i in range(len(names))]

    def _header_end(self, head: bytes) -> int:
        mark = len(_MARK) if head.startswith(_MARK) else 0
        blank = len(head) - mark - len(head[mark:].lstrip(b"\r\n"))
        return min(line_end(head, mark + blank) + 1, len(head)) if self.options.header else mark

    def parsing(self, data: bytes) -> pcsv.ParseOptions:
        """Returns Arrow's parse options for ``data``.

        Raises:
            pa.ArrowInvalid: The data has escape characters whose meaning is ambiguous.
        """
        return pcsv.ParseOptions(
            delimiter=self.options.separator,
            quote_char=self.options.quote or False,
            escape_char=self._escape(data) or False,
            newlines_in_values=self.options.multi_line,
        )

    def _escape(self, data: bytes) -> str | None:
        """Returns the escape character if it is needed. Arrow, unlike Spark, applies it outside of quotes, too."""
        escape, quote = self.options.escape, self.options.quote
        if escape is None or quote is None or escape == quote:
            return None
        if self.options.escape_given:
            return escape
        if escape.encode() not in data:
            return None
        anywhere, before_quotes = data.count(escape.encode()), data.count((escape + quote).encode())
        if before_quotes and anywhere > before_quotes:
            raise pa.ArrowInvalid(
                f"{escape} is before a quote and also elsewhere, so its meaning is unclear. If it is an escape "
                f"character everywhere, set option escape to {escape}; otherwise set the option to an empty value."
            )
        return escape if before_quotes else None


class CsvDecoder(LineDecoder):
    """Decodes lines of CSV into rows.

    Args:
        format: The format.
        names: The names of all columns in the file, an empty list if the file is empty.
        schema: The columns to return. A column that the file lacks is null.
        what: The file, for errors.

    Raises:
        RecordFormatError: The file lacks a column that is NOT NULL.
    """

    def __init__(self, format: CsvFormat, names: list[str], schema: pa.Schema, what: str) -> None:
        found = [find_column(names, f.name) for f in schema]
        sources = tuple(None if i is None else names[i] for i in found)
        self.divisible = not format.options.multi_line
        self._csv, self._names, self._schema = format, names, schema
        self._projection = Projection(schema, sources, what)
        if names:
            self._projection.refuse_missing()
            self._projection.warn_of_missing()
        self._converted = pcsv.ConvertOptions(
            column_types={name: pa.string() if _is_time(f) else f.type for name, f in self._found()},
            include_columns=self._projection.columns or names[:1],
            null_values=["", format.options.null_value],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )

    def at_once(self, data: bytes) -> pa.RecordBatch:
        parsing = self._csv.parsing(data)
        self._check_quotes(data, parsing)
        table = pcsv.read_csv(pa.BufferReader(data), _at_once(self._names, data), parsing, self._converted)
        batches = table.combine_chunks().to_batches()
        return self._with_times(batches[0]) if batches else pa.RecordBatch.from_pylist([], self._schema)

    def one_by_one(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        good, bad = [], {}
        for index, line in enumerate(lines):
            try:
                row = self.at_once(line + b"\n")
                if row.num_rows != 1:
                    raise pa.ArrowInvalid("a carriage return without a line feed ends a value")
            except (pa.ArrowException, RecordFormatError) as error:  # noqa: PERF203
                bad[index] = str(error)
            else:
                good.append(row)
        batches = pa.Table.from_batches(good, self._schema).combine_chunks().to_batches()
        return (batches[0] if batches else pa.RecordBatch.from_pylist([], self._schema)), bad

    def line_starts(self, data: bytes, rows: int) -> Int64s | None:
        return super().line_starts(data, rows) if self.divisible else np.zeros(rows, np.int64)

    def _check_quotes(self, data: bytes, parsing: pcsv.ParseOptions) -> None:
        """Checks that quotes are closed. Arrow treats the end of the data as the end of an open value.

        An odd number of quotes can also be correct. Then the data is divided to find the line with the odd quote.

        Raises:
            pa.ArrowInvalid: A quote is open, or the data must be divided.
        """
        if not parsing.quote_char or _count(data, parsing.quote_char) % 2 == 0:
            return
        if self.divisible and b"\n" in data[:-1]:
            raise pa.ArrowInvalid("an odd number of quotes")
        try:
            list(
                csv.reader(
                    data.decode().splitlines(keepends=True),
                    delimiter=parsing.delimiter,
                    quotechar=parsing.quote_char,
                    escapechar=parsing.escape_char or None,
                    strict=True,
                )
            )
        except csv.Error as error:
            if "end of data" in str(error):
                raise pa.ArrowInvalid(
                    "a value in quotes goes on in the next line; option multiLine true allows that"
                    if self.divisible
                    else "the file ends in the middle of a value in quotes"
                ) from error

    def _with_times(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, wanted in self._found():
            if _is_time(wanted):
                times = self._times(batch.column(name), wanted.type)
                batch = batch.set_column(batch.schema.get_field_index(name), name, times)
        return self._projection.apply(batch)

    def _found(self) -> list[tuple[str, pa.Field]]:
        """Returns the columns that the file has, by their names in the file, with the wanted fields."""
        pairs = zip(self._projection.sources, self._schema, strict=True)
        return [(name, wanted) for name, wanted in pairs if name is not None]

    def _times(self, text: pa.StringArray, kind: pa.DataType) -> pa.Array:
        if pt.is_date32(kind):
            return dates(text)
        if self._csv.options.timestamp_format is not None:
            return self._csv.options.timestamp_format.times(text, kind)
        return instants(text) if kind == INSTANT else local_times(text)


def _count(data: bytes, sign: str) -> int:
    """Returns how often an ASCII character is in ``data``, faster than ``bytes.count`` where it is frequent."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(sign)))


def _at_once(names: list[str], data: bytes) -> pcsv.ReadOptions:
    return pcsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)


def _is_time(field: pa.Field) -> bool:
    return bool(field.type in (pa.date32(), INSTANT, LOCAL))


def _inferred(field: pa.Field) -> pa.Field:
    """Returns the field with the type that Spark would infer: times are instants, and times of day are text."""
    if pt.is_timestamp(field.type):
        return field.with_type(INSTANT)
    return field.with_type(pa.string()) if pt.is_time(field.type) else field
