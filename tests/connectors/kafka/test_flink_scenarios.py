"""The promises of Flink's Kafka connector that a source which is planned batch by batch keeps in another way."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice

import pytest

from flip27_stream.api import InputStatus, JsonValue, PositioningRequest, SplitRange, WatermarkStrategy
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.planning.enumerator_state import KafkaEnumeratorStateSerializer
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.kafka.support.kit import EnumeratorQuery, polled, read, running, source
from watermark_alignment.planner import Plan, SplitView, plan

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
DISCOVERY = "scan.topic-partition-discovery.interval"


def write(broker: KafkaBroker, topic: str, numbers: range, partitions: int = 1) -> None:
    broker.write(topic, [(p, 1000 + i, None, b"%d" % i) for i in numbers for p in range(partitions)])


def values(output: TaskRows) -> list[int]:
    return [int(value) for value in output.column("value")]


def test_ke04_no_more_splits_is_said_of_bounded_reads_only(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KE-04 adapted: the ranges of a bounded read are final. A stream goes on, whether it
    discovers partitions or not.
    """
    name = topic()
    write(broker, name, range(3))
    for interval in ("0", "1 minute"):
        with running(
            source(broker, {DISCOVERY: interval}, subscribe=name, startingOffsets="earliest")
        ) as query:
            assert query.ranges() == {f"{name}-0": SplitRange(0, 3, final=False)}
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": name}
    with running(KafkaSource(options, bounded=True)) as query:
        assert query.ranges() == {f"{name}-0": SplitRange(0, 3, final=True)}


@pytest.mark.parametrize("start", ["earliest", "latest", "offsets"])
def test_ke06_a_restored_split_goes_on_where_it_was(
    broker: KafkaBroker, topic: MakeTopic, start: str
) -> None:
    """KE-06 adapted: readers give no splits back. A restarted query goes on at its positions,
    and not where it began.
    """
    name = topic(2)
    write(broker, name, range(10), partitions=2)
    offsets = json.dumps({name: {"0": 4, "1": 10}}) if start == "offsets" else start
    made = source(broker, subscribe=name, startingOffsets=offsets)
    with running(made) as query:
        begun = {split: r.position for split, r in query.ranges().items()}
        state = query.enumerator.snapshot_state()
    write(broker, name, range(10, 12), partitions=2)
    with running(made, state) as query:
        assert query.context.splits == {}
        query.positions = {
            KafkaPartitionSplit(name, 0): begun[f"{name}-0"] + 1,
            KafkaPartitionSplit(name, 1): begun[f"{name}-1"],
        }
        assert query.ranges() == {
            f"{name}-0": SplitRange(begun[f"{name}-0"] + 1, 12),
            f"{name}-1": SplitRange(begun[f"{name}-1"], 12),
        }


def test_kr02_a_reader_that_is_closed_in_the_middle_loses_no_row(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """KR-02 adapted: nothing wakes a task, but Spark may end it at any point. The next task in its
    process reads all records.
    """
    name = topic()
    broker.write(name, [(0, 1000, None, b"%d" % i + b" " * 2000) for i in range(200)])
    made = source(broker, {"kafka.max.partition.fetch.bytes": "500"}, subscribe=name)
    split = KafkaPartitionSplit(name, 0, 0, 200)
    for number in (1, 2):
        _, polls = polled(made, split)
        assert list(islice(polls, number)) == [InputStatus.MORE_AVAILABLE] * number
        polls.close()
        assert values(read(made, split)) == list(range(200))


def test_kr15_a_paused_split_goes_on_later(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KR-15: a split is planned with an empty range and has no rows, while the other one is read to its end.
    Then the split goes on.
    """
    name = topic(2)
    write(broker, name, range(10), partitions=2)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        zero, one = f"{name}-0", f"{name}-1"
        first = query.read(query.ranges() | {zero: SplitRange(0, 0)})
        assert first.column("partition") == [1] * 10
        assert values(first) == list(range(10))
        second = query.read(query.ranges() | {one: SplitRange(10, 10)})
        assert second.column("partition") == [0] * 10
        assert values(second) == list(range(10))


def one_record(query: EnumeratorQuery, read_max: dict[str, int | None]) -> Plan:
    """Plans a batch that has room for one record."""
    ranges = query.ranges()
    readable = {i: r for i, r in ranges.items() if r.position < r.end}
    found = query.enumerator.event_time_positions(PositioningRequest(readable))
    times = found.event_times()
    views = [
        SplitView(
            i,
            r.position,
            r.end,
            read_max[i],
            next=times[i].next if i in times else None,
            reach=times[i].reach if i in times else read_max[i],
        )
        for i, r in ranges.items()
    ]
    at = found.first_at_or_after
    return plan(views, at, limit=1, max_drift=1000, out_of_orderness=0, idle_timeout=0, now=0, floor=None)


def test_ki04_no_record_is_behind_the_watermark(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KI-04, I10: two partitions are read record by record, with a watermark after each record. No record is
    behind the watermark.
    """
    name = topic(2)
    for partition, times in enumerate([(100, 200, 300), (150, 250, 350)]):
        broker.write(name, [(partition, time, None, b"v") for time in times])
    found: list[int] = []
    watermark = -1
    read_max: dict[str, int | None] = {f"{name}-{n}": None for n in range(2)}
    made = source(broker, strategy=WatermarkStrategy(), subscribe=name, startingOffsets="earliest")
    with running(made) as query:
        while len(found) < 6:
            planned = one_record(query, read_max)
            assert planned.own_watermark is not None
            assert planned.own_watermark >= watermark
            watermark = planned.own_watermark
            ranges = {i: SplitRange(r.position, planned.ends[i]) for i, r in query.ranges().items()}
            output = query.read(ranges)
            (time,) = output.timestamps
            assert time > watermark
            read_max[f"{name}-{output.column('partition')[0]}"] = time
            query.positions = {s: ranges[s.split_id].end for s in query.positions}
            found.append(time)
    assert found == [100, 150, 200, 250, 300, 350]


@pytest.mark.parametrize("version", [1, 2])
def test_ki07_a_checkpoint_of_an_older_release_is_continued(
    broker: KafkaBroker, topic: MakeTopic, version: int
) -> None:
    """KI-07: 100 records were read before the checkpoint, and 100 came after it. Exactly the latter are
    read, by fewer readers.
    """
    name = topic(2)
    write(broker, name, range(50), partitions=2)
    made = source(broker, subscribe=name, startingOffsets="earliest")
    with running(made) as query:
        assert len(values(query.read(query.ranges()))) == 100
        topic_id = query.enumerator.snapshot_state().topics[name].topic_id
    write(broker, name, range(50, 100), partitions=2)
    stored: JsonValue = {"discovered": True, "topics": {name: [topic_id, [0, 1]]}}
    state = KafkaEnumeratorStateSerializer().deserialize(version, stored)
    with running(made, state) as query:
        query.context.parallelism = 1
        query.positions = {KafkaPartitionSplit(name, n): 50 for n in range(2)}
        assert sorted(values(query.read(query.ranges()))) == sorted([*range(50, 100)] * 2)
