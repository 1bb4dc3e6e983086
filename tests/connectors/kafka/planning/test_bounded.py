"""Bounded reads of a real broker: their ends are found once, and kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition

from flip27_stream.api import SplitRange
from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError, Flip27Error, OptionError
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.kit import running, source, transactions, write_rows, write_transaction

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]


def test_a_stream_ends_at_the_latest_offsets(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KB-04, KR-08: the ends are found at the first discovery and kept across restarts. Partitions that are
    found later are not read.
    """
    name = topic()
    write_rows(broker, name, 5)
    bounded = {"startingOffsets": "earliest", "scan.bounded.mode": "latest-offset"}
    with running(source(broker, bounded, subscribePattern=f"{name}.*")) as query:
        assert [call.period_ms for call in query.context.calls] == [None]
        write_rows(broker, name, 3)
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


def test_a_stream_waits_for_the_offsets_at_which_it_ends(broker: KafkaBroker, topic: MakeTopic) -> None:
    """KR-03, KR-07: a split is finished when it is at its stop, and not before. A split that begins at its stop
    is finished at once.
    """
    name = topic(2)
    write_rows(broker, name, 3)
    stops = "partition:0,offset:5;partition:1,offset:0"
    bounded = {"scan.bounded.mode": "specific-offsets", "scan.bounded.specific-offsets": stops}
    with running(source(broker, bounded, subscribe=name, startingOffsets="earliest")) as query:
        assert query.move_to_ends() == {
            f"{name}-0": SplitRange(0, 3),
            f"{name}-1": SplitRange(0, 0, final=True),
        }
        write_rows(broker, name, 9)
        ranges = query.move_to_ends()
        assert ranges[f"{name}-0"] == SplitRange(3, 5, final=True)
        ends = query.enumerator.describe_positions(query.enumerator.log_ends(ranges))
        assert ends == {name: {"0": 12, "1": 0}}  # SK-34: the reported ends are not bounded


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("mode", ["latest-offset", "specific-offsets"])
def test_a_topic_created_again_ends_a_stream_at_its_own_end(
    broker: KafkaBroker, topic: MakeTopic, mode: str, restart: bool
) -> None:
    """SK-24, KR-03: the end of a stream is an offset of the topic that was deleted. The stream does not wait until the
    new topic has so many records.
    """
    name = topic()
    write_rows(broker, name, 5)
    bounded = {"startingOffsets": "earliest", "failOnDataLoss": "false", "scan.bounded.mode": mode}
    if mode == "specific-offsets":
        bounded["scan.bounded.specific-offsets"] = "partition:0,offset:5"
    made = source(broker, bounded, subscribe=name)
    with running(made) as query:
        query.positions[KafkaPartitionSplit(name, 0, EARLIEST)] = 4
        assert query.ranges() == {f"{name}-0": SplitRange(4, 5, final=True)}
        state = query.enumerator.snapshot_state()
        broker.delete_topic(name)
        broker.create_topic(name)
        write_rows(broker, name, 2)
        if not restart:
            assert query.move_to_ends() == {f"{name}-0": SplitRange(0, 2, final=True)}
            state = query.enumerator.snapshot_state()
    with running(made, state) as query:
        query.positions[KafkaPartitionSplit(name, 0, EARLIEST)] = 4 if restart else 1
        assert query.ranges() == {f"{name}-0": SplitRange(0 if restart else 1, 2, final=True)}
        assert query.enumerator.snapshot_state().stopping_offsets == {TopicPartition(name, 0): 2}


