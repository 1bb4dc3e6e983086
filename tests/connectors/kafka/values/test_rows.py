"""Rows in the schema of Spark's built-in source."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.records.record_batches import RecordColumns
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.values.rows import SCHEMA, RowLayout, RowMaker, record_timestamps
from flip27_stream.errors import RecordFormatError


def records(timestamps: list[int]) -> RecordColumns:
    count = len(timestamps)
    return RecordColumns(
        offsets=np.arange(count, dtype=np.int64),
        timestamps=np.array(timestamps, np.int64),
        timestamp_types=np.zeros(count, np.int32),
        keys=pa.array([None] * count, pa.binary()),
        values=pa.array([b"v"] * count, pa.binary()),
        headers=None,
    )


def test_schema_is_that_of_spark() -> None:
    """Names, order and types of the built-in source, all nullable, nothing that Spark does not read."""
    kinds = {"key": "binary", "value": "binary", "topic": "string", "partition": "int32", "offset": "int64"}
    kinds |= {"timestamp": "timestamp[us, tz=UTC]", "timestampType": "int32"}
    assert {field.name: str(field.type) for field in SCHEMA} == kinds
    assert all(field.nullable for field in SCHEMA)


def test_rows_of_growing_batches() -> None:
    """The constant columns are shared between batches, and still right."""
    maker = RowMaker(TopicPartition("t", 3))
    for count in (1, 5000, 2):
        rows = maker.rows(records([7] * count))
        rows.validate(full=True)
        assert rows.schema == SCHEMA
        assert rows["topic"].to_pylist() == ["t"] * count
        assert rows["partition"].to_pylist() == [3] * count
        assert rows["timestamp"].cast(pa.int64()).to_pylist() == [7000] * count


def test_missing_timestamp() -> None:
    """As in Spark the row has -1 ms; as an event time it is none."""
    made = records([5, -1])
    rows = RowMaker(TopicPartition("t", 0)).rows(made)
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [5000, -1000]
    assert record_timestamps(made).to_pylist() == [5, None]


GREATEST = (2**63 - 1) // 1000


def test_timestamps_at_the_ends_of_time() -> None:
    """What fits microseconds comes as it is."""
    rows = RowMaker(TopicPartition("t", 0)).rows(records([GREATEST, -GREATEST]))
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [GREATEST * 1000, -GREATEST * 1000]


@pytest.mark.parametrize("time", [GREATEST + 1, -GREATEST - 1, 2**62, 2**63 - 1, -(2**63)])
def test_timestamp_that_microseconds_cannot_hold(time: int) -> None:
    """Spark's own source fails, too (Math.multiplyExact); 64 bits would wrap to another time."""
    made = records([5, time, time])
    with pytest.raises(RecordFormatError, match=f"t-3 at offset 1 has the timestamp {time} ms"):
        RowMaker(TopicPartition("t", 3)).rows(made)
    without = RowLayout(pa.schema([SCHEMA.field("value"), SCHEMA.field("offset")]), ("value", "offset"))
    assert RowMaker(TopicPartition("t", 3), without).rows(made).num_rows == 3
