"""The decoder of Avro values."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from fastavro.read import SchemaResolutionError

from flip27_stream.connectors.kafka.values.avro_guards import guarded
from flip27_stream.connectors.kafka.values.avro_resolution import readable
from flip27_stream.connectors.kafka.values.avro_schema import with_read_defaults, writer_schema
from flip27_stream.connectors.kafka.values.avro_types import as_written, field_types, fits
from flip27_stream.connectors.kafka.values.avro_walk import RecordWalk
from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues, ValueDecoder, ValueFormat
from flip27_stream.errors import OptionError, listed, shortened

_FRAME = 5
_BEHIND = b"\0"  # Follows each value. If fastavro reads it, the value is cut.
_LONGEST = 10  # The greatest number of bytes of an encoded number.
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    SchemaResolutionError,
    struct.error,
    TypeError,
    ValueError,
)
"""The exceptions of fastavro for bytes that are not a record, and of Arrow for a record that does not fit."""


class AvroDecoder(ValueDecoder):
    """Decodes single records in Avro's binary encoding, all written with one schema.

    With a reader's schema, fastavro resolves the two (Avro's specification, Schema Resolution): fields may be in
    another order, removed, or added with a default; numbers may be promoted, and types may get a union with null.

    fastavro reads the records, with schemas of :func:`readable`. Fields that are not wanted may have any content.

    fastavro accepts damage of four kinds. It gets a schema that has no negative indexes (:func:`guarded`). Values with
    numbers of more than 64 bits and endless nesting are removed first (:class:`RecordWalk`). When it skips a field, it
    does not notice that the bytes end or that a length is negative. So a byte follows each value, which must not be
    read: a read of too many bytes, or of a negative number of bytes, goes to the end.

    Args:
        fields: The wanted columns, each of which is a field of the record.
        schema: The writer's schema, as JSON.
        framed: Whether each value begins with a zero byte and a schema id of 4 bytes (Confluent). The id is ignored.
        reader: The reader's schema, as JSON, whose fields the columns are; ``None`` if it is the writer's.

    Raises:
        OptionError: A column is not a field of the record, or has another type.
        ValueError: A field of the reader's schema has another meaning in the writer's schema, or a wanted
            field that it lacks has a wrong default.
    """

    format = ValueFormat.AVRO

    def __init__(self, fields: pa.Schema, schema: str, framed: bool, reader: str | None = None) -> None:
        self._fields, self._text, self._framed, self._reader_text = fields, schema, framed, reader
        parsed = writer_schema(schema)
        resolved = parsed if reader is None else with_read_defaults(writer_schema(reader))
        written = field_types(resolved)
        for field in fields:
            kind = written.get(field.name)
            if kind is None or not fits(field.type, kind):
                kinds = {name: f"{name} ({kind or 'not supported'})" for name, kind in written.items()}
                raise OptionError(
                    f"Column '{field.name}' of the schema, {field.type}, is not a field of the Avro record "
                    f"'{resolved['name']}'. Its fields: {listed(kinds, field.name)}."
                )
        self._wanted = pa.struct([(field.name, field.type) for field in fields])
        writing, reading, may_go_on = readable(parsed, resolved, self._wanted)
        self._schema, self._reader = guarded(writing), None if reader is None else reading
        self._bytes = _CheckedBytes if may_go_on and reader is not None else BytesIO
        self._walk = RecordWalk(parsed)
        self._written = pa.struct([(f.name, as_written(f.type, written[f.name])) for f in fields])

    def __reduce__(self) -> tuple[type[AvroDecoder], tuple[pa.Schema, str, bool, str | None]]:
        return AvroDecoder, (self._fields, self._text, self._framed, self._reader_text)

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        records = [
            None if value is None else self._record_or_none(value)
            for value in self._without_faulty(values).to_pylist()
        ]
        try:
            rows = self._rows(records)
        except _DAMAGE:
            rows = self._rows([record if self._fits(record) else None for record in records])
        bad = None
        if rows.null_count > values.null_count:
            bad = pc.and_(rows.is_null(), values.is_valid())
        return DecodedValues(rows.flatten(), bad)

    def explain(self, value: bytes) -> str:
        try:
            self._walk.check(value, self._start(value))
            record = self._record(value)
        except _DAMAGE as error:
            return shortened(str(error)) or "it ends within a field"
        for field in self._written:
            kind = self._wanted.field(field.name).type
            try:
                pa.array([record[field.name]], field.type).cast(kind)
            except _DAMAGE:
                return f"field '{field.name}' is not within the bounds of {field.type} and {kind}"
        return ""

    def _rows(self, records: Sequence[Mapping[str, Any] | None]) -> pa.StructArray:
        """Returns records as a struct array. Raises one of ``_DAMAGE`` if a field does not have its type."""
        rows = pa.array(records, self._written)
        return rows if self._written == self._wanted else rows.cast(self._wanted)

    def _fits(self, record: Mapping[str, Any] | None) -> bool:
        try:
            self._rows([record])
        except _DAMAGE:
            return False
        return True

    def _without_faulty(self, values: pa.BinaryArray) -> pa.BinaryArray:
        """Returns ``values`` with nulls for those that fastavro must not read."""
        doubtful = np.arange(len(values)) if self._walk.recursive else _rows_with_long_runs(values)
        if not len(doubtful):
            return values
        sound = np.ones(len(values), np.bool_)
        sound[doubtful] = [self._walks(value) for value in values.take(pa.array(doubtful)).to_pylist()]
        return pc.if_else(pa.array(sound), values, pa.scalar(None, pa.binary()))

    def _walks(self, value: bytes | None) -> bool:
        try:
            if value is not None:
                self._walk.check(value, self._start(value))
        except _DAMAGE:
            return False
        return True

    def _record_or_none(self, value: bytes) -> dict[str, Any] | None:
        try:
            return self._record(value)
        except _DAMAGE:
            return None

    def _record(self, value: bytes) -> dict[str, Any]:
        data = self._bytes(value + _BEHIND)
        data.seek(self._start(value))
        record: Any = fastavro.schemaless_reader(data, self._schema, self._reader)
        if data.tell() > len(value):
            raise EOFError
        if data.tell() < len(value):
            raise ValueError(f"the record ends before byte {data.tell()} of {len(value)}")
        return record  # type: ignore[no-any-return]

    def _start(self, value: bytes) -> int:
        if not self._framed:
            return 0
        if len(value) < _FRAME or value[0]:
            raise ValueError("the value does not begin with a zero byte and a schema id")
        return _FRAME


class _CheckedBytes(BytesIO):
    """A ``BytesIO`` that raises ``EOFError`` for a read beyond its end. It is slower than its base class."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size is None or len(data) != size:
            raise EOFError
        return data


def _rows_with_long_runs(values: pa.BinaryArray) -> npt.NDArray[np.int64]:
    """Returns the rows of values that may have a number of more than 64 bits.

    These have nine bytes in a row with the high bit set, and a tenth byte that is greater than 1.
    """
    _, starts, content = values.buffers()
    if content is None:
        return np.empty(0, np.int64)
    bounds = np.frombuffer(starts, np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(content, np.uint8)[bounds[0] : bounds[-1]]
    if len(data) < _LONGEST:
        return np.empty(0, np.int64)
    run = data.view(np.int8) < 0
    for reach in (1, 2, 4):
        run = run[:-reach] & run[reach:]
    # ``run`` now marks eight bytes in a row with the high bit set. The ninth byte has it, too. Only the lowest bit of
    # the tenth byte fits into 64 bits.
    run = run[:-2] & (data[8:-1] > 0x7F) & (data[9:] > 1)
    begins = run.copy()
    begins[1:] &= ~run[:-1]
    heads = bounds[:-1][bounds[:-1] - bounds[0] < len(run)] - bounds[0]
    begins[heads] = run[heads]
    found = np.searchsorted(bounds, np.flatnonzero(begins) + bounds[0], side="right") - 1
    return np.unique(found)
