"""Partitions of a real server: growth, unloads, batches, limits, cursors."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from flip27_stream.api import PositioningRequest
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.connectors.pulsar.records.columns import PUBLISH_TIME, SCHEMA
from flip27_stream.errors import OptionError
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing import PulsarServer, wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.kit import QUICK, MessageWriter, counted, numbers, source_of

pytestmark = pytest.mark.jvm

FULL = "persistent://public/default/"


def test_columns_are_those_of_streamnative_s_source(pulsar_server: PulsarServer, topic: str) -> None:
    """The columns are those of StreamNative's source. A topic that is not partitioned is one split."""
    pulsar_server.create_topic(topic, None)
    before = time.time_ns() // 1_000_000
    more: dict[str, Any] = {"partition_key": "k", "properties": {"a": "b"}, "event_timestamp": before}
    pulsar_server.put(topic, [b"one"], **more)
    ((ledger, entry, _),) = pulsar_server.put(topic, [b"two"])
    with SourceQuery(source_of(pulsar_server, topic)) as query:
        one, two = query.run(2)
    assert (one["value"], one["__key"], one["__topic"]) == (b"one", b"k", FULL + topic)
    assert one["__messageProperties"] == [("a", "b")]
    assert one["__eventTime"].timestamp() == pytest.approx(before / 1000)
    assert one["__publishTime"].timestamp() >= before / 1000 - 1
    assert (two["__key"], two["__eventTime"], two["__messageProperties"]) == (None, None, [])
    import pulsar

    found = pulsar.MessageId.deserialize(two["__messageId"])
    assert (found.ledger_id(), found.entry_id()) == (ledger, entry)


def test_new_partitions_and_unloads_under_a_running_query_lose_no_message(
    pulsar_server: PulsarServer, topic: str
) -> None:
    """PU-04: a new partition is read from its beginning, and once. An unload makes a new ledger."""
    pulsar_server.create_topic(topic, 2)
    writer, rows = MessageWriter(pulsar_server, topic, 2), list[dict[str, Any]]()
    writer.put()
    with SourceQuery(source_of(pulsar_server, topic)) as query:
        rows += query.run(writer.count)
        for number in (0, 1):
            pulsar_server.unload(f"{topic}-partition-{number}")
            writer.put(batch=4)
            rows += query.step()
        pulsar_server.grow(topic, 4)
        writer.partitions = 4
        writer.put()
        rows += query.run(writer.count - len(rows))
    writer.check(rows)


def test_partitions_that_were_added_to_a_stopped_query_are_read(
    pulsar_server: PulsarServer, topic: str
) -> None:
    """PU-03: new partitions begin at their first message, though the query began at the latest one."""
    pulsar_server.create_topic(topic, 1)
    writer = MessageWriter(pulsar_server, topic, 1)
    pulsar_server.put(f"{topic}-partition-0", [b"before"])
    source = source_of(pulsar_server, topic, startingOffsets="latest")
    with SourceQuery(source) as query:
        assert query.step() == []
        writer.put()
        rows = query.run(writer.count)
        offset = query.offset
    pulsar_server.grow(topic, 2)
    writer.partitions = 2
    writer.put()
    with SourceQuery(source, offset) as query:
        rows += query.run(writer.count - len(rows))
    writer.check(rows)


@pytest.mark.parametrize("seed", range(2))
def test_batches_unloads_and_restarts_lose_no_message(
    pulsar_server: PulsarServer, topic: str, seed: int
) -> None:
    """Every message comes exactly once, in spite of batches, unloads, new partitions, small limits, and
    restarts after any plan.
    """
    rng = random.Random(seed)
    pulsar_server.create_topic(topic, 2)
    writer, rows, offset = MessageWriter(pulsar_server, topic, 2), list[dict[str, Any]](), None
    planned: tuple[Any, Any] | None = None
    source = source_of(pulsar_server, topic, maxRecordsPerTrigger="11")
    for _ in range(10):
        writer.put(rng.randrange(1, 9), rng.choice([1, 3]))
        if rng.random() < 0.4:
            pulsar_server.unload(f"{topic}-partition-{rng.randrange(writer.partitions)}")
        if rng.random() < 0.2:
            writer.partitions += 1
            pulsar_server.grow(topic, writer.partitions)
        with SourceQuery(source, offset) as query:
            query.planned = planned
            rows += query.step()
            planned = query.next_batch() if rng.random() < 0.5 else None
            offset = query.offset
    with SourceQuery(source, offset) as query:
        query.planned = planned
        rows += query.run(writer.count - len(rows))
    writer.check(rows)


