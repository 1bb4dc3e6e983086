"""Offsets that initializers ask for, at a real broker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from kafka import KafkaConsumer
from kafka import TopicPartition as ClientPartition
from kafka.structs import OffsetAndMetadata

from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.planning.offset_lookups import ClusterOffsets
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import UnreachableError
from flip27_stream.testing import KafkaBroker

pytestmark = pytest.mark.jvm


def test_offsets_are_found_by_place_time_and_group(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    """KO-01, KO-03: a partition without so late a record is left out, and so is one for which the group has
    no committed offset.
    """
    name = topic(2)
    broker.write(name, [(0, 1000 + i, None, b"v") for i in range(5)])
    p0, p1 = TopicPartition(name, 0), TopicPartition(name, 1)
    with closing(
        KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=f"group-{name}")
    ) as consumer:
        consumer.commit({ClientPartition(name, 0): OffsetAndMetadata(3, "", -1)})
    with closing(KafkaClient(ConnectionOptions(broker.bootstrap_servers))) as client:
        lookups = ClusterOffsets(client)
        assert lookups.start_offsets([p0, p1]) == {p0: 0, p1: 0}
        assert lookups.end_offsets([p0, p1]) == {p0: 5, p1: 0}
        assert lookups.offsets_for_times({p0: 1002, p1: 1002}) == {p0: 2}
        assert lookups.offsets_for_times({p0: 2000}) == {}
        assert lookups.committed_offsets(f"group-{name}", [p0, p1]) == {p0: 3}
        assert lookups.committed_offsets("nobody", [p0]) == {}


def test_fetch_offset_num_retries_is_the_number_of_attempts() -> None:
    """``fetchOffset.numRetries`` is the number of attempts. The last error says how many there were."""
    asked: list[int] = []

    class Silent(KafkaClient):
        def offsets(self, *args: object, **kwargs: object) -> dict[TopicPartition, int]:
            asked.append(1)
            raise UnreachableError("nobody answers.")

    lookups = ClusterOffsets(Silent(ConnectionOptions("127.0.0.1:1")), attempts=4, interval_ms=1)
    with pytest.raises(
        UnreachableError, match=r"^nobody answers\. Attempts: 4 \(option 'fetchOffset\.numRetries'\)\.$"
    ):
        lookups.end_offsets([TopicPartition("t", 0)])
    assert len(asked) == 4
