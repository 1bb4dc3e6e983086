"""A source without a strategy finds event times as its query says (``data_source(source)``, HybridSource). No JVM."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import EventTimes, PositioningRequest, RecordTimestampAssigner, WatermarkStrategy
from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client.protocol import (
    MAX_TIMESTAMP,
    FetchedPartition,
    FetchFrom,
    OffsetAndTimestamp,
    TopicMetadata,
)
from flip27_stream.connectors.kafka.event_time import positions
from flip27_stream.connectors.kafka.planning import enumerator
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.connectors.kafka.values.rows import SCHEMA
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kafka.support.batch_bytes import BatchRow, v2
from tests.connectors.kafka.support.kit import EnumeratorQuery, running
from watermark_alignment.options import AlignmentOptions

T0 = 1_700_000_000_000
STAMP = T0 - 1_000_000
DISORDER = 40
IN_PAYLOAD = timestamp_assigner("/at", SCHEMA)
OPTIONS = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "t", "startingOffsets": "earliest"}


class OneTopicClient:
    """A fake client of a cluster with one topic. All records have the same timestamp, and an event time in their
    values. A fetch brings two of them.
    """

    of_partition: Mapping[int, list[int]] = {}

    def __init__(self, options: object) -> None:
        self._batches = {
            TopicPartition("t", n): [
                v2([BatchRow(i, STAMP, None, b'{"at": %d}' % t)]) for i, t in enumerate(times)
            ]
            for n, times in self.of_partition.items()
        }

    def topics(self, names: Collection[str] | None = None, within_ms: int | None = None) -> dict[str, Any]:
        return {"t": TopicMetadata("id", False, dict.fromkeys(self.of_partition, 1))}

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool, late_answers: bool = False
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        return [{tp: self._listed(tp, time) for tp, time in wanted.items()} for wanted in rounds]

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        return {tp: self._listed(tp, time).offset for tp, time in wanted.items()}

    def _listed(self, tp: TopicPartition, time: int) -> OffsetAndTimestamp:
        if time == LATEST:
            return OffsetAndTimestamp(len(self._batches[tp]), -1)
        found = time in (EARLIEST, MAX_TIMESTAMP) or time <= STAMP
        return OffsetAndTimestamp(0, STAMP) if found else OffsetAndTimestamp(-1, -1)

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        return {
            tp: FetchedPartition(0, b"".join(self._batches[tp][at.offset : at.offset + 2]), [])
            for tp, at in wanted.items()
        }

    def close(self) -> None:
        pass


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> type[OneTopicClient]:
    """The client of these tests' sources. Bisection goes on to the last record."""

    class Mine(OneTopicClient):
        pass

    monkeypatch.setattr(enumerator, "KafkaClient", Mine)
    monkeypatch.setattr(positions, "_NEAR", 1)
    monkeypatch.setattr(positions, "_TAIL_RECORDS", 2)
    return Mine


def disordered(seed: int, count: int = 60) -> list[int]:
    """Returns event times that fall back by no more than the disorder."""
    draw = random.Random(seed)
    return [T0 + 5 * i - draw.randint(0, DISORDER) for i in range(count)]


def found(query: EnumeratorQuery, request: PositioningRequest, event_times: list[int]) -> list[int]:
    positions = query.enumerator.event_time_positions(request)
    return [positions.first_at_or_after(t)["t-0"][0] for t in event_times]


def request(query: EnumeratorQuery, disorder: int = 0, **how: Any) -> PositioningRequest:
    return PositioningRequest(query.ranges(), max_out_of_orderness_ms=disorder, **how)


def naive(times: list[int], event_times: list[int]) -> list[int]:
    return [next((i for i, t in enumerate(times) if t >= wanted), len(times)) for wanted in event_times]


@pytest.mark.parametrize("seed", range(3))
def test_positions_are_by_the_event_time_of_the_query(logs: type[OneTopicClient], seed: int) -> None:
    """I1: positions are those of the event time in the payload, under the disorder that the query allows."""
    times = disordered(seed)
    logs.of_partition = {0: times}
    wanted = list(range(T0 - 10, T0 + 310, 3))
    with running(KafkaSource(OPTIONS)) as query:
        asked = request(query, DISORDER, timestamp_assigner=IN_PAYLOAD)
        assert query.enumerator.event_time_positions(asked).event_times()["t-0"].next == times[0]
        assert found(query, asked, wanted) == naive(times, wanted)


