"""The probe for event times in the log, with a fake client and a fake clock. No test waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from flip27_stream.api import PositioningRequest, RecordTimestampAssigner, SplitRange
from flip27_stream.connectors.kafka.client.protocol import UNKNOWN_TOPIC_ID, FetchedPartition, FetchFrom
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.event_time.event_time_probe import EventTimeProbe
from flip27_stream.connectors.kafka.event_time.position_finder import PositionFinder
from flip27_stream.connectors.kafka.event_time.position_reads import PositionReads
from flip27_stream.connectors.kafka.event_time.positions import Locator
from flip27_stream.connectors.kafka.split import TopicPartition
from tests.connectors.kafka.support.batch_bytes import some_rows, v2
from tests.support.module_time import replace_time

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
NOT_LEADER = 6
BATCH = v2(some_rows(3))

Wanted = Mapping[TopicPartition, FetchFrom]
Answering = Callable[[Wanted], dict[TopicPartition, FetchedPartition]]


class ClientWithClock:
    """A client that answers at once, with a clock of its own."""

    def __init__(self, answering: Answering) -> None:
        self.options = ConnectionOptions("nowhere:1")
        self.answering, self.now = answering, 0.0
        self.asked: list[dict[TopicPartition, FetchFrom]] = []

    def fetch(
        self, wanted: Wanted, *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        self.asked.append(dict(wanted))
        self.now += 0.0004
        return self.answering(wanted)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


MakeProbe = Callable[[Answering], tuple[ClientWithClock, EventTimeProbe]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> MakeProbe:
    def made(answering: Answering) -> tuple[ClientWithClock, EventTimeProbe]:
        client = ClientWithClock(answering)
        module = "flip27_stream.connectors.kafka.event_time.event_time_probe"
        replace_time(monkeypatch, module, monotonic=lambda: client.now, sleep=client.sleep)
        return client, EventTimeProbe(client, RecordTimestampAssigner(), read_committed=False)  # type: ignore[arg-type]

    return made


@pytest.mark.parametrize("error", [NOT_LEADER, UNKNOWN_TOPIC_ID])
def test_a_probe_waits_for_the_next_leader(make: MakeProbe, error: int) -> None:
    """One second without a leader costs few requests. The partition that has a leader is asked once."""

    def answering(wanted: Wanted) -> dict[TopicPartition, FetchedPartition]:
        late = FetchedPartition(error, b"", []) if client.now < 1 else FetchedPartition(0, BATCH, [])
        return {tp: FetchedPartition(0, BATCH, []) if tp == A else late for tp in wanted}

    client, probe = make(answering)
    assert probe.read({A: FetchFrom(0, 1000), B: FetchFrom(0, 1000)}).keys() == {A, B}
    assert [list(wanted) for wanted in client.asked] == [[A, B], *[[B]] * (len(client.asked) - 1)]
    assert 3 <= len(client.asked) <= 8


@pytest.mark.parametrize(
    "answer",
    [
        None,
        FetchedPartition(NOT_LEADER, b"", []),
        FetchedPartition(0, b"", []),
        FetchedPartition(0, BATCH[:40], []),
    ],
)
def test_a_partition_without_an_answer_is_left_out_after_5_s(
    make: MakeProbe, answer: FetchedPartition | None
) -> None:
    """A partition is left out after 5 s if no broker answers, if the broker refuses, or if it never
    sends a whole batch.
    """
    client, probe = make(lambda wanted: {} if answer is None else dict.fromkeys(wanted, answer))
    assert probe.read({A: FetchFrom(0, 1000)}) == {}
    assert 3 <= client.now <= 5.1
    assert len(client.asked) <= 16


def test_batch_larger_than_asked_for_is_asked_again_at_once(make: MakeProbe) -> None:
    def answering(wanted: Wanted) -> dict[TopicPartition, FetchedPartition]:
        return {
            tp: FetchedPartition(0, BATCH if at.max_bytes >= 50_000 else b"", []) for tp, at in wanted.items()
        }

    client, probe = make(answering)
    assert probe.read({A: FetchFrom(0, 1000, "some id")}).keys() == {A}
    assert [wanted[A].max_bytes for wanted in client.asked] == [1000, 8000, 64000]
    assert {wanted[A].topic_id for wanted in client.asked} == {"some id"}
    assert client.now < 0.01


def test_ids_of_topics_are_in_the_requests_of_a_plan(make: MakeProbe) -> None:
    """KIP-516: requests have the id of the topic, so a topic that was made again under the same name is
    not read in its place.
    """
    client, probe = make(lambda wanted: dict.fromkeys(wanted, FetchedPartition(0, BATCH, [])))
    reads = PositionReads(client, probe, read_committed=False)  # type: ignore[arg-type]
    finder = PositionFinder(reads, Locator())
    request = PositioningRequest({str(A): SplitRange(0, 3)})
    finder.positions({str(A): A}, {A: "some id"}, request).event_times()
    assert [wanted[A].topic_id for wanted in client.asked] == ["some id"]
