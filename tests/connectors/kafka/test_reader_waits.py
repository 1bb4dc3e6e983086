"""How long the reader waits for a leader that sends nothing, by a client and a clock that are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream.connectors.kafka import reader as reader_module
from flip27_stream.connectors.kafka.fetcher import Answer
from flip27_stream.connectors.kafka.options import parse_kafka_options
from flip27_stream.connectors.kafka.protocol import OFFSET_OUT_OF_RANGE, Fetched, TopicMetadata
from flip27_stream.connectors.kafka.reader import KafkaSourceReader
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import ConnectorError, UnreachableError
from tests.connectors.kafka.kit import Output, ReaderContext

PARTITIONS, TIMEOUT_S, ANSWER_S = 30, 2.0, 0.15
OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "failOnDataLoss": "false"}

Answering = Callable[[list[TopicPartition]], dict[TopicPartition, Fetched]]


class Cluster:
    """Fetcher and client of one broker that leads all partitions; answers come ``ANSWER_S`` after their requests."""

    def __init__(self, answering: Answering) -> None:
        self.now, self.answering = 100.0, answering
        self.exists = self.reachable = True
        self.failure: OSError | None = None
        self.client = self
        self._in_flight: list[TopicPartition] = []
        self._due = 0.0

    def monotonic(self) -> float:
        return self.now

    def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def is_busy(self, node: int) -> bool:
        return bool(self._in_flight)

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

    def partitions_under_way(self) -> set[TopicPartition]:
        return set()

    def forget_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        pass

    def topics(self, names: Iterable[str], within_ms: int) -> dict[str, TopicMetadata]:
        if not self.reachable:
            raise UnreachableError(f"nobody answered within {within_ms} ms")
        return {"t": TopicMetadata("id", False, dict.fromkeys(range(PARTITIONS), 0))} if self.exists else {}

    def address(self, node: int) -> str:
        return f"broker {node}"


MakeReader = Callable[..., KafkaSourceReader]


@pytest.fixture
def make_reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeReader]:
    """A reader of 30 partitions with 10 records each, of which a "batch" holds one record."""
    made: list[KafkaSourceReader] = []

    def make(cluster: Cluster, **more: str) -> KafkaSourceReader:
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


def test_partitions_in_line_do_not_time_out(make_reader: MakeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each response holds one of 30 partitions, so the last waits for longer than the time-out."""
    order: list[TopicPartition] = []

    def first_only(wanted: list[TopicPartition]) -> dict[TopicPartition, Fetched]:
        order.append(wanted[0])
        return {tp: Fetched(0, b"full" if tp == wanted[0] else b"", []) for tp in wanted}

    def headers(records: bytes, _: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(last_offset=4, complete=True)] if records else []

    monkeypatch.setattr(reader_module, "batch_headers", headers)
    monkeypatch.setattr(KafkaSourceReader, "_emit_some", lambda self, _: self._undecoded.clear())
    cluster = Cluster(first_only)
    reader = make_reader(cluster)
    while len(order) < PARTITIONS:
        reader.poll_next(Output())
    assert cluster.now - 100 > TIMEOUT_S
    assert [tp.partition for tp in order] == list(range(PARTITIONS))


def test_leader_that_sends_nothing_times_out(make_reader: MakeReader) -> None:
    """Empty responses are none."""
    cluster = Cluster(lambda wanted: {tp: Fetched(0, b"", []) for tp in wanted})
    reader = make_reader(cluster)
    while cluster.now + ANSWER_S < 100 + TIMEOUT_S:
        reader.poll_next(Output())
    with pytest.raises(
        ConnectorError, match="The leader of t-0, broker 0, sent no records at offset 0 for 2 s"
    ):
        reader.poll_next(Output())


@pytest.mark.parametrize(("poll_timeout_s", "reachable"), [(1, True), (1, False), (4, True)])
def test_kafka_consumer_poll_timeout(make_reader: MakeReader, poll_timeout_s: int, reachable: bool) -> None:
    """``kafkaConsumer.pollTimeoutMs`` goes before ``kafka.default.api.timeout.ms``, and is named; also where nobody can
    say whether the partition still exists."""
    cluster = Cluster(lambda wanted: {tp: Fetched(0, b"", []) for tp in wanted})
    cluster.reachable = reachable
    reader = make_reader(cluster, **{"kafkaConsumer.pollTimeoutMs": f"{poll_timeout_s}000"})
    while cluster.now + ANSWER_S < 100 + poll_timeout_s:
        reader.poll_next(Output())
    with pytest.raises(
        ConnectorError,
        match=rf"t-0, broker 0, sent no .* for {poll_timeout_s} s.*'kafkaConsumer\.pollTimeoutMs'",
    ):
        reader.poll_next(Output())


def test_answer_about_splits_that_were_given_up(make_reader: MakeReader) -> None:
    """SK-27: their topic was deleted while the fetch was under way, and the answer comes all the same."""
    cluster = Cluster(lambda wanted: {tp: Fetched(OFFSET_OUT_OF_RANGE, b"", []) for tp in wanted})
    cluster.exists = False
    reader = make_reader(cluster)
    reader._send_fetches()
    for progress in reader._reading.values():
        progress.waited = TIMEOUT_S
    reader.poll_next(Output())
    assert reader.snapshot_state() == []


def test_broker_that_led_is_named_when_nobody_leads_any_more(make_reader: MakeReader) -> None:
    """A leader that froze has lost its partitions by the time the reader gives up, and has no successor."""

    class Leaderless(Cluster):
        def leaders(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
            return super().leaders(partitions) if self.now == 100.0 else {}

        def next_answer(self, seconds: float) -> Answer | None:
            self._in_flight = []
            self.now += 0.6 * TIMEOUT_S
            return None

    reader = make_reader(Leaderless(lambda asked: {}))
    reader.poll_next(Output())
    with pytest.raises(ConnectorError, match=r"The leader of t-0, broker 0, sent no records at offset 0"):
        reader.poll_next(Output())


def test_replica_that_the_leader_prefers(make_reader: MakeReader) -> None:
    """KR-06, KIP-392: the nearest one is asked from then on, and the leader again once that one refuses."""
    asked: list[int] = []

    class Near(Cluster):
        def send(self, node: int, wanted: Iterable[TopicPartition], **more: Any) -> None:
            asked.append(node)
            super().send(node, wanted, **more)

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    def answering(partitions: list[TopicPartition]) -> dict[TopicPartition, Fetched]:
        if asked[-1] == 0:
            return {tp: Fetched(0, b"", [], 7) for tp in partitions}
        return {tp: Fetched(6, b"", [], -1) for tp in partitions}

    reader = make_reader(Near(answering))
    for _ in range(3):
        reader.poll_next(Output())
    assert asked[:4] == [0, 7, 0, 7]