@pytest.mark.parametrize("event_time", range(T0 + 25, T0 + 300, 25))
def test_a_query_that_allows_for_more_disorder_than_it_said_first(
    logs: type[OneTopicClient], event_time: int
) -> None:
    """I1: HybridSource asks before it knows the options of the query. Positions that it learned under less
    disorder must not stay.
    """
    times = disordered(3)
    logs.of_partition = {0: times}
    with running(KafkaSource(OPTIONS)) as query:
        query.enumerator.event_time_positions(PositioningRequest(timestamp_assigner=IN_PAYLOAD))
        asked = request(query, DISORDER, timestamp_assigner=IN_PAYLOAD)
        assert found(query, asked, [event_time]) == naive(times, [event_time])


def test_records_that_were_read_stay_known_after_a_look_with_less_disorder(
    logs: type[OneTopicClient],
) -> None:
    """The query, and the chain that asks for its seam, ask in turns. Neither drops what the other one has read."""
    logs.of_partition = {0: disordered(1)}
    with running(KafkaSource(OPTIONS)) as query:
        for disorder in (DISORDER, 0, DISORDER):
            found(query, request(query, disorder, timestamp_assigner=IN_PAYLOAD), [T0 + 99])
            assert query.enumerator._finding is not None
            assert query.enumerator._finding.max_out_of_orderness_ms == DISORDER


def test_a_query_with_another_event_time_than_it_had(logs: type[OneTopicClient]) -> None:
    logs.of_partition = {0: [T0, T0 + 1]}
    with running(KafkaSource(OPTIONS)) as query:
        by_timestamp, by_payload = request(query), request(query, timestamp_assigner=IN_PAYLOAD)
        for _ in range(2):
            ask = query.enumerator.event_time_positions
            assert ask(by_timestamp).event_times() == {"t-0": EventTimes(STAMP, STAMP)}
            assert ask(by_payload).event_times() == {"t-0": EventTimes(T0, T0 + 1)}


def test_a_source_uses_the_event_time_that_it_was_given(logs: type[OneTopicClient]) -> None:
    logs.of_partition = {0: [T0, T0 + 1]}
    told = WatermarkStrategy(timestamp_assigner=IN_PAYLOAD)
    with running(KafkaSource(OPTIONS, told)) as query:
        asked = request(query, timestamp_assigner=RecordTimestampAssigner())
        times = query.enumerator.event_time_positions(asked).event_times()
        assert times == {"t-0": EventTimes(T0, T0 + 1)}


@pytest.mark.parametrize("of_chain", [None, "/at"])
def test_a_child_of_a_hybrid_source_is_aligned_by_payload(
    logs: type[OneTopicClient], tmp_path: Path, of_chain: str | None
) -> None:
    """I1, I2: the query or the chain says where the event time is. Both splits are read up to the same event time."""
    logs.of_partition = {0: disordered(1), 1: [t + 40 for t in disordered(2)]}
    child = KafkaSource(OPTIONS, bounded=True)
    builder = HybridSource.builder(child, event_time=of_chain) if of_chain else HybridSource.builder(child)
    source = builder.add_source(KafkaSource(OPTIONS)).build()
    options = AlignmentOptions.parse(
        {
            "scan.watermark.alignment.group": "g",
            "scan.watermark.alignment.max-drift": "100 ms",
            "scan.watermark.alignment.table": str(tmp_path / "table"),
            "scan.watermark.max-out-of-orderness": f"{DISORDER} ms",
        }
    )
    strategy = WatermarkStrategy(DISORDER, IN_PAYLOAD)
    with SourceQuery(source, strategy=strategy, alignment=options) as query:
        announced = query.next_batch(limit=50)
        assert announced is not None
        query.offset = announced[1]
        batch = query.next_batch(limit=50)
    assert batch is not None
    ends = [[naive(times, [h])[0] for times in logs.of_partition.values()] for h in range(T0, T0 + 400)]
    furthest = max((both for both in ends if sum(both) <= 50), key=sum)
    assert [entry[0] for entry in batch[1]["splits"].values()] == furthest
