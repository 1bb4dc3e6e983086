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
