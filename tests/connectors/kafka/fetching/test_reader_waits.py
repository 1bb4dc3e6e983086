"""How long the reader waits for a leader that sends no records. Client and clock are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream.api import InputStatus
from flip27_stream.connectors.kafka.client.protocol import (
    INCONSISTENT_TOPIC_ID,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
    FetchedPartition,
    OffsetAndTimestamp,
    TopicMetadata,
)
from flip27_stream.connectors.kafka.fetching import reader as reader_module
from flip27_stream.connectors.kafka.fetching.fetched_ahead import FetchedAhead
from flip27_stream.connectors.kafka.fetching.fetcher import Answer
from flip27_stream.connectors.kafka.fetching.reader import KafkaSourceReader
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.records.batch_headers import CompleteBatches
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.connectors.kafka.values.rows import SCHEMA
from flip27_stream.errors import ConnectorError, DataLossError, UnreachableError
from flip27_stream.testing.task_rows import TaskRows
from tests.reader.support.kit import ReaderContext

PARTITIONS, TIMEOUT_S, ANSWER_S, PAUSE_S = 30, 2.0, 0.15, 0.05
OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "failOnDataLoss": "false"}

Answering = Callable[[list[TopicPartition]], dict[TopicPartition, FetchedPartition]]


class SimulatedLeader:
    """A fetcher and a client of one broker that leads all partitions. An answer comes
    ``ANSWER_S`` after its request.
    """

    def __init__(self, answering: Answering) -> None:
        self.now, self.answering = 100.0, answering
        self.exists = self.reachable = True
        self.failure: OSError | None = None
        self.throttled = 0.0
        self.log_end = 10
        self.client, self.ahead = self, FetchedAhead()
        self._in_flight: list[TopicPartition] = []
        self._due = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def is_busy(self, node: int) -> bool:
        return bool(self._in_flight)

    def throttled_until(self, node: int) -> float:
        return self.throttled

    def partitions_in_flight(self) -> set[TopicPartition]:
        return set(self._in_flight)

    def send(self, node: int, wanted: Iterable[TopicPartition], **_: Any) -> None:
        self._in_flight, self._due = list(wanted), self.now + ANSWER_S

    def next_answer(self, seconds: float) -> Answer | None:
        assert self._in_flight
        if self._due > self.now + seconds:
            self.now += seconds
            return None
        self.now = max(self.now, self._due)
        asked, self._in_flight = self._in_flight, []
        return Answer(asked, self.answering(asked))

    def partitions_receiving(self) -> set[TopicPartition]:
        return set()

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def topics(self, names: Iterable[str], within_ms: int) -> dict[str, TopicMetadata]:
        if not self.reachable:
            raise UnreachableError(f"nobody answered within {within_ms} ms")
        return {"t": TopicMetadata("id", False, dict.fromkeys(range(PARTITIONS), 0))} if self.exists else {}

    def list_offsets(
        self, *rounds: dict[TopicPartition, int], read_committed: bool
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        offsets = {LATEST: self.log_end, EARLIEST: 0}
        return [
            {tp: OffsetAndTimestamp(offsets[wanted], -1) for tp, wanted in each.items() if self.reachable}
            for each in rounds
        ]

    def address(self, node: int) -> str:
        return f"broker {node}"


MakeReader = Callable[..., KafkaSourceReader]


@pytest.fixture
def make_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeReader]:
    """Returns a function that makes a reader of 30 partitions with 10 records each."""
    made: list[KafkaSourceReader] = []

    def make(cluster: SimulatedLeader, **more: str) -> KafkaSourceReader:
        patch = monkeypatch.setattr
        patch(reader_module, "FETCHERS", SimpleNamespace(borrow=lambda _: cluster, give_back=lambda _: None))
        patch(reader_module, "time", cluster)
        given = {**OPTIONS, "kafka.default.api.timeout.ms": str(int(TIMEOUT_S * 1000)), **more}
        reader = KafkaSourceReader(ReaderContext(), parse_kafka_options(given))
        reader.add_splits([KafkaPartitionSplit("t", n, 0, 10) for n in range(PARTITIONS)])
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.close()


def read_out(reader: KafkaSourceReader) -> None:
    while reader.poll_next(TaskRows(SCHEMA)) is not InputStatus.END_OF_INPUT:
        pass


def test_partitions_that_wait_for_their_turn_do_not_time_out(
    make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each response has records of one of 30 partitions, so the last partition waits for longer than the time-out."""
    order: list[TopicPartition] = []

    def first_only(wanted: list[TopicPartition]) -> dict[TopicPartition, FetchedPartition]:
        order.append(wanted[0])
        return {tp: FetchedPartition(0, b"full" if tp == wanted[0] else b"", []) for tp in wanted}

    full, empty = CompleteBatches(5, 4, 4, 4), CompleteBatches(0, 0, 0, 0)
    monkeypatch.setattr(reader_module, "complete_batches", lambda records, _: full if records else empty)
    monkeypatch.setattr(KafkaSourceReader, "_emit_some", lambda self, _: self._undecoded.clear())
    cluster = SimulatedLeader(first_only)
    reader = make_reader(cluster)
    while len(order) < PARTITIONS:
        reader.poll_next(TaskRows(SCHEMA))
    assert cluster.now - 100 > TIMEOUT_S
    assert [tp.partition for tp in order] == list(range(PARTITIONS))


