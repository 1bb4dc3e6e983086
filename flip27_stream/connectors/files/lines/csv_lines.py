"""CSV files, read with the results of Spark's own source where Arrow supports them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.types as pt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.schemas import Projection, spark_schema
from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.connectors.files.lines.compression import codec_of, head_of, unpacked
from flip27_stream.connectors.files.lines.csv_escapes import without_escapes
from flip27_stream.connectors.files.lines.exact_integers import with_exact_integers
from flip27_stream.connectors.files.lines.line_blocks import LONGEST_LINE, LineBlock, line_end
from flip27_stream.connectors.files.lines.line_format import LineDecoder, LineFormat, inferring
from flip27_stream.connectors.files.lines.line_options import CsvOptions
from flip27_stream.decoding.datetime_text import INSTANT, LOCAL, dates, instants, local_times
from flip27_stream.decoding.decimal_text import decimals
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
            with inferring(f"csv file {path}"):
                found = self.table(self.without_escapes(sample), names, converted).schema
            schema = pa.schema(
                field.with_type(
                    with_exact_integers(field.type, sample, partial(self._texts, sample, names, field))
                )
                for field in found
            )
        return spark_schema(pa.schema([_inferred(f) for f in schema]), f"csv file {path}")

    def _texts(self, sample: bytes, names: list[str], field: pa.Field, kind: pa.DataType) -> pa.Array:
        """Returns a column of the sample as text of type ``kind``."""
        null = {"null_values": [self.options.null_value], "strings_can_be_null": True}
        only = pcsv.ConvertOptions(include_columns=[field.name], column_types={field.name: kind}, **null)
        return self.table(self.without_escapes(sample), names, only).column(0).combine_chunks()

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
        names = self.table(self.without_escapes(line + b"\n"), None).column_names
        if self.options.header:
            return [name or f"_c{i}" for i, name in enumerate(names)]
        return [f"_c{i}" for i in range(len(names))]

    def _header_end(self, head: bytes) -> int:
        mark = len(_MARK) if head.startswith(_MARK) else 0
        blank = len(head) - mark - len(head[mark:].lstrip(b"\r\n"))
        return min(line_end(head, mark + blank) + 1, len(head)) if self.options.header else mark

    def without_escapes(self, data: bytes) -> bytes:
        """Returns ``data`` with doubled quotes in place of escaped quotes, which Arrow understands."""
        escape, quote = self.options.escape, self.options.quote
        if escape is None or quote is None or escape == quote:
            return data
        return without_escapes(
            data, self.options.separator, quote, escape, line_breaks=self.options.multi_line
        )

    def table(
        self, data: bytes, names: Sequence[str] | None, converted: pcsv.ConvertOptions | None = None
    ) -> pa.Table:
        """Returns the columns of whole records without escapes.

        Args:
            data: The records.
            names: The names of the columns; ``None`` to take them from the first record.
            converted: The columns to return, and their types; ``None`` for all.

        Raises:
            pa.ArrowInvalid: A record does not decode.
        """
        reading = pcsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
        parsing = pcsv.ParseOptions(
            delimiter=self.options.separator,
            quote_char=self.options.quote or False,
            newlines_in_values=self.options.multi_line,
        )
        return pcsv.read_csv(pa.BufferReader(data), reading, parsing, converted)


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
            column_types={name: pa.string() if _from_text(f.type) else f.type for name, f in self._found()},
            include_columns=self._projection.columns or names[:1],
            null_values=["", format.options.null_value],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            true_values=_in_any_case("true"),
            false_values=_in_any_case("false"),
        )

    def at_once(self, data: bytes) -> pa.RecordBatch:
        whole = data if data.endswith(b"\n") else data + b"\n"
        plain = self._csv.without_escapes(whole)
        table = self._csv.table(plain, self._names, self._converted)
        if self.divisible:
            _check_lines(whole, table)
        else:
            self._check_end(plain, table.num_rows)
        batches = table.combine_chunks().to_batches()
        return self._typed(batches[0]) if batches else pa.RecordBatch.from_pylist([], self._schema)

    def one_by_one(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        good, bad = [], {}
        for index, line in enumerate(lines):
            try:
                row = self.at_once(line + b"\n")
                if row.num_rows != 1:
                    raise pa.ArrowInvalid("a carriage return without a line feed ends a value")
            except MemoryError:  # noqa: PERF203 - Arrow's error of this kind is no error of the line
                raise
            except (pa.ArrowException, RecordFormatError) as error:
                bad[index] = str(error)
            else:
                good.append(row)
        batches = pa.Table.from_batches(good, self._schema).combine_chunks().to_batches()
        return (batches[0] if batches else pa.RecordBatch.from_pylist([], self._schema)), bad

    def line_starts(self, data: bytes, rows: int) -> Int64s | None:
        return super().line_starts(data, rows) if self.divisible else np.zeros(rows, np.int64)

    def _check_end(self, data: bytes, rows: int) -> None:
        """Checks that ``data`` does not end inside of quotes, where Arrow ends the value without an error.

        A record that is added to the end would then be a part of that value.

        Raises:
            pa.ArrowInvalid: A quote is open at the end.
        """
        quote = self._csv.options.quote
        if quote is None or quote.encode() not in data or not self._names:
            return
        one_more = data + self._csv.options.separator.join([2 * quote] * len(self._names)).encode() + b"\n"
        first = pcsv.ConvertOptions(
            include_columns=self._names[:1], column_types={self._names[0]: pa.binary()}
        )
        if self._csv.table(one_more, self._names, first).num_rows == rows:
            raise pa.ArrowInvalid("the file ends in the middle of a value in quotes")

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, wanted in self._found():
            if _from_text(wanted.type):
                values = self._values(batch.column(name), wanted.type)
                batch = batch.set_column(batch.schema.get_field_index(name), name, values)
        return self._projection.apply(batch)

    def _found(self) -> list[tuple[str, pa.Field]]:
        """Returns the columns that the file has, by their names in the file, with the wanted fields."""
        pairs = zip(self._projection.sources, self._schema, strict=True)
        return [(name, wanted) for name, wanted in pairs if name is not None]

    def _values(self, text: pa.StringArray, kind: pa.DataType) -> pa.Array:
        if pt.is_decimal(kind):
            return decimals(text, kind)
        if pt.is_date32(kind):
            return dates(text)
        if self._csv.options.time_form is not None:
            return self._csv.options.time_form.times(text, kind)
        return instants(text) if kind == INSTANT else local_times(text)


def _check_lines(data: bytes, table: pa.Table) -> None:
    """Checks that no value goes on in another line. Arrow ends a value in open quotes at a later quote or at the end.

    Then the value has a line break, or there are fewer rows than lines; the caller compares these numbers.

    Args:
        data: The lines.
        table: The columns that Arrow made of them.

    Raises:
        pa.ArrowInvalid: A value goes on in the next line, or the lines must be decoded one by one to know.
    """
    if b"\r" in data and b"\n" in data[:-1] and data.count(b"\r") != data.count(b"\r\n"):
        # Arrow ends a record there, so the number of rows says nothing.
        raise pa.ArrowInvalid("a carriage return without a line feed")
    for column in table.columns:
        if pt.is_string(column.type) or pt.is_binary(column.type):
            for chunk in column.chunks:
                text = chunk.buffers()[2]
                if text is not None and b"\n" in text.to_pybytes():
                    raise pa.ArrowInvalid(
                        "a value in quotes goes on in the next line; option multiLine true allows that"
                    )


def _from_text(kind: pa.DataType) -> bool:
    """Returns whether values of a type are first read as text, because Arrow converts them unlike Spark."""
    return bool(pt.is_decimal(kind) or kind in (pa.date32(), INSTANT, LOCAL))


def _in_any_case(word: str) -> list[str]:
    return ["".join(letters) for letters in product(*((sign, sign.upper()) for sign in word))]


def _inferred(field: pa.Field) -> pa.Field:
    """Returns the field with a type that Spark has: timestamps are instants, and times of day are text."""
    if pt.is_timestamp(field.type):
        return field.with_type(INSTANT)
    return field.with_type(pa.string()) if pt.is_time(field.type) else field