def test_limits_are_kept_within_batches_and_over_ledgers(pulsar_server: PulsarServer, topic: str) -> None:
    """A micro-batch may begin and end inside an entry. A replay has the same rows, whatever
    messages came meanwhile.
    """
    pulsar_server.create_topic(topic, 1)
    writer, rows = MessageWriter(pulsar_server, topic, 1), list[dict[str, Any]]()
    writer.put(20, batch=20)
    pulsar_server.unload(f"{topic}-partition-0")
    writer.put(5)
    with SourceQuery(source_of(pulsar_server, topic, maxRecordsPerTrigger="3")) as query:
        while len(rows) < writer.count:
            batch = query.wait_for_batch()
            once = query.read_all(*batch)
            if len(rows) == 3:
                writer.put(4)
            assert query.read_all(*batch) == once
            assert len(once) <= 3
            rows += once
            query.offset = batch[1]
    writer.check(rows)


def test_bytes_of_a_micro_batch_are_limited(pulsar_server: PulsarServer, topic: str) -> None:
    """The limit of bytes holds without ``admin.url``, and for many more entries than planning reads."""
    pulsar_server.create_topic(topic, 1)
    values = [b"%05d" % i + bytes(995) for i in range(3000)]
    pulsar_server.put(f"{topic}-partition-0", values)
    with SourceQuery(source_of(pulsar_server, topic, maxBytesPerTrigger="1000000")) as query:
        first = query.step()
        assert 900 <= len(first) <= 1100
        rows = first + query.run(2000)
    assert [row["value"][:5] for row in rows] == [value[:5] for value in values]


def test_available_now_ends_at_the_last_message_at_its_start(pulsar_server: PulsarServer, topic: str) -> None:
    pulsar_server.create_topic(topic, 2)
    writer = MessageWriter(pulsar_server, topic, 2)
    writer.put()
    there, rows = writer.count, list[dict[str, Any]]()
    source = source_of(pulsar_server, topic, maxRecordsPerTrigger="4")
    with SourceQuery(source, available_now=True) as query:
        while (batch := query.next_batch()) is not None:
            rows += query.read_all(*batch)
            query.offset = batch[1]
            if len(rows) < there and writer.count == there:
                writer.put()
    assert len(rows) == there
    with SourceQuery(source, query.offset) as query:
        rows += query.run(writer.count - there)
    writer.check(rows)


def test_a_new_query_begins_at_its_starting_position(pulsar_server: PulsarServer, topic: str) -> None:
    """A query that begins at the latest message has no rows, and leaves no subscription behind."""
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    first = pulsar_server.put(partition, numbers(0, 5))
    time.sleep(0.01)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.01)
    pulsar_server.put(partition, numbers(5, 5))

    def read(count: int, **more: str) -> list[bytes]:
        options = {k: v for k, v in QUICK.items() if k != "startingOffsets"}
        with SourceQuery(PulsarSource({**pulsar_server.options, **options, "topic": topic, **more})) as query:
            return [row["value"] for row in (query.run(count) if count else query.step())]

    ledger, entry, _ = first[3]
    assert read(0) == []
    assert read(5, startingTime=str(moment)) == numbers(5, 5)
    assert read(0, startingTime=str(moment + 30_000)) == []
    with pytest.raises(OptionError, match="later than the clock of the driver"):
        read(0, startingTime=str(moment + 3_600_000))
    assert read(7, startingOffsets=f'{{"{partition}": "{ledger}:{entry}"}}') == numbers(3, 7)
    assert read(10, startingOffsets=f'{{"{topic}": "earliest"}}') == numbers(0, 10)
    stats = pulsar_server.admin("GET", f"persistent/public/default/{partition}/stats")
    assert not [s for s in stats["subscriptions"].values() if s["isDurable"]]


