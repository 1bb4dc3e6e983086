"""Rows of the source: the schema of Spark's built-in Kafka source, and record batches of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.connectors.kafka.record_batches import Records
from flip27_stream.connectors.kafka.split import TopicPartition

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
"""Every column is nullable, as in Spark's source (``KafkaRecordToRowConverter``)."""

_TIMESTAMP = SCHEMA.field("timestamp").type


class RowMaker:
    """Makes record batches of one partition; keeps the constant columns between them."""

    def __init__(self, partition: TopicPartition) -> None:
        self._partition = partition
        self._topics = pa.array([], pa.string())
        self._numbers = pa.array([], pa.int32())

    def rows(self, records: Records) -> pa.RecordBatch:
        """``records``, which have keys and values, in :data:`SCHEMA`. A missing timestamp is -1 ms, as in Spark."""
        count = len(records)
        if count > len(self._topics):
            capacity = 1 << max(10, count.bit_length())
            self._topics = pa.repeat(pa.scalar(self._partition.topic, pa.string()), capacity)
            self._numbers = pa.repeat(pa.scalar(self._partition.partition, pa.int32()), capacity)
        return pa.RecordBatch.from_arrays(
            [
                records.keys,
                records.values,
                self._topics.slice(0, count),
                self._numbers.slice(0, count),
                pa.array(records.offsets),
                _wrap(_TIMESTAMP, records.timestamps * 1000),
                pa.array(records.timestamp_types),
            ],
            schema=SCHEMA,
        )


def record_timestamps(records: Records) -> pa.Int64Array:
    """The records' timestamps (ms), null where there is none."""
    missing = records.timestamps < 0
    return pa.array(records.timestamps, mask=missing if missing.any() else None)


def _wrap(kind: pa.DataType, values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
