"""The promises of Flink's Pulsar connector that a source which is planned batch by batch keeps in another way."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pytest

from flip27_stream.api import PositioningRequest
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.planning.enumerator_state import PulsarEnumeratorState
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.testing import PulsarServer, wait_until
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.pulsar.support.kit import QUICK, MessageWriter, numbers, source_of

pytestmark = pytest.mark.jvm


def subscriptions(server: PulsarServer, partition: str) -> Mapping[str, Any]:
    """Returns the subscriptions of a partition that exist now, by name, also those that are not durable."""
    stats = server.admin("GET", f"persistent/public/default/{partition}/stats")
    found: Mapping[str, Any] = stats["subscriptions"]
    return found


def test_pu02_the_splits_of_a_reader_that_fails_are_read_again(
    pulsar_server: PulsarServer, topic: str
) -> None:
    """PU-02 adapted: an unchanged listing adds no split, and a new partition adds one. The ranges of a task that was
    killed while it read are planned again, with the same rows.
    """
    pulsar_server.create_topic(topic, 3)
    writer = MessageWriter(pulsar_server, topic, 3)
    writer.put(batch=4)
    with SourceQuery(source_of(pulsar_server, topic), parallelism=3) as query:
        batch = query.wait_for_batch()
        tasks = query.tasks(*batch)
        for task in tasks:
            query.abandon(task)
        assert query.tasks(*batch) == tasks
        rows, query.offset = query.read_all(*batch), batch[1]
        writer.check(rows)
        for _ in range(5):
            assert query.step() == []
        assert len(query.offset["splits"]) == 3
        pulsar_server.grow(topic, 4)
        writer.partitions = 4
        writer.put()
        rows += query.run(writer.count - len(rows))
        assert len(query.offset["splits"]) == 4
    writer.check(rows)


def test_pu03_a_snapshot_has_the_partitions_of_all_readers(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-03: before the discovery the state is empty. After it the state has all partitions, whichever reader they
    belong to, and whether or not a task has run as that reader.
    """
    pulsar_server.create_topic(topic, 3)
    names = frozenset(f"persistent://public/default/{topic}-partition-{number}" for number in range(3))
    context = CoordinatorContext(5, "localhost")
    enumerator = source_of(pulsar_server, topic).create_enumerator(context)

    def is_discovered() -> bool:
        context.run_due()
        return bool(context.splits)

    with closing(enumerator), closing(context):
        assert enumerator.snapshot_state() == PulsarEnumeratorState()
        enumerator.start()
        wait_until(is_discovered, "the partitions to be discovered", 60)
        assert enumerator.snapshot_state() == PulsarEnumeratorState(frozenset(), names)
        splits = context.splits.values()
        ranges = enumerator.split_ranges({s: None for s in splits if isinstance(s, PulsarPartitionSplit)})
        assert ranges.keys() == names
        assert enumerator.snapshot_state() == PulsarEnumeratorState(names, frozenset())


@pytest.mark.parametrize("interval", ["0", "50 ms"])
def test_pu05_a_stream_without_partitions_goes_on(
    pulsar_server: PulsarServer, topic: str, interval: str
) -> None:
    """PU-01 and PU-05 adapted: a stream without partitions reads nothing and goes on. It reads topics that are made
    later only if discovery is periodic, and not if it is made once.
    """
    more = {
        "admin.url": pulsar_server.admin_url,
        "topicsPattern": f"{topic}-.*",
        "partitionDiscoveryInterval": interval,
    }
    with SourceQuery(PulsarSource({**pulsar_server.options, **QUICK, **more})) as query:
        assert query.step() == []
        pulsar_server.create_topic(f"{topic}-late", 1)
        pulsar_server.put(f"{topic}-late-partition-0", [b"late"])
        rows = query.run(1) if interval != "0" else [row for _ in range(20) for row in query.step()]
    assert [row["value"] for row in rows] == ([] if interval == "0" else [b"late"])