def test_time_in_which_the_process_was_suspended_is_no_silence(make_reader: MakeReader) -> None:
    """A process was suspended while it waited, and the answer has arrived when it goes on. The time does
    not count as silence.
    """

    class Suspended(SimulatedLeader):
        def next_answer(self, seconds: float) -> Answer | None:
            self.now += 1000
            return super().next_answer(seconds)

    cluster = Suspended(lambda wanted: dict.fromkeys(wanted, FetchedPartition(0, b"", [])))
    reader = make_reader(cluster, **{"kafka.default.api.timeout.ms": "60000"})
    for _ in range(5):
        reader.poll_next(TaskRows(SCHEMA))
    with pytest.raises(ConnectorError, match=r"sent no records at offset 0 for 6\d s"):
        read_out(reader)


def test_leader_that_sends_nothing_times_out(make_reader: MakeReader) -> None:
    """Empty responses do not count as records: the leader times out."""
    cluster = SimulatedLeader(lambda wanted: {tp: FetchedPartition(0, b"", []) for tp in wanted})
    reader = make_reader(cluster)
    while cluster.now + PAUSE_S + ANSWER_S < 100 + TIMEOUT_S:
        reader.poll_next(TaskRows(SCHEMA))
    with pytest.raises(
        ConnectorError, match="The leader of t-0, broker 0, sent no records at offset 0 for 2 s"
    ):
        reader.poll_next(TaskRows(SCHEMA))


@pytest.mark.parametrize("lenient", ["false", "true"])
def test_a_log_that_lost_its_end_after_the_plan_is_lost_data(
    make_reader: MakeReader, caplog: pytest.LogCaptureFixture, lenient: str
) -> None:
    """A log can lose its end in an unclean leader election. Its leader answers a fetch at its end with nothing."""
    cluster = SimulatedLeader(lambda wanted: {tp: FetchedPartition(0, b"", []) for tp in wanted})
    cluster.log_end = 0
    reader = make_reader(cluster, failOnDataLoss="false" if lenient == "true" else "true")
    if lenient == "true":
        read_out(reader)
        assert "wanted offsets 0 to 10, available 0 to 0." in caplog.text
        return
    with pytest.raises(DataLossError, match=r"wanted offsets 0 to 10, available 0 to 0\..* lost its end"):
        read_out(reader)


@pytest.mark.parametrize(("poll_timeout_s", "reachable"), [(1, True), (1, False), (4, True)])
def test_poll_timeout_replaces_the_default_api_timeout(
    make_reader: MakeReader, poll_timeout_s: int, reachable: bool
) -> None:
    """``kafkaConsumer.pollTimeoutMs`` is used in place of ``kafka.default.api.timeout.ms``. The error names it, also
    if no broker can say whether the partition still exists.
    """
    cluster = SimulatedLeader(lambda wanted: {tp: FetchedPartition(0, b"", []) for tp in wanted})
    cluster.reachable = reachable
    reader = make_reader(cluster, **{"kafkaConsumer.pollTimeoutMs": f"{poll_timeout_s}000"})
    while cluster.now + PAUSE_S + ANSWER_S < 100 + poll_timeout_s:
        reader.poll_next(TaskRows(SCHEMA))
    with pytest.raises(
        ConnectorError,
        match=rf"t-0, broker 0, sent no .* for {poll_timeout_s} s.*'kafkaConsumer\.pollTimeoutMs'",
    ):
        reader.poll_next(TaskRows(SCHEMA))


def test_the_pause_of_a_quota_is_not_taken_for_silence(make_reader: MakeReader) -> None:
    """KIP-219: the broker said that it would send nothing for longer than the time-out. Only the
    time after that counts.
    """
    cluster = SimulatedLeader(lambda wanted: {tp: FetchedPartition(0, b"", []) for tp in wanted})
    reader = make_reader(cluster)
    reader.poll_next(TaskRows(SCHEMA))
    cluster.throttled = cluster.now + 10 * TIMEOUT_S
    while cluster.now + PAUSE_S + ANSWER_S < cluster.throttled + TIMEOUT_S - ANSWER_S:
        reader.poll_next(TaskRows(SCHEMA))
    with pytest.raises(ConnectorError, match="t-0, broker 0, sent no records"):
        read_out(reader)
    assert cluster.now < cluster.throttled + 2 * TIMEOUT_S