def test_topics_are_found_by_pattern(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-01: topics that are created later are found."""
    pulsar_server.create_topic(f"{topic}-a", 2)
    pulsar_server.create_topic(f"{topic}-b", None)
    pulsar_server.create_topic(f"other-{topic}", 1)
    source = PulsarSource(
        {
            **pulsar_server.options,
            **QUICK,
            "admin.url": pulsar_server.admin_url,
            "topicsPattern": f"persistent://public/default/{topic}-.*",
        }
    )
    for name in (f"{topic}-a-partition-1", f"{topic}-b", f"other-{topic}-partition-0"):
        pulsar_server.put(name, [name.encode()])
    with SourceQuery(source) as query:
        rows = query.run(2)
        pulsar_server.create_topic(f"{topic}-c", 1)
        pulsar_server.put(f"{topic}-c-partition-0", [b"later"])
        rows += query.run(1)
    assert set(counted(rows)) == {f"{topic}-a-partition-1".encode(), f"{topic}-b".encode(), b"later"}


def test_the_cursor_of_a_subscription_follows(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-08: the backlog of the subscription has the messages that are not processed yet. The query
    itself goes by its offset.
    """
    pulsar_server.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    source = source_of(pulsar_server, topic, predefinedSubscription="ours", maxRecordsPerTrigger="4")
    pulsar_server.put(partition, numbers(0, 10))

    def backlog() -> int:
        stats = pulsar_server.admin("GET", f"persistent/public/default/{partition}/stats")
        return int(stats["subscriptions"]["ours"]["msgBacklog"])

    with SourceQuery(source) as query:
        batch = query.wait_for_batch()
        assert backlog() == 10
        query.offset = batch[1]
        query.wait_for_batch()
        wait_until(lambda: backlog() == 6, "the cursor to follow the first batch", 60)
        query.run(6)

        def is_done() -> bool:
            query.next_batch()
            return backlog() == 0

        wait_until(is_done, "the cursor to reach the end", 60)


def test_event_times_of_producers_are_found(pulsar_server: PulsarServer, topic: str) -> None:
    """Event time is ``__eventTime``: positions are exact, also behind the messages that planning reads. Messages
    without an event time do not disturb the search.
    """
    pulsar_server.create_topic(topic, 1)
    noon, without, ids = 1_700_000_000_000, (3, 12), list[tuple[int, int, int]]()
    for step in range(15):
        more = {} if step in without else {"event_timestamp": noon + 1000 * step}
        ids += pulsar_server.put(f"{topic}-partition-0", numbers(10 * step, 10), **more)
    by_producer = timestamp_assigner("__eventTime", SCHEMA, record_timestamp_column=PUBLISH_TIME)
    with SourceQuery(source_of(pulsar_server, topic)) as query, query.enumerator() as (enumerator, (split,)):
        for budget in (None, 20):
            ranges = enumerator.split_ranges({split: None})
            request = PositioningRequest(ranges, timestamp_assigner=by_producer, budget=budget)
            found = enumerator.event_time_positions(request)  # type: ignore[attr-defined]
            times = found.event_times()[split.split_id]
            assert (times.next, times.reach) == (noon, noon + 14_000)
            for step, first in ((2, 20), (3, 40), (11, 110), (12, 130), (13, 130)):
                position, _ = found.first_at_or_after(noon + 1000 * step)[split.split_id]
                assert position == position_at(*ids[first]), (budget, step)
            assert found.first_at_or_after(noon + 15_000)[split.split_id] == (ranges[split.split_id].end, 150)
