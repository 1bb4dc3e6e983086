"""Files of JSON lines, with an object in each line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.schemas import Projection, spark_schema, without_columns
from flip27_stream.connectors.files.lines.compression import codec_of, head_of
from flip27_stream.connectors.files.lines.exact_integers import with_exact_integers
from flip27_stream.connectors.files.lines.line_blocks import starts_of_lines
from flip27_stream.connectors.files.lines.line_format import LineDecoder, LineFormat, inferring
from flip27_stream.connectors.files.lines.line_options import LineOptions
from flip27_stream.decoding.json_columns import JsonColumns
from flip27_stream.decoding.json_converters import can_decode
from flip27_stream.decoding.time_forms import TimeForm
from flip27_stream.errors import OptionError, RecordFormatError


@dataclass(frozen=True)
class JsonFormat(LineFormat):
    """The format of JSON lines. A column has the value of the field with exactly its name, or null."""

    options: LineOptions = field(default_factory=LineOptions)

    name = "json"

    def __post_init__(self) -> None:
        for column in self.columns or ():
            if not can_decode(column.type):
                raise OptionError(
                    f"Column '{column.name}' of the schema is {column.type}; JSON has no such values."
                )

    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema:
        head = head_of(file, codec_of(path))
        sample = head[self._first_record(head) : head.rfind(b"\n") + 1]
        if not sample.strip():
            raise RecordFormatError(
                f"The json file {path} has no line from which to take the columns. Give the columns with .schema(...)."
            )
        with inferring(f"json file {path}"):
            found = _parsed(sample).schema
        inferred = pa.schema(
            field.with_type(
                with_exact_integers(_inferred_type(field.type), sample, partial(_texts, sample, field))
            )
            for field in found
        )
        return spark_schema(inferred, f"json file {path}")

    def _decoder(self, file: pa.NativeFile, path: str, schema: pa.Schema) -> JsonLineDecoder:
        return JsonLineDecoder(schema, self.options.time_form, f"json file {path}")


class JsonLineDecoder(LineDecoder):
    """Decodes lines of JSON into rows, as Spark's own JSON source does.

    Args:
        schema: The columns to return.
        time_form: The form of times; ``None`` for the forms that Spark casts from.
        what: The file, for errors.
    """

    few = 4096  # The decoder of documents itself finds the malformed documents.

    def __init__(self, schema: pa.Schema, time_form: TimeForm | None, what: str) -> None:
        self._columns = JsonColumns(schema, time_form, strict_utf8=True)
        self._names = schema.names
        self._starts = np.zeros(0, np.int64)
        self._projection = Projection(schema, tuple(schema.names), what)

    def at_once(self, data: bytes) -> pa.RecordBatch:
        self._starts = starts_of_lines(data)
        columns = self._columns.decode_lines(data, self._starts)
        if columns is None:
            raise pa.ArrowInvalid("some lines are not plain objects")
        return self._batch(columns, len(self._starts))

    def line_starts(self, data: bytes, rows: int) -> Int64s | None:
        return self._starts  # each line is a row

    def one_by_one(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        decoded = self._columns.decode(pa.array(lines, pa.binary()), some_are_bad=True)
        bad = {
            row: f"{self._columns.explain(lines[row], with_values=True)}."
            for row in np.flatnonzero(decoded.bad.to_numpy(zero_copy_only=False)).tolist()
        }
        rows = self._batch(decoded.columns, len(lines), pc.invert(decoded.bad) if bad else None)
        return rows, bad

    def _batch(
        self, columns: Sequence[pa.Array], count: int, good: pa.BooleanArray | None = None
    ) -> pa.RecordBatch:
        """Returns the rows of ``columns``, or only the good ones if ``good`` is given."""
        batch = without_columns(count)
        if columns:
            batch = pa.RecordBatch.from_arrays(list(columns), names=self._names)
        return self._projection.apply(batch if good is None else batch.filter(good))


def _parsed(sample: bytes) -> pa.Table:
    """Returns the columns that Arrow finds in lines.

    A null in place of the first object crashes the process in Arrow's parser (seen with Arrow 26).

    Raises:
        pa.ArrowException: A line is not a JSON object.
    """
    if sample.lstrip().startswith(b"null") or b"\nnull" in sample:
        raise pa.ArrowInvalid("a line is null, not a JSON object")
    return pj.read_json(
        pa.BufferReader(sample), read_options=pj.ReadOptions(use_threads=False, block_size=len(sample) + 1)
    )


def _texts(sample: bytes, field: pa.Field, kind: pa.DataType) -> pa.Array:
    """Returns a column of the sample as type ``kind``, which has text in place of numbers."""
    columns = JsonColumns(pa.schema([field.with_type(kind)]), strict_utf8=True)
    return columns.decode(pa.array(sample.splitlines(), pa.binary())).columns[0]


def _inferred_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type that Spark would infer, where times are text."""
    if pt.is_timestamp(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(_inferred_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([(f.name, _inferred_type(f.type)) for f in kind])
    return kind
