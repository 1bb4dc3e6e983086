"""Rows of Kafka records in the schema of Spark's built-in source."""

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
    """The schema has the names, order and types of Spark's built-in source. All columns are nullable."""
    kinds = {"key": "binary", "value": "binary", "topic": "string", "partition": "int32", "offset": "int64"}
    kinds |= {"timestamp": "timestamp[us, tz=UTC]", "timestampType": "int32"}
    assert {field.name: str(field.type) for field in SCHEMA} == kinds
    assert all(field.nullable for field in SCHEMA)


def test_constant_columns_fit_batches_of_any_size() -> None:
    """Constant columns are shared between batches of any size, and are still right."""
    maker = RowMaker(TopicPartition("t", 3))
    for count in (1, 5000, 2):
        rows = maker.rows(records([7] * count))
        rows.validate(full=True)
        assert rows.schema == SCHEMA
        assert rows["topic"].to_pylist() == ["t"] * count
        assert rows["partition"].to_pylist() == [3] * count
        assert rows["timestamp"].cast(pa.int64()).to_pylist() == [7000] * count


def test_a_missing_timestamp_is_minus_one() -> None:
    """A record without a timestamp has -1 ms in its row, as in Spark, and no event time."""
    made = records([5, -1])
    rows = RowMaker(TopicPartition("t", 0)).rows(made)
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [5000, -1000]
    assert record_timestamps(made).to_pylist() == [5, None]


GREATEST = (2**63 - 1) // 1000


def test_timestamps_at_the_ends_of_time() -> None:
    """A timestamp that microseconds can hold is unchanged."""
    rows = RowMaker(TopicPartition("t", 0)).rows(records([GREATEST, -GREATEST]))
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [GREATEST * 1000, -GREATEST * 1000]


@pytest.mark.parametrize("time", [GREATEST + 1, -GREATEST - 1, 2**62, 2**63 - 1, -(2**63)])
def test_timestamp_that_microseconds_cannot_hold(time: int) -> None:
    """A timestamp that microseconds cannot hold is an error, as in Spark's own source (Math.multiplyExact). It would
    wrap to another time.
    """
    made = records([5, time, time])
    with pytest.raises(RecordFormatError, match=f"t-3 at offset 1 has the timestamp {time} ms"):
        RowMaker(TopicPartition("t", 3)).rows(made)
    without = RowLayout(pa.schema([SCHEMA.field("value"), SCHEMA.field("offset")]), ("value", "offset"))
    assert RowMaker(TopicPartition("t", 3), without).rows(made).num_rows == 3