def test_broker_that_answers_with_nothing_is_not_asked_without_end(make_reader: MakeReader) -> None:
    """A broker answers at once, and with nothing about the partitions. It is asked with pauses."""
    for nothing in ({}, {TopicPartition("t", 0): FetchedPartition(0, b"", [])}):
        asked: list[int] = []

        class Quick(SimulatedLeader):
            def next_answer(self, seconds: float) -> Answer | None:
                self._due = self.now
                return super().next_answer(seconds)

        def answering(
            wanted: list[TopicPartition],
            asked: list[int] = asked,
            nothing: dict[TopicPartition, FetchedPartition] = nothing,
        ) -> dict[TopicPartition, FetchedPartition]:
            asked.append(len(wanted))
            return nothing

        reader = make_reader(Quick(answering))
        with pytest.raises(ConnectorError, match="sent no records"):
            read_out(reader)
        assert len(asked) <= TIMEOUT_S / PAUSE_S + 2


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("error", [UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID])
def test_sk25_a_topic_recreated_between_plan_and_fetch_is_lost_data(
    make_reader: MakeReader, error: int, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """SK-25: no broker knows the planned id of a topic, and its name belongs to another topic.
    The records are lost.
    """
    cluster = SimulatedLeader(lambda wanted: {tp: FetchedPartition(error, b"", []) for tp in wanted})
    reader = make_reader(
        cluster, **{"kafkaConsumer.pollTimeoutMs": "60000", "failOnDataLoss": str(strict).lower()}
    )
    for progress in reader._reading.values():
        progress.topic_id = "the one that was planned"
    if strict:
        with pytest.raises(DataLossError, match=r"t-0 were lost .* the topic was deleted, or created again"):
            read_out(reader)
    else:
        read_out(reader)
        assert caplog.text.count("were lost while they were read") == PARTITIONS
    assert 5 <= cluster.now - 100 < 20


def test_broker_that_does_not_know_a_topic_yet(make_reader: MakeReader) -> None:
    """A broker that has just started does not know the topic yet. Others know it by its id, so the records are not
    lost, however long it takes.
    """
    cluster = SimulatedLeader(
        lambda wanted: {tp: FetchedPartition(UNKNOWN_TOPIC_ID, b"", []) for tp in wanted}
    )
    reader = make_reader(cluster, **{"kafkaConsumer.pollTimeoutMs": "30000", "failOnDataLoss": "true"})
    for progress in reader._reading.values():
        progress.topic_id = "id"
    with pytest.raises(ConnectorError, match="sent no records at offset 0 for 30 s"):
        read_out(reader)


def test_responses_about_splits_that_were_given_up_are_ignored(make_reader: MakeReader) -> None:
    """SK-27: a topic was deleted while a fetch was under way, and its splits were given up. The response still
    arrives, and does no harm.
    """
    cluster = SimulatedLeader(
        lambda wanted: {tp: FetchedPartition(OFFSET_OUT_OF_RANGE, b"", []) for tp in wanted}
    )
    cluster.exists = False
    reader = make_reader(cluster)
    reader._send_fetches()
    for progress in reader._reading.values():
        progress.waited = TIMEOUT_S
    reader.poll_next(TaskRows(SCHEMA))
    assert reader.snapshot_state() == []


def test_the_former_leader_is_named_when_there_is_no_leader(make_reader: MakeReader) -> None:
    """A leader that froze has lost its partitions before the reader gives up, and no broker leads them. The
    error names that leader.
    """

    class Leaderless(SimulatedLeader):
        def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            return super().leaders(partitions) if self.now == 100.0 else {}

        def next_answer(self, seconds: float) -> Answer | None:
            self._in_flight = []
            self.now += 0.6 * TIMEOUT_S
            return None

    reader = make_reader(Leaderless(lambda asked: {}))
    reader.poll_next(TaskRows(SCHEMA))
    with pytest.raises(ConnectorError, match=r"The leader of t-0, broker 0, sent no records at offset 0"):
        reader.poll_next(TaskRows(SCHEMA))


def test_a_fetch_goes_to_the_replica_that_the_leader_names(make_reader: MakeReader) -> None:
    """KR-06, KIP-392: the nearest replica is asked as soon as the leader prefers it, and the leader again once
    the replica refuses.
    """
    asked: list[int] = []

    class Near(SimulatedLeader):
        def send(self, node: int, wanted: Iterable[TopicPartition], **more: Any) -> None:
            asked.append(node)
            super().send(node, wanted, **more)

    def answering(partitions: list[TopicPartition]) -> dict[TopicPartition, FetchedPartition]:
        if asked[-1] == 0:
            return {tp: FetchedPartition(0, b"", [], 7) for tp in partitions}
        return {tp: FetchedPartition(6, b"", [], -1) for tp in partitions}

    reader = make_reader(Near(answering))
    for _ in range(3):
        reader.poll_next(TaskRows(SCHEMA))
    assert asked[:4] == [0, 7, 0, 7]
