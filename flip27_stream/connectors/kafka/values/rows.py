"""Makes record batches of rows from Kafka records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.arrow_columns import ints, longs, repeated
from flip27_stream.connectors.kafka.records.record_batches import RecordColumns
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.values.value_decoder import ValueDecoder
from flip27_stream.errors import RecordFormatError

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
"""The schema of Spark's built-in Kafka source (``KafkaRecordToRowConverter``); every column is nullable."""

_TIMESTAMP = SCHEMA.field("timestamp").type
_GREATEST_MS = (2**63 - 1) // 1000
_LEAST_MS = -(2**63 // 1000)
_FEWEST_CONSTANTS = 1 << 7


@dataclass(frozen=True)
class RowLayout:
    """The columns of rows and their sources. Picklable.

    Attributes:
        schema: The schema of the record batches.
        record_columns: For each column the name of the record's column that it copies, as in Spark; ``None`` for a
            column that ``decoder`` makes.
        decoder: Makes columns from values; ``None`` if values are not decoded.
        fail_fast: Whether a value that cannot be decoded is an error.
        corrupt_column: The index of the column with the bytes of values that cannot be decoded; ``None`` without one.
    """

    schema: pa.Schema
    record_columns: tuple[str | None, ...]
    decoder: ValueDecoder | None = None
    fail_fast: bool = False
    corrupt_column: int | None = None

    @classmethod
    def of_records(cls) -> RowLayout:
        """Returns the layout in which each column copies the record's column of the same name."""
        return cls(SCHEMA, tuple(SCHEMA.names))

    @property
    def needs_keys(self) -> bool:
        """Whether the keys of records have to be decoded."""
        return "key" in self.record_columns

    @property
    def needs_values(self) -> bool:
        """Whether the values of records have to be decoded."""
        return "value" in self.record_columns or self.decoder is not None

    @property
    def needs_headers(self) -> bool:
        """Whether the headers of records have to be decoded."""
        return "headers" in self.record_columns


class RowMaker:
    """Makes the record batches of one partition. It reuses the columns ``topic`` and ``partition``, which are constant.

    Args:
        partition: The partition.
        layout: The columns; by default those of Spark's Kafka source.
    """

    def __init__(self, partition: TopicPartition, layout: RowLayout | None = None) -> None:
        self._partition = partition
        self._layout = layout or RowLayout.of_records()
        self._topics = repeated("", 0)
        self._numbers = ints(np.empty(0, np.int32))

    def rows(self, records: RecordColumns) -> pa.RecordBatch:
        """Returns the rows of ``records``. A missing timestamp becomes -1 ms, as in Spark.

        Args:
            records: Records with the columns that the layout needs.

        Raises:
            RecordFormatError: A value cannot be decoded and ``fail_fast`` is set; a column that is NOT NULL has a null;
                or a timestamp does not fit Spark's type.
        """
        layout = self._layout
        decoded = self._decoded(records)
        columns = [
            next(decoded) if name is None else self._record_column(name, records)
            for name in layout.record_columns
        ]
        for field, column in zip(layout.schema, columns, strict=True):
            if not field.nullable and column.null_count:
                self._refuse_null(field.name, column, records)
        if not columns:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
        return pa.RecordBatch.from_arrays(columns, schema=layout.schema)

    def _record_column(self, name: str, records: RecordColumns) -> pa.Array:
        if name in ("topic", "partition"):
            return self._constant(name, len(records))
        if name == "timestamp":
            return self._timestamps(records)
        if name == "offset":
            return longs(records.offsets)
        if name == "timestampType":
            return ints(records.timestamp_types)
        return {"key": records.keys, "value": records.values, "headers": records.headers}[name]

    def _timestamps(self, records: RecordColumns) -> pa.Array:
        """Returns the column of timestamps in microseconds.

        Kafka accepts timestamps that do not fit 64 bits in microseconds. They are an error, as in Spark.
        """
        outside = (records.timestamps > _GREATEST_MS) | (records.timestamps < _LEAST_MS)
        if outside.any():
            row = int(outside.argmax())
            raise RecordFormatError(
                f"The record of {self._partition} at offset {records.offsets[row]} has the timestamp "
                f"{records.timestamps[row]} ms, which does not fit a column of type timestamp. Correct its producer; "
                "to read the other columns of such records, give a schema without 'timestamp'."
            )
        return _wrap(_TIMESTAMP, records.timestamps * 1000)

    def _constant(self, name: str, count: int) -> pa.Array:
        if count > len(self._topics):
            capacity = max(_FEWEST_CONSTANTS, 1 << count.bit_length())
            self._topics = repeated(self._partition.topic, capacity)
            self._numbers = ints(np.full(capacity, self._partition.partition, np.int32))
        return (self._topics if name == "topic" else self._numbers).slice(0, count)

    def _decoded(self, records: RecordColumns) -> Iterator[pa.Array]:
        """Returns the columns that are made from values, in the order of the layout."""
        layout = self._layout
        if layout.decoder is None:
            return iter(())
        values = layout.decoder.decode(records.values)
        if values.bad is not None and layout.fail_fast:
            self._refuse_value(layout.decoder, values.bad.index(True).as_py(), records)
        columns = list(values.columns)
        if layout.corrupt_column is not None:
            made_before = layout.record_columns[: layout.corrupt_column].count(None)
            columns.insert(made_before, _only_bad(records.values, values.bad))
        return iter(columns)

    def _refuse_value(self, decoder: ValueDecoder, row: int, records: RecordColumns) -> NoReturn:
        assert records.values is not None
        why = decoder.explain(records.values[row].as_py())
        raise RecordFormatError(
            f"The value of {self._partition} at offset {records.offsets[row]} does not decode as "
            f"{decoder.format.value}: {why}. To have nulls in its place, set option 'value.mode' to permissive."
        )

    def _refuse_null(self, name: str, column: pa.Array, records: RecordColumns) -> NoReturn:
        row = column.is_null().index(True).as_py()
        raise RecordFormatError(
            f"The record of {self._partition} at offset {records.offsets[row]} has no value for column '{name}', which "
            "is NOT NULL in the schema. Leave NOT NULL out of the schema."
        )


def record_timestamps(records: RecordColumns) -> pa.Int64Array:
    """Returns the timestamps of records in ms, null for a record without a timestamp."""
    return longs(records.timestamps, records.timestamps >= 0)


def _only_bad(values: pa.BinaryArray, bad: pa.BooleanArray | None) -> pa.Array:
    if bad is None:
        return pa.nulls(len(values), pa.binary())
    return pc.if_else(bad, values, pa.scalar(None, pa.binary()))


def _wrap(kind: pa.DataType, values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
