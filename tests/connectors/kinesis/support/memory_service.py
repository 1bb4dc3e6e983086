"""A Kinesis service in memory, for faults that no emulator has. It is put in between boto3 and the network."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.client.client import KinesisClient
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.connectors.kinesis.planning.shard_log import ShardLog
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from tests.connectors.kinesis.support.answers import answering, error
from tests.connectors.kinesis.support.kit import QUICK

FIRST_NUMBER = 10**55
_OPTIONS = {
    **QUICK,
    "endpoint": "http://127.0.0.1:9",
    "region": "us-east-1",
    "awsAccessKey": "test",
    "awsSecretKey": "test",
    "streamName": "clicks",
}
_LAST_HASH_KEY = 2**128 - 1


@dataclass
class MemoryShard:
    """A shard: its records as pairs of sequence number and arrival time (ms), in order.

    Attributes:
        size: The least number of bytes in a record's data. Shorter data end with spaces.
    """

    records: list[tuple[int, int]] = field(default_factory=list)
    parents: tuple[str, ...] = ()
    is_closed: bool = False
    size: int = 0

    def expire(self, count: int) -> None:
        """Deletes the first ``count`` records."""
        del self.records[:count]


def numbered_records(count: int, first_time: int, step_ms: int = 1, first: int = 0) -> list[tuple[int, int]]:
    """Returns ``count`` records, the first with the number ``first``, which arrived every ``step_ms``."""
    return [(FIRST_NUMBER + (first + i) * 1000, first_time + i * step_ms) for i in range(count)]


class MemoryService:
    """Stream ``clicks``. :meth:`running` answers all calls of the sources and clients that are made here.

    Attributes:
        shards: The shards by their ids. An id that is removed is not listed any more.
        created: When the stream was made (s).
        asked: The operation and the arguments of each call.
        fault: Returns an answer in place of the usual one, or raises an error of the network; ``None`` for the usual.
    """

    def __init__(self, **shards: MemoryShard) -> None:
        self.shards = shards
        self.created = 1.0
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fault: Callable[[str, dict[str, Any]], Any] = lambda operation, asked: None

    def split(self, parent: str, *children: str) -> None:
        """Closes a shard, and makes empty children of it."""
        self.shards[parent].is_closed = True
        self.shards |= {child: MemoryShard([], (parent,)) for child in children}

    def source(self, **more: str) -> KinesisSource:
        return KinesisSource({**_OPTIONS, **more})

    def connection(self, **more: str) -> KinesisConnectionOptions:
        return parse_kinesis_options({**_OPTIONS, **more}).connection

    def log_of(self, shard_id: str, client: KinesisClient | None = None, **more: str) -> ShardLog:
        """Returns the log of a shard, with a client of its own or with ``client``."""
        return ShardLog(client or self.client(**more), KinesisShardSplit("clicks", shard_id), 1000)

    def client(self, **more: str) -> KinesisClient:
        return KinesisClient(self.connection(**more), ShardLimits(0, 1e9))

    def times_asked(self) -> list[str]:
        """Returns the shards with a request for the first record at a time."""
        return [
            asked["ShardId"] for _, asked in self.asked if asked.get("ShardIteratorType") == "AT_TIMESTAMP"
        ]

    @contextmanager
    def running(self, **more: str) -> Iterator[MemoryService]:
        answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "DescribeStreamSummary": self._described,
            "ListShards": self._listed,
            "GetShardIterator": self._iterator,
            "GetRecords": self._records,
        }
        connection = self.connection(**more)
        with ExitStack() as stack:
            for operation, answer in answers.items():
                stack.enter_context(answering(connection, operation, self._answering(operation, answer)))
            yield self

    def _answering(self, operation: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        def answered(asked: dict[str, Any]) -> Any:
            self.asked.append((operation, asked))
            if (fault := self.fault(operation, asked)) is not None:
                return fault
            if "ShardIterator" in asked and not asked["ShardIterator"].endswith(f":{self.created}"):
                return error("ExpiredIteratorException")
            if asked.get("ShardId", self._shard_of(asked)) not in {None, *self.shards}:
                return error("ResourceNotFoundException")
            return 200, answer(asked)

        return answered

    def _shard_of(self, asked: dict[str, Any]) -> str | None:
        return str(asked["ShardIterator"]).split(":")[0] if "ShardIterator" in asked else None

    def _described(self, asked: dict[str, Any]) -> dict[str, Any]:
        summary = {
            "StreamName": "clicks",
            "StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/clicks",
            "StreamStatus": "ACTIVE",
            "StreamCreationTimestamp": self.created,
            "RetentionPeriodHours": 24,
            "EnhancedMonitoring": [],
            "OpenShardCount": len(self.shards),
        }
        return {"StreamDescriptionSummary": summary}

    def _listed(self, asked: dict[str, Any]) -> dict[str, Any]:
        names = ("ParentShardId", "AdjacentParentShardId")
        return {
            "Shards": [
                {
                    "ShardId": shard_id,
                    "HashKeyRange": {"StartingHashKey": "0", "EndingHashKey": str(_LAST_HASH_KEY)},
                    "SequenceNumberRange": {"StartingSequenceNumber": str(int(self.created) * FIRST_NUMBER)},
                    **dict(zip(names, shard.parents, strict=False)),
                }
                for shard_id, shard in self.shards.items()
            ]
        }

    def _iterator(self, asked: dict[str, Any]) -> dict[str, Any]:
        records, kind = self.shards[asked["ShardId"]].records, asked["ShardIteratorType"]
        number, least = int(asked.get("StartingSequenceNumber", 0)), float(asked.get("Timestamp", 0)) * 1000
        begins: Callable[[int, int], bool] = {
            "TRIM_HORIZON": lambda n, t: True,
            "AT_TIMESTAMP": lambda n, t: t >= least - 0.001,
            "AT_SEQUENCE_NUMBER": lambda n, t: n >= number,
            "AFTER_SEQUENCE_NUMBER": lambda n, t: n > number,
        }[kind]
        next_number = next((n for n, t in records if begins(n, t)), None)
        at = (records[-1][0] + 1 if records else number) if next_number is None else next_number
        return {"ShardIterator": f"{asked['ShardId']}:{at}:{self.created}"}

    def _records(self, asked: dict[str, Any]) -> dict[str, Any]:
        shard_id, at, _ = str(asked["ShardIterator"]).split(":")
        shard = self.shards[shard_id]
        left = [record for record in shard.records if record[0] >= int(at)]
        page = left[: asked["Limit"]]
        answer: dict[str, Any] = {
            "Records": [
                {
                    "SequenceNumber": str(number),
                    "ApproximateArrivalTimestamp": time / 1000,
                    "Data": base64.b64encode(_data_of(number).ljust(shard.size)).decode(),
                    "PartitionKey": "key",
                }
                for number, time in page
            ],
            "MillisBehindLatest": 0 if len(page) == len(left) else 1000,
        }
        if len(page) < len(left) or not shard.is_closed:
            answer["NextShardIterator"] = f"{shard_id}:{page[-1][0] + 1 if page else at}:{self.created}"
        return answer


def _data_of(number: int) -> bytes:
    return b"%d" % ((number - FIRST_NUMBER) // 1000)
