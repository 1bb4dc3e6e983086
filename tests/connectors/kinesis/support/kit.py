"""The source and the records that tests of Kinesis share."""

from __future__ import annotations

from typing import Any

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.testing import KinesisServer

QUICK = {
    "initialPosition": "trim_horizon",
    "shardFetchInterval": "50 ms",
    "minFetchPeriod": "0",
    "maxFetchRate": "2.0",
    "settlingTime": "50 ms",
}


def source_of(server: KinesisServer, *streams: str, **more: str) -> KinesisSource:
    """Returns a source that reads streams from their beginning, and finds new shards soon."""
    return KinesisSource({**server.options, **QUICK, "streamName": ",".join(streams), **more})


def data_of(rows: list[dict[str, Any]]) -> list[bytes]:
    """Returns the data of rows, in the order in which they were read."""
    return [row["data"] for row in rows]


def numbers_of(rows: list[dict[str, Any]]) -> list[int]:
    """Returns the data of rows, which are numbers, in the order in which they were read."""
    return [int(data) for data in data_of(rows)]


def numbered(first: int, count: int, shards: int) -> list[tuple[int, bytes]]:
    """Returns records for :meth:`KinesisServer.put`, one shard after the other, whose data are numbers."""
    return [(i % shards, b"%d" % i) for i in range(first, first + count)]
