"""The decoders of values that begin with the id of a schema in a registry."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.connectors.kafka.schema_registry.registered_schemas import SCHEMAS, RegisteredSchema
from flip27_stream.connectors.kafka.schema_registry.registry import SchemaRegistry, UnknownSchemaError
from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues, ValueDecoder, ValueFormat
from flip27_stream.connectors.kafka.values.value_json import JsonValueDecoder
from flip27_stream.decoding.frames import FRAME, NO_ID, payloads, schema_ids

log = logging.getLogger(__name__)

_NO_FRAME: Final = (
    "the value does not begin with a zero byte and a schema id (ids in headers of records are not read: set "
    "value.schema.id.serializer of its producer to PrefixSchemaIdSerializer)"
)
_MOST_WARNINGS: Final = 100
_WARNED: set[tuple[SchemaRegistry, int]] = set()
"""The ids for which this process has logged a value that does not decode."""


class RegistryDecoder(ValueDecoder):
    """Decodes values that begin with a zero byte and a schema id of 4 bytes (the wire format of Confluent).

    The values of one id are decoded together. An id that the registry does not have, or whose schema cannot be read as
    the wanted columns, makes its values bad, and is logged once.

    Args:
        fields: The wanted columns.
        registry: The registry with the schemas.
    """

    def __init__(self, fields: pa.Schema, registry: SchemaRegistry) -> None:
        self._fields, self._registry = fields, registry
        self._decoders: dict[int, ValueDecoder] = {}

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        """Returns the columns of ``values``.

        Raises:
            ConnectorError: The registry refuses the request, or does not answer in time.
        """
        ids = schema_ids(values)
        if not len(ids):
            return self._decoder(NO_ID).decode(values)
        parts, rows = [], []
        for id_ in np.unique(ids).tolist():
            rows.append(np.flatnonzero(ids == id_))
            chosen = values if len(rows[-1]) == len(ids) else values.take(pa.array(rows[-1]))
            parts.append(self._part(id_, chosen if id_ == NO_ID else payloads(chosen)))
        if len(parts) == 1:
            return parts[0]
        return _joined(parts, rows, self._fields)

    def _part(self, id_: int, values: pa.BinaryArray) -> DecodedValues:
        """Returns the columns of values with one id, without their frames, or of values without an id."""
        decoder = self._decoder(id_)
        found = decoder.decode(values)
        if found.bad is not None and (self._registry, id_) not in _WARNED and len(_WARNED) < _MOST_WARNINGS:
            _WARNED.add((self._registry, id_))
            why = self._why(id_, decoder.explain(values[found.bad.index(True).as_py()].as_py()))
            log.warning("A value of schema registry %s could not be decoded: %s", self._registry.urls[0], why)
        return found

    def explain(self, value: bytes) -> str:
        (id_,) = schema_ids(pa.array([value], pa.binary())).tolist()
        return self._why(id_, self._decoder(id_).explain(value[FRAME:]))

    def _why(self, id_: int, why: str) -> str:
        return why if id_ == NO_ID or not why else f"with schema {id_} of the registry, {why}"

    def _decoder(self, id_: int) -> ValueDecoder:
        """Returns the decoder of the values with an id, without their frames."""
        if id_ == NO_ID:
            return _Undecodable(self._fields, self.format, _NO_FRAME)
        if (known := self._decoders.get(id_)) is not None:
            return known
        try:
            self._decoders[id_] = made = self._decoder_of(SCHEMAS.schema(self._registry, id_))
        except (UnknownSchemaError, ValueError) as error:
            return _Undecodable(self._fields, self.format, str(error))
        return made

    @abstractmethod
    def _decoder_of(self, schema: RegisteredSchema) -> ValueDecoder:
        """Returns the decoder of values that were written with a schema, without their frames.

        Raises:
            ValueError: The columns cannot be made of such values; the text has the reason.
        """


class JsonRegistryDecoder(RegistryDecoder):
    """Decodes JSON objects that begin with the id of a JSON Schema. They are not validated against it."""

    format = ValueFormat.JSON

    def __init__(self, fields: pa.Schema, registry: SchemaRegistry) -> None:
        super().__init__(fields, registry)
        self._json = JsonValueDecoder(fields)

    def __reduce__(self) -> tuple[type[JsonRegistryDecoder], tuple[pa.Schema, SchemaRegistry]]:
        return JsonRegistryDecoder, (self._fields, self._registry)

    def _decoder_of(self, schema: RegisteredSchema) -> ValueDecoder:
        schema.check_type("JSON")
        return self._json


class AvroRegistryDecoder(RegistryDecoder):
    """Decodes Avro records that begin with the id of the schema that they were written with.

    Args:
        fields: The wanted columns, each of which is a field of the reader's schema.
        registry: Has the schemas.
        reader: The reader's schema, as JSON.

    Raises:
        OptionError: A column is not a field of the reader's schema, or has another type.
    """

    format = ValueFormat.AVRO

    def __init__(self, fields: pa.Schema, registry: SchemaRegistry, reader: str) -> None:
        # Imported on use, because fastavro is optional.
        from flip27_stream.connectors.kafka.values.avro_schema import with_references
        from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

        super().__init__(fields, registry)
        self._reader = reader
        self._same = AvroDecoder(fields, reader, False)
        self._canonical = with_references(reader, ())

    def __reduce__(self) -> tuple[type[AvroRegistryDecoder], tuple[pa.Schema, SchemaRegistry, str]]:
        return AvroRegistryDecoder, (self._fields, self._registry, self._reader)

    def _decoder_of(self, schema: RegisteredSchema) -> ValueDecoder:
        from flip27_stream.connectors.kafka.values.avro_schema import with_references
        from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

        schema.check_type("AVRO")
        writer = with_references(schema.text, schema.references)
        if writer == self._canonical:
            return self._same
        return AvroDecoder(self._fields, writer, False, self._reader)


class _Undecodable(ValueDecoder):
    """A decoder for values that cannot be decoded, all for the same reason."""

    def __init__(self, fields: pa.Schema, form: ValueFormat, why: str) -> None:
        self._fields, self.format, self._why = fields, form, why

    def decode(self, values: pa.BinaryArray) -> DecodedValues:
        columns = [pa.nulls(len(values), field.type) for field in self._fields]
        return DecodedValues(columns, values.is_valid() if values.null_count < len(values) else None)

    def explain(self, value: bytes) -> str:
        return self._why


def _joined(
    parts: Sequence[DecodedValues], rows: Sequence[npt.NDArray[np.int64]], fields: pa.Schema
) -> DecodedValues:
    """Returns decoded values in the order of their rows."""
    order = pa.array(np.argsort(np.concatenate(rows)))
    columns = [pa.concat_arrays([part.columns[i] for part in parts]).take(order) for i in range(len(fields))]
    if all(part.bad is None for part in parts):
        return DecodedValues(columns)
    bad = [
        part.bad if part.bad is not None else pa.array(np.zeros(len(of_part), np.bool_))
        for part, of_part in zip(parts, rows, strict=True)
    ]
    return DecodedValues(columns, pa.concat_arrays(bad).take(order))