def test_pu05_a_bounded_read_of_an_empty_topic_ends(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-05 adapted: a bounded read has no discovery, so a topic without messages has no more to come."""
    pulsar_server.create_topic(topic, 2)
    with SourceQuery(PulsarSource({**pulsar_server.options, "topic": topic}, bounded=True)) as query:
        assert query.read_batch() == []


def test_pu06_a_topic_without_partitions_has_one_owner(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-06: whatever the number of readers is, one of them has the only split, whose name has no partition."""
    pulsar_server.create_topic(topic, None)
    pulsar_server.put(topic, numbers(0, 3))
    for readers in range(1, 11):
        with SourceQuery(source_of(pulsar_server, topic), parallelism=readers) as query:
            ((planned,),) = query.tasks(*query.wait_for_batch())
            assert planned.split.split_id == f"persistent://public/default/{topic}"
            assert [row["value"] for row in query.read([planned])] == numbers(0, 3)


def test_pu07_no_split_makes_no_subscription(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-07: a query without splits, and a reader without splits, make no subscription. A split that begins at the
    latest message has nothing to read.
    """
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, numbers(0, 3))
    more = {"admin.url": pulsar_server.admin_url, "topicsPattern": f"{topic}-none-.*"}
    with SourceQuery(PulsarSource({**pulsar_server.options, **QUICK, **more})) as query:
        assert [query.step() for _ in range(3)] == [[], [], []]
        assert query.read([]) == []
        assert subscriptions(pulsar_server, partition) == {}
    with SourceQuery(source_of(pulsar_server, topic, startingOffsets="latest")) as query:
        assert [query.step() for _ in range(3)] == [[], [], []]
    wait_until(lambda: not subscriptions(pulsar_server, partition), "the readers to be removed")


@pytest.mark.parametrize("option", ["subscriptionPrefix", "pulsar.reader.subscriptionRolePrefix"])
def test_the_prefix_names_the_subscriptions_of_readers(
    pulsar_server: PulsarServer, topic: str, option: str
) -> None:
    """A reader has a subscription of this name while it reads. It is not durable, and vanishes."""
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    pulsar_server.put(partition, [bytes(1 << 20)] * 6)
    source = source_of(pulsar_server, topic, **{option: "ours", "pulsar.reader.receiverQueueSize": "1"})
    with SourceQuery(source) as query:
        ((task,),) = query.tasks(*query.wait_for_batch())
        with closing(query.poll([task], TaskRows(source.schema, [task]))) as polls:
            next(polls)
            found = subscriptions(pulsar_server, partition)
            assert found
            assert all(name.startswith("ours") and not s["isDurable"] for name, s in found.items())
    wait_until(lambda: not subscriptions(pulsar_server, partition), "the readers to be removed")


@pytest.mark.parametrize("bounded", [True, False])
def test_pu09_the_only_split_is_paused(pulsar_server: PulsarServer, topic: str, bounded: bool) -> None:
    """PU-09: a range that ends where it begins has no rows, and another range of the same split has
    its rows afterwards.
    """
    pulsar_server.create_topic(topic, 1)
    pulsar_server.put(f"{topic}-partition-0", numbers(0, 10))
    source = PulsarSource(
        {**pulsar_server.options, "topic": topic, "startingOffsets": "earliest"}, bounded=bounded
    )
    with SourceQuery(source) as query:
        ((planned,),) = query.tasks(*query.wait_for_batch())
        for at in (planned.start, planned.start + 1):
            assert query.read([PlannedRange(planned.split, at, at)]) == []
        assert [row["value"] for row in query.read([planned])] == numbers(0, 10)


def test_pu10_a_range_ends_at_a_publish_time(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-10: one message comes before the time, and one after it. The first is read, and the next range
    to that time is empty.
    """
    pulsar_server.create_topic(topic, 1)
    pulsar_server.put(f"{topic}-partition-0", [b"before"])
    time.sleep(0.01)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.01)
    pulsar_server.put(f"{topic}-partition-0", [b"after"])
    with SourceQuery(source_of(pulsar_server, topic)) as query, query.enumerator() as (enumerator, (split,)):
        read, position = list[bytes](), None
        for _ in range(2):
            ranges = enumerator.split_ranges({split: position})
            start = ranges[split.split_id].position
            found = enumerator.event_time_positions(PositioningRequest(ranges))  # type: ignore[attr-defined]
            position, rows = found.first_at_or_after(moment)[split.split_id]
            came = query.read([PlannedRange(split, start, position)])
            assert len(came) == rows
            read += [row["value"] for row in came]
    assert read == [b"before"]
