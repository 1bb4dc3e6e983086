"""The source, the messages and the counts that tests of Pulsar share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.testing import PulsarServer

QUICK: Mapping[str, str] = {
    "startingOffsets": "earliest",
    "partitionDiscoveryInterval": "50 ms",
    "pulsar.client.operationTimeoutMs": "20000",
}


def source_of(server: PulsarServer, *topics: str, **more: str) -> PulsarSource:
    """Returns a source that reads topics from their beginning, and finds new partitions soon."""
    return PulsarSource({**server.options, **QUICK, "topics": ",".join(topics), **more})


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % i for i in range(first, first + count)]


def counted(rows: Sequence[Mapping[str, Any]]) -> Counter[bytes]:
    return Counter(row["value"] for row in rows)


class MessageWriter:
    """Puts numbered messages into all partitions of a topic, in entries of one message and in batches."""

    def __init__(self, server: PulsarServer, topic: str, partitions: int) -> None:
        self._server, self._topic, self.partitions, self.count = server, topic, partitions, 0

    def put(self, count: int = 6, batch: int = 1) -> None:
        """Writes a number of messages to each partition."""
        for number in range(self.partitions):
            self._server.put(f"{self._topic}-partition-{number}", numbers(self.count, count), batch=batch)
            self.count += count

    def check(self, rows: list[dict[str, Any]]) -> None:
        assert counted(rows) == dict.fromkeys(numbers(0, self.count), 1)