def test_a_stream_does_not_wait_for_records_that_its_log_had_once(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """SK-26: a log lost its last records, which a position before them does not show. The stream reads what is left;
    then it fails, or ends without failOnDataLoss. It would wait for ever.
    """
    name = topic()
    write_rows(broker, name, 3)
    found = {TopicPartition(name, 0): 5}
    for fail in (True, False):
        bounded = {"scan.bounded.mode": "latest-offset", "failOnDataLoss": str(fail)}
        made = source(broker, bounded, subscribe=name)
        with running(made) as query:
            state = replace(query.enumerator.snapshot_state(), stopping_offsets=found)
        with running(made, state) as query:
            query.positions[KafkaPartitionSplit(name, 0)] = 1
            assert query.move_to_ends() == {f"{name}-0": SplitRange(1, 3)}
            if fail:
                with pytest.raises(DataLossError, match="wanted up to offset 5, but the log ends at 3"):
                    query.ranges()
            else:
                assert query.ranges() == {f"{name}-0": SplitRange(3, 3, final=True)}
                write_rows(broker, name, 2)
                assert query.ranges() == {f"{name}-0": SplitRange(3, 3, final=True)}


def test_an_open_transaction_before_the_end_of_a_stream_is_no_loss(
    broker: KafkaBroker, topic: MakeTopic
) -> None:
    """I9: a stream that goes on with read_committed waits for the end of a transaction before its stopping offset."""
    name = topic()
    write_rows(broker, name, 3)
    bounded = {"scan.bounded.mode": "latest-offset", "startingOffsets": "earliest"}
    with transactions(broker, name) as producer:
        write_transaction(producer, name, [1, 2], commit=None)
        with running(source(broker, bounded, subscribe=name)) as query:
            assert query.ranges() == {f"{name}-0": SplitRange(0, 5, final=True)}
            state = query.enumerator.snapshot_state()
        committed = source(broker, {**bounded, "kafka.isolation.level": "read_committed"}, subscribe=name)
        with running(committed, state) as after:
            after.positions[KafkaPartitionSplit(name, 0, EARLIEST)] = 0
            assert after.move_to_ends() == {f"{name}-0": SplitRange(0, 3)}
            assert after.ranges() == {f"{name}-0": SplitRange(3, 3, drained=False)}


@pytest.mark.parametrize("bounded", [True, False])
def test_a_history_whose_topic_is_created_again_gives_way_to_the_next_source(
    broker: KafkaBroker, topic: MakeTopic, bounded: bool
) -> None:
    """HY-04, SK-24: a history that waits for records of a deleted topic would keep the next source from being read."""
    old, live = topic(), topic()
    write_rows(broker, old, 5)
    write_rows(broker, live, 3)
    go_on = {"startingOffsets": "earliest", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "2"}
    mode = {} if bounded else {"scan.bounded.mode": "latest-offset"}
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": old, **go_on, **mode}
    history = KafkaSource(options, bounded=bounded)
    made = HybridSource.builder(history).add_source(source(broker, go_on, subscribe=live)).build()
    with SourceQuery(made) as query:
        assert [row["offset"] for row in query.step()] == [0, 1]
        broker.delete_topic(old)
        broker.create_topic(old)
        write_rows(broker, old, 1)
        rows = query.run(4)
    assert [(row["topic"], row["offset"]) for row in rows] == [(old, 0), *((live, n) for n in range(3))]


def test_sk_16_a_batch_read_goes_from_one_time_to_another(broker: KafkaBroker, topic: MakeTopic) -> None:
    """SK-16, KO-03: a partition without a record at or after the ending time is read to its end."""
    name = topic(2)
    write_rows(broker, name, 10)
    write_rows(broker, name, 3, partition=1)
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
    """SK-12: records between the first discovery and the first plan are not lost."""
    name = topic()
    write_rows(broker, name, 2)
    offsets = json.dumps({name: {"0": -1}})
    with running(source(broker, subscribe=name, startingOffsets=offsets)) as query:
        write_rows(broker, name, 3)
        assert query.ranges() == {f"{name}-0": SplitRange(2, 5)}


ERRORS: list[tuple[tuple[int, int], type[Flip27Error], str]] = [
    ((6, 8), DataLossError, r"{0}-0 .*wanted up to offset 8, but the log ends at 7\. .*'endingOffsets'"),
    ((2, 6), DataLossError, r"{0}-0 .*wanted from offset 2, available 4 to 7"),
    ((-2, 3), OptionError, r"Beginning offset 4 is after the ending offset 3 for topic {0} partition 0"),
]


_numbers = itertools.count(1)
"""Numbers for names of topics. With ``--dist=worksteal`` a worker may make the fixture of this module several times."""


@pytest.fixture(scope="module")
def aged(broker: KafkaBroker) -> str:
    """A topic with records 4 to 6 in its first partition; 0 to 3 are deleted."""
    name = f"aged-out-{next(_numbers)}"
    broker.create_topic(name)
    write_rows(broker, name, 7)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        admin.delete_records({ClientPartition(name, 0): 4})
    return name


def batch(broker: KafkaBroker, name: str, start: int, stop: int, *, fail: bool) -> KafkaSource:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": name,
        "startingOffsets": json.dumps({name: {"0": start}}),
        "endingOffsets": json.dumps({name: {"0": stop}}),
        "failOnDataLoss": str(fail),
    }
    return KafkaSource(options, bounded=True)


@pytest.mark.parametrize(("asked", "kind", "said"), ERRORS)
def test_a_batch_read_beyond_the_log_fails(
    broker: KafkaBroker, aged: str, asked: tuple[int, int], kind: type[Flip27Error], said: str
) -> None:
    """SK-26, SK-33: a batch read from before the log begins, to behind its end, or backwards is an error."""
    with (
        running(batch(broker, aged, *asked, fail=True)) as query,
        pytest.raises(kind, match=said.format(aged)),
    ):
        query.ranges()


def test_a_batch_read_beyond_the_log_goes_on_without_fail_on_data_loss(
    broker: KafkaBroker, aged: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-26: without failOnDataLoss a batch read has the records that exist, with a warning. A read backwards is
    still an error (SK-33).
    """
    for asked, there in (((6, 9), (6, 7)), ((9, 12), (7, 7)), ((1, 6), (4, 6)), ((0, 2), (4, 4))):
        with running(batch(broker, aged, *asked, fail=False)) as query:
            found = query.ranges()[f"{aged}-0"]
            assert (found.position, found.end) == there
    assert "wanted up to offset 9, but the log ends at 7. The read goes on" in caplog.text
    with running(batch(broker, aged, -2, 3, fail=False)) as query, pytest.raises(OptionError):
        query.ranges()


def test_a_batch_read_of_an_empty_range_has_no_rows(broker: KafkaBroker, aged: str) -> None:
    """SK-33: a batch read of no records needs no records, before the log or behind it."""
    for offset in (2, 12):
        with running(batch(broker, aged, offset, offset, fail=True)) as query:
            assert query.ranges() == {}
