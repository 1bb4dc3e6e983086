"""Converts records to rows with the columns of Databricks' Kinesis source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.arrow_columns import binaries, longs, texts
from flip27_stream.connectors.kinesis.client.client import to_ms
from flip27_stream.connectors.kinesis.records.aggregated import MAGIC, user_records
from flip27_stream.connectors.kinesis.split import KinesisShardSplit

ARRIVAL = "approximateArrivalTimestamp"
SUB_SEQUENCE_NUMBER = "subSequenceNumber"

_COLUMNS = {
    "partitionKey": pa.string(),
    "data": pa.binary(),
    "stream": pa.string(),
    "shardId": pa.string(),
    "sequenceNumber": pa.string(),
    ARRIVAL: pa.timestamp("us", "UTC"),
}


def schema_of(*, sub_sequence_number: bool) -> pa.Schema:
    """Returns the schema of the rows.

    Args:
        sub_sequence_number: Whether there is a column with the index of a row in its aggregated record.
    """
    more = {SUB_SEQUENCE_NUMBER: pa.int64()} if sub_sequence_number else {}
    return pa.schema({**_COLUMNS, **more})


def is_arrival(assigner: TimestampAssigner) -> bool:
    """Returns whether event time is the arrival time, by which the service finds records."""
    return type(assigner) is RecordTimestampAssigner or assigner.column == ARRIVAL


@dataclass(frozen=True)
class Rows:
    """Rows and their arrival times (ms)."""

    records: pa.RecordBatch
    timestamps: pa.Int64Array


def rows_of(records: Sequence[Mapping[str, Any]], split: KinesisShardSplit, schema: pa.Schema) -> Rows:
    """Returns the rows of records, which are dictionaries of boto3. Aggregated records become several rows."""
    data = binaries([r["Data"] for r in records])
    if pc.any(pc.starts_with(data, MAGIC)).as_py():
        keys, data, numbers, timestamps, places = _taken_apart(records, split)
    else:
        keys = texts([r["PartitionKey"] for r in records])
        numbers = texts([r["SequenceNumber"] for r in records])
        timestamps = _arrival_times(records)
        places = pa.nulls(len(records), pa.int64())
    columns = {
        "partitionKey": keys,
        "data": data,
        "stream": texts([split.stream_name] * len(keys)),
        "shardId": texts([split.shard_id] * len(keys)),
        "sequenceNumber": numbers,
        ARRIVAL: timestamps.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        SUB_SEQUENCE_NUMBER: places,
    }
    batch = pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
    return Rows(batch, timestamps)


def _arrival_times(records: Sequence[Mapping[str, Any]]) -> pa.Int64Array:
    """Returns the arrival times in milliseconds; the service gives seconds."""
    seconds = np.fromiter((r["ApproximateArrivalTimestamp"] for r in records), np.float64, len(records))
    return longs(np.rint(seconds * 1000).astype(np.int64))


def _taken_apart(
    records: Sequence[Mapping[str, Any]], split: KinesisShardSplit
) -> tuple[pa.StringArray, pa.BinaryArray, pa.StringArray, pa.Int64Array, pa.Int64Array]:
    keys: list[str] = []
    data: list[bytes] = []
    numbers: list[str] = []
    arrived: list[int] = []
    places: list[int | None] = []
    for record in records:
        time, number = to_ms(record["ApproximateArrivalTimestamp"]), record["SequenceNumber"]
        parts = user_records(record["Data"], split.first_hash_key, split.last_hash_key)
        if parts is None:
            keys.append(record["PartitionKey"])
            data.append(record["Data"])
            places.append(None)
        else:
            keys += [part.partition_key for part in parts]
            data += [part.data for part in parts]
            places += [part.number for part in parts]
        added = len(keys) - len(numbers)
        numbers += [number] * added
        arrived += [time] * added
    return (
        texts(keys),
        binaries(data),
        texts(numbers),
        longs(np.array(arrived, np.int64)),
        pa.array(places, pa.int64()),
    )
