"""Logs that lose records and get other ones at their offsets (KIP-320): the range of the log does not show it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.epoch_round import UNKNOWN_END
from flip27_stream.connectors.kafka.client.protocol import TopicMetadata
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.planning.enumerator_state import (
    AssignedTopic,
    KafkaEnumeratorState,
    KafkaEnumeratorStateSerializer,
)
from flip27_stream.connectors.kafka.planning.log_bounds import LogRangesResult
from flip27_stream.connectors.kafka.planning.log_ranges import LogRanges
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import CorruptCheckpointError, DataLossError
from flip27_stream.testing import KafkaBroker
from tests.connectors.kafka.support.kit import running
from tests.connectors.kafka.support.log_answers import LogAnswers

TP = TopicPartition("t", 0)
STATES = KafkaEnumeratorStateSerializer()
LOST = "wanted from offset 8, available 0 to 5, and from there to 20 other records than before"


class Query:
    """A query of ``t-0``, which keeps its state from look to look."""

    def __init__(self, log: LogAnswers, *, fail: bool = True) -> None:
        given = {
            "kafka.bootstrap.servers": "localhost:1",
            "subscribe": "t",
            "failOnDataLoss": str(fail),
        }
        self.options = parse_kafka_options(given)
        self.log = log
        self.state = KafkaEnumeratorState({"t": AssignedTopic("id", (0,))}, True)
        self.restart()

    def restart(self) -> None:
        """Replaces the state by that of its checkpoint, and the part under test by a new one, as a restart does."""
        self.state = STATES.deserialize(STATES.version, STATES.serialize(self.state))
        self.log_ranges = LogRanges(cast(KafkaClient, self.log), self.options)
        self.log_ranges.topics = self.log.metadata

    def look(self, position: int | None) -> LogRangesResult:
        split = KafkaPartitionSplit("t", 0, 10)
        result = self.log_ranges.look({split: position}, self.state)
        self.state = self.state.with_successors(result.recreated).with_identities(result.identified)
        self.state = self.state.with_leader_epochs(result.epochs)
        return result

    def span(self, position: int) -> SplitRange | None:
        return self.look(position).ranges.get("t-0")


@pytest.fixture
def log() -> LogAnswers:
    """A log of which a query reads records 0 to 7; its leader has epoch 3."""
    answers = LogAnswers()
    answers.epoch = 3
    return answers


def replaced(log: LogAnswers) -> None:
    """Makes another broker the leader, which had records 0 to 4 only, and has got other records up to 19."""
    log.epoch, log.kept, log.high_watermark = 4, 5, 20


@pytest.mark.parametrize("restarts", [False, True])
def test_records_that_were_replaced_are_lost_data(log: LogAnswers, restarts: bool) -> None:
    """SK-26: the log has the position, with another record. The checkpoint has the epoch, so that it shows after a
    restart, too.
    """
    query = Query(log)
    assert query.span(0) == SplitRange(0, 10)
    replaced(log)
    if restarts:
        query.restart()
    with pytest.raises(DataLossError, match=LOST):
        query.span(8)


def test_a_query_that_accepts_the_loss_reads_the_other_records(
    log: LogAnswers, caplog: pytest.LogCaptureFixture
) -> None:
    """I1: it goes on at the first of them, and warns once."""
    query = Query(log, fail=False)
    query.span(0)
    replaced(log)
    result = query.look(8)
    assert (result.ranges, result.reset) == ({"t-0": SplitRange(5, 20)}, {TP})
    query.restart()
    assert [query.span(position) for position in (5, 12)] == [SplitRange(5, 20), SplitRange(12, 20)]
    assert [each.levelno for each in caplog.records] == [logging.WARNING]
    assert "Partition t-0's offset was changed from 8 to 5." in caplog.text


def test_records_that_were_not_read_yet_are_no_loss(log: LogAnswers) -> None:
    """Rule 3: only their event times may be known already. They are read again, since other records are there now."""
    query = Query(log)
    query.span(0)
    replaced(log)
    result = query.look(5)
    assert (result.ranges, result.reset) == ({"t-0": SplitRange(5, 20)}, {TP})


def test_a_new_leader_with_the_whole_log_is_asked_once(log: LogAnswers) -> None:
    """Also if there is nothing to read, so that the offset does not get the epoch."""
    query = Query(log)
    query.span(0)
    log.epoch, log.kept = 4, 10
    assert [query.span(10) for _ in range(3)] == [SplitRange(10, 10)] * 3
    assert log.asked.count("epochs") == 1
    assert query.state.leader_epochs == {TP: 3}
    log.high_watermark = 20
    assert query.span(10) == SplitRange(10, 20)
    assert query.state.leader_epochs == {TP: 4}
    replaced(log)
    log.epoch, log.kept = 5, 15
    with pytest.raises(DataLossError, match="wanted from offset 18, available 0 to 15"):
        query.span(18)


def test_a_new_leader_that_does_not_say_what_it_has_is_unknown(log: LogAnswers) -> None:
    """I9: its partition is neither read nor drained until it says so."""
    query = Query(log)
    query.span(0)
    replaced(log)
    log.kept = None
    assert [query.span(8) for _ in range(2)] == [None] * 2
    log.kept = UNKNOWN_END
    assert query.span(8) == SplitRange(8, 20)


@pytest.mark.parametrize("epoch", [-1, 2])
def test_an_epoch_that_does_not_grow_proves_nothing(log: LogAnswers, epoch: int) -> None:
    """Brokers before Kafka 2.1 send none, and a broker that was the leader may not know its successor yet."""
    query = Query(log)
    query.span(0)
    log.epoch, log.high_watermark, log.kept = epoch, 20, 5
    assert query.span(8) == SplitRange(8, 20)
    assert query.state.leader_epochs == {TP: 3}


def test_epochs_of_another_topic_are_not_compared(log: LogAnswers) -> None:
    """SK-24: a topic that was created again has leaders of its own."""
    query = Query(log, fail=False)
    query.span(0)
    replaced(log)
    log.metadata = {"t": TopicMetadata("new", False, {0: 1})}
    assert query.span(8) == SplitRange(0, 20)
    assert query.state.leader_epochs == {TP: 4}
    assert query.span(8) == SplitRange(8, 20)


def test_epochs_of_another_cluster_are_not_compared(log: LogAnswers) -> None:
    """A topic that was copied to a cluster that the user trusts keeps its offsets, and not its leaders."""
    query = Query(log)
    query.options = parse_kafka_options(
        {
            "kafka.bootstrap.servers": "localhost:1",
            "subscribe": "t",
            "scan.trusted-cluster-id": "B",
        }
    )
    query.restart()
    query.span(0)
    replaced(log)
    log.cluster_id, log.metadata = "B", {"t": TopicMetadata("copy", False, {0: 1}, "B")}
    assert query.span(8) == SplitRange(8, 20)
    assert query.state.leader_epochs == {TP: 4}
    assert query.span(8) == SplitRange(8, 20)


def test_a_query_that_begins_at_the_end_has_read_up_to_there(log: LogAnswers) -> None:
    """SK-12: records that come below the position where ``latest`` was found are lost data, though nothing was read."""
    query = Query(log)
    assert query.look(None).ranges == {"t-0": SplitRange(10, 10)}
    replaced(log)
    query.restart()
    with pytest.raises(DataLossError, match="wanted from offset 10, available 0 to 5, and from there to 20"):
        query.span(10)


def test_the_first_offset_has_epochs(log: LogAnswers) -> None:
    """The first plan also finds out on which cluster the topics are. A run may have no other plan with records."""
    query = Query(log)
    log.metadata = query.log_ranges.topics = {"t": TopicMetadata("id", False, {0: 1}, "A")}
    query.span(0)
    assert query.state.leader_epochs == {TP: 3}
    assert query.state.topics["t"].cluster_id == "A"


def test_epochs_come_back_equal() -> None:
    """KS-01: an epoch that is not known is stored as -1, and partitions that are dropped take theirs with them."""
    topics = {"t": AssignedTopic("id", (0, 3)), "u": AssignedTopic("id", (0,))}
    state = KafkaEnumeratorState(topics, True, None, {TopicPartition("t", 3): 9})
    stored = STATES.serialize(state)
    assert isinstance(stored, dict)
    assert stored["epochs"] == {"t": [-1, 9]}
    assert STATES.deserialize(5, stored) == state
    left = state.without([TopicPartition("t", 3)])
    assert left.leader_epochs == {}
    for epochs in ({"t": [1]}, {"v": [1]}, {"t": [1, "2"]}, {"t": 1}, 1):
        with pytest.raises(CorruptCheckpointError, match="Kafka enumerator"):
            STATES.deserialize(5, {**stored, "epochs": epochs})  # type: ignore[dict-item]


@pytest.fixture
def fragile() -> Iterator[KafkaBroker]:
    """A broker that the test may kill."""
    with KafkaBroker() as broker:
        yield broker


@pytest.mark.jvm
def test_a_real_log_that_is_restored_and_grows_again(
    fragile: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-26: the shortened log file stands for a restored disk, and for an unclean leader election, too."""
    fragile.create_topic("t", 1)
    fragile.write("t", [(0, 1000 * i, None, b"kept") for i in range(5)])
    assert fragile._home is not None
    file = Path(fragile._home) / "data" / "t-0" / f"{0:020}.log"
    length = file.stat().st_size
    fragile.write("t", [(0, 1000 * i, None, b"lost") for i in range(5, 10)])
    options = {
        "kafka.bootstrap.servers": fragile.bootstrap_servers,
        "subscribe": "t",
        "startingOffsets": "earliest",
    }
    with running(KafkaSource(options)) as query:
        query.read(query.move_to_ends())
        checkpoint, positions = query.enumerator.snapshot_state(), dict(query.positions)
    assert list(positions.values()) == [10]
    fragile.kill()
    with file.open("r+b") as log:
        log.truncate(length)
    fragile.restart()
    fragile.write("t", [(0, 1000 * i, None, b"other") for i in range(5, 20)])

    for fail in ("true", "false"):
        source = KafkaSource({**options, "failOnDataLoss": fail})
        with running(source, checkpoint) as query:
            query.positions = dict(positions)
            if fail == "true":
                with pytest.raises(DataLossError, match="wanted from offset 10, available 0 to 5, and from"):
                    query.ranges()
            else:
                rows = query.read(query.move_to_ends()).column("value")
                assert rows == [b"other"] * 15
    assert "Partition t-0's offset was changed from 10 to 5." in caplog.text
