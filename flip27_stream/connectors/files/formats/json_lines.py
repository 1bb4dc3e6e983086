"""Files of JSON lines: an object in each line."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.types as pt

from flip27_stream.connectors.files.formats.json_rows import rows_of
from flip27_stream.connectors.files.formats.line_format import LineDecoder, LineFormat
from flip27_stream.connectors.files.formats.line_options import LineOptions
from flip27_stream.connectors.files.formats.lines import codec_of, head_of
from flip27_stream.connectors.files.formats.schemas import INSTANT, LOCAL, Projection, spark_schema
from flip27_stream.connectors.files.formats.timestamp_parsing import instants, local_times, parsed_times
from flip27_stream.errors import RecordFormatError


@dataclass(frozen=True)
class JsonFormat(LineFormat):
    """Fields are found by exactly the names of the columns; others are skipped, and a missing one is null."""

    options: LineOptions = field(default_factory=LineOptions)

    name = "json"

    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema:
        head = head_of(file, codec_of(path))
        sample = head[self._first_record(head) : head.rfind(b"\n") + 1]
        if not sample.strip():
            raise RecordFormatError(
                f"The json file {path} has no line to find columns in. Name them with .schema(...)."
            )
        return spark_schema(
            pa.schema([_inferred(f) for f in _parse(sample, None).schema]), f"json file {path}"
        )

    def _decoder(self, file: pa.NativeFile, path: str, schema: pa.Schema) -> JsonDecoder:
        return JsonDecoder(schema, self.options.timestamp_format, f"json file {path}")


class JsonDecoder(LineDecoder):
    """Makes rows of lines of JSON: all at once with Arrow, and one by one where that fails.

    Args:
        schema: the columns wanted.
        timestamp_format: for ``strptime``; ``None`` for ISO 8601.
        what: the file, for errors.
    """

    few = 64

    def __init__(self, schema: pa.Schema, timestamp_format: str | None, what: str) -> None:
        self._schema = schema
        self._format = timestamp_format
        self._projection = Projection(schema, tuple(schema.names), what)
        self._arrow_can = all(_arrow_can(f.type) for f in schema)
        self._has_instants = any(f.type == INSTANT for f in schema)
        self._times_as_text = timestamp_format is not None

    def at_once(self, data: bytes) -> pa.RecordBatch:
        if not self._arrow_can:
            raise pa.ArrowNotImplementedError("Arrow has no parser for some of the columns")
        if self._times_as_text or not self._has_instants:
            return self._parsed(data)
        try:
            return self._parsed(data)
        except pa.ArrowInvalid:
            # Arrow's parser of times is quick, but does not know all forms.
            self._times_as_text = True
        try:
            return self._parsed(data)
        except pa.ArrowInvalid:
            self._times_as_text = False
            raise

    def one_by_one(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        batch, bad = rows_of(lines, self._schema, self._format)
        return self._projection.apply(batch), bad

    def _parsed(self, data: bytes) -> pa.RecordBatch:
        asked = pa.schema([(f.name, _parsed_type(f.type, self._times_as_text)) for f in self._schema])
        table = _parse(data, asked)
        batches = table.combine_chunks().to_batches()
        if not batches:
            return pa.RecordBatch.from_pylist([], self._schema)
        batch = batches[0].select(self._schema.names)
        for index, wanted in enumerate(self._schema):
            if wanted.type in (INSTANT, LOCAL) and pt.is_string(batch.schema.field(index).type):
                batch = batch.set_column(index, wanted.name, self._times(batch.column(index), wanted.type))
        batch.validate(full=True)  # Arrow's parser takes any bytes for text
        return self._projection.apply(batch)

    def _times(self, text: pa.StringArray, kind: pa.DataType) -> pa.TimestampArray:
        if self._format is not None:
            return parsed_times(text, self._format, kind)
        return instants(text) if kind == INSTANT else local_times(text)


def _parse(data: bytes, schema: pa.Schema | None) -> pa.Table:
    """What Arrow makes of lines.

    A null in place of the first object crashes the process in Arrow's parser (seen with Arrow 26); in place of a later
    one it would be a row of nulls. It is no object, wherever it stands.

    Raises:
        pa.ArrowException: some lines do not decode.
    """
    if data.lstrip().startswith(b"null") or b"\nnull" in data:
        raise pa.ArrowInvalid("a line is null, and no JSON object")
    return pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )


def _arrow_can(kind: pa.DataType) -> bool:
    if pt.is_binary(kind) or pt.is_map(kind):
        return False
    return all(_arrow_can(kind.field(i).type) for i in range(kind.num_fields))


def _parsed_type(kind: pa.DataType, times_as_text: bool) -> pa.DataType:
    """What Arrow is told to parse: casts are stricter than its parser about digits, days and zones."""
    if pt.is_date32(kind) or kind == LOCAL or (times_as_text and kind == INSTANT):
        return pa.string()
    if pt.is_decimal(kind):
        return pa.decimal128(38, kind.scale)
    if pt.is_list(kind):
        return pa.list_(_parsed_type(kind.value_type, False))
    if pt.is_struct(kind):
        return pa.struct([(f.name, _parsed_type(f.type, False)) for f in kind])
    return kind


def _inferred(field: pa.Field) -> pa.Field:
    return field.with_type(_inferred_type(field.type))


def _inferred_type(kind: pa.DataType) -> pa.DataType:
    """What Spark would infer: times stay text."""
    if pt.is_timestamp(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(_inferred_type(kind.value_type))
    if pt.is_struct(kind):
        return pa.struct([(f.name, _inferred_type(f.type)) for f in kind])
    return kind
