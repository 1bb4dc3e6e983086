"""Bounded reads of a real broker: where they end is found once, and kept."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.kit import running, source

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def write(broker: KafkaBroker, topic: str, count: int, partition: int = 0) -> None:
    broker.write(topic, [(partition, 1000 * i, None, b"%d" % i) for i in range(count)])


def test_a_stream_up_to_the_latest_offsets(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KB-04, KR-08: found at the first discovery, kept across restarts; partitions found later are not read."""
    name = topic()
    write(broker, name, 5)
    bounded = {"startingOffsets": "earliest", "scan.bounded.mode": "latest-offset"}
    with running(source(broker, bounded, subscribePattern=f"{name}.*")) as query:
        assert [call.period_ms for call in query.context.calls] == [None]
        write(broker, name, 3)
        assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 5, final=True)}
        state = query.enumerator.snapshot_state()
        assert state.stopping_offsets == {TopicPartition(name, 0): 5}
    broker.create_topic(f"{name}-later")
    with running(source(broker, bounded, subscribePattern=f"{name}.*"), state) as query:
        assert query.context.splits == {}
        query.positions[KafkaPartitionSplit(name, 0)] = 2
        assert query.ranges() == {f"{name}-0": SplitRange(2, 5, final=True)}
        query.positions[KafkaPartitionSplit(name, 0)] = 5
        assert query.ranges() == {f"{name}-0": SplitRange(5, 5, final=True)}
    with running(source(broker, subscribePattern=f"{name}.*"), state) as query:  # the option was taken away
        query.positions[KafkaPartitionSplit(name, 0)] = 5
        assert query.ranges()[f"{name}-0"] == SplitRange(5, 8)


def test_a_stream_up_to_offsets_that_are_still_to_come(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KR-03, KR-07: a split is finished at its stop and not before; one that begins there is so at once."""
    name = topic(2)
    write(broker, name, 3)
    stops = "partition:0,offset:5;partition:1,offset:0"
    bounded = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": stops}
    with running(source(broker, bounded, subscribe=name, startingOffsets="earliest")) as query:
        assert query.move_to_ends() == {
            f"{name}-0": SplitRange(0, 3),
            f"{name}-1": SplitRange(0, 0, final=True),
        }
        write(broker, name, 9)
        assert query.move_to_ends()[f"{name}-0"] == SplitRange(3, 5, final=True)


def test_sk_16_a_batch_read_between_times(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-16, KO-03: no record at or after the ending time means to the end of that partition."""
    name = topic(2)
    write(broker, name, 10)
    write(broker, name, 3, partition=1)
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": name,
        "startingTimestamp": "2000",
        "endingTimestamp": "5000",
    }
    with running(KafkaSource(options, bounded=True)) as query:
        assert query.ranges() == {
            f"{name}-0": SplitRange(2, 5, final=True),
            f"{name}-1": SplitRange(2, 3, final=True),
        }


def test_sk_12_latest_is_found_once(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-12: what comes between the first discovery and the first plan is not lost."""
    name = topic()
    write(broker, name, 2)
    offsets = json.dumps({name: {"0": -1}})
    with running(source(broker, subscribe=name, startingOffsets=offsets)) as query:
        write(broker, name, 3)
        assert query.ranges() == {f"{name}-0": SplitRange(2, 5)}
