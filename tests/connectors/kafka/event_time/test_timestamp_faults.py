"""Positions by timestamps while leaders fall silent, lie, lose or compact records, and partitions come and go.

Each answer is compared with a scan of all records: a position never passes a record at or above H (I1), positions
never fall as H grows (I12), a search ends after few requests, and every error is one of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from flip27_stream.api import PositioningRequest, SplitRange
from flip27_stream.connectors.kafka.client.protocol import FetchedPartition, FetchFrom, OffsetAndTimestamp
from flip27_stream.connectors.kafka.event_time import event_time_probe, known_batches, log_search
from flip27_stream.connectors.kafka.split import TopicPartition
from tests.connectors.kafka.event_time.random_logs import (
    PLAUSIBLE,
    Broker,
    LogBatch,
    finder,
    some_log,
)
from tests.support.exploring import examples

MOST_REQUESTS = 300


class FaultyBroker(Broker):
    """A broker that does not answer some requests, and whose time index is wrong at times.

    Attributes:
        silence: The probability of no answer about a partition.
        is_lying: Whether the time index may answer with any earlier offset, as an index with an entry for a record that
            is gone; and about the greatest timestamp with any offset.
    """

    def __init__(self, logs: Mapping[TopicPartition, list[LogBatch]], rng: Random) -> None:
        super().__init__(logs, rng.choice([1, 2, 5]))
        self.rng = rng
        self.silence = rng.choice([0, 0, 0.1, 0.5])
        self.is_lying = rng.random() < 0.3
        self.requests = 0

    def fetch(
        self, wanted: Mapping[TopicPartition, FetchFrom], *, read_committed: bool, max_bytes: int
    ) -> dict[TopicPartition, FetchedPartition]:
        self._count()
        answers = super().fetch(wanted, read_committed=read_committed, max_bytes=max_bytes)
        return {tp: self._changed(found) for tp, found in answers.items() if self._is_heard()}

    def list_offsets(
        self, *rounds: Mapping[TopicPartition, int], read_committed: bool
    ) -> list[dict[TopicPartition, OffsetAndTimestamp]]:
        self._count()
        answers = super().list_offsets(*rounds, read_committed=read_committed)
        heard = [{tp: found for tp, found in answer.items() if self._is_heard()} for answer in answers]
        if not self.is_lying:
            return heard
        return [
            {tp: self._lie(found, rounds[n][tp]) for tp, found in answer.items()}
            for n, answer in enumerate(heard)
        ]

    def _lie(self, found: OffsetAndTimestamp, asked: int) -> OffsetAndTimestamp:
        if asked < 0:
            return OffsetAndTimestamp(self.rng.randrange(-1, 60), self.rng.randrange(60))
        highest = found.offset if found.offset >= 0 else 60
        return OffsetAndTimestamp(self.rng.randint(0, highest), self.rng.randrange(60))

    def _changed(self, found: FetchedPartition) -> FetchedPartition:
        """Returns an answer that may have nothing in it, or an aborted transaction of another producer."""
        if self.rng.random() < self.silence / 2:
            return FetchedPartition(0, b"", [])
        aborted = [(77, 0)] if self.rng.random() < 0.1 else []
        return FetchedPartition(0, found.records, aborted)

    def _is_heard(self) -> bool:
        return self.rng.random() >= self.silence

    def _count(self) -> None:
        self.requests += 1
        assert self.requests < MOST_REQUESTS, "The search does not end."


@pytest.mark.parametrize("is_small", [False, True], ids=["much memory", "little memory"])
def test_positions_never_pass_a_record_in_a_bad_world(
    is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_time_probe, "_TIME_LIMIT_S", 0)
    if is_small:
        monkeypatch.setattr(known_batches, "MOST_BYTES", 200)
        monkeypatch.setattr(known_batches, "_MOST_RECORDS", 3)
        monkeypatch.setattr(known_batches, "_MOST_BATCHES", 3)
        monkeypatch.setattr(log_search, "_ROUND_BYTES", 1)
    for seed in range(examples(5000)):
        _check(Random(seed))


def _check(rng: Random) -> None:
    logs = {TopicPartition("t", n): some_log(rng) for n in range(rng.randint(1, 4))}
    broker = FaultyBroker(logs, rng)
    maker = finder(broker)
    positions = dict.fromkeys(logs, 0)
    for _ in range(rng.randint(1, 6)):
        broker.requests = 0
        latest, budget = rng.choice([None, PLAUSIBLE]), rng.choice([None, None, 0, 1, 3])
        some = [tp for tp in logs if rng.random() < 0.9]
        rng.shuffle(some)
        ends = {tp: max((batch.last + 1 for batch in logs[tp]), default=0) for tp in some}
        ranges = {tp: SplitRange(positions[tp], ends[tp]) for tp in some if positions[tp] < ends[tp]}
        request = PositioningRequest({str(tp): span for tp, span in ranges.items()}, latest, budget)
        found = maker.positions({str(tp): tp for tp in ranges}, dict.fromkeys(ranges, ""), request)
        known = {tp: found.event_times().get(str(tp)) for tp in ranges}
        answers: dict[int, Mapping[str, tuple[int, int]]] = {}
        for _ in range(rng.randrange(6)):
            broker.requests = 0
            event_time = rng.choice([rng.randrange(60), rng.randrange(60), -3, PLAUSIBLE + 1, 2**63 - 1])
            answers[event_time] = found.first_at_or_after(event_time)
        for tp, span in ranges.items():
            records = [at for batch in logs[tp] for at in batch.records if span.position <= at[0]]
            plausible = [
                (at, time) for at, time in records if 0 <= time <= (2**63 if latest is None else latest)
            ]
            limit = span.end if budget is None else min(span.end, span.position + budget)
            times = known[tp]
            if times is None:
                assert all(str(tp) not in answer for answer in answers.values())
                continue
            assert times.next == next((time for _, time in plausible), None)
            assert times.reach is None or times.reach in [time for _, time in plausible]
            before = span.position
            for event_time, answer in sorted(answers.items()):
                at, rows = answer[str(tp)]
                first = next((at for at, time in plausible if time >= event_time), limit)
                assert before <= at <= min(first, limit)
                assert at == min(first, limit) or broker.silence
                assert rows == at - span.position
                before = at
            if answers:
                positions[tp] = rng.choice(list(answers.values()))[str(tp)][0]
        _change(rng, logs, positions)
        for tp in logs:
            if rng.random() < 0.1:
                maker.forget(tp)


def _change(
    rng: Random, logs: dict[TopicPartition, list[LogBatch]], positions: Mapping[TopicPartition, int]
) -> None:
    """Makes logs longer, and drops old batches, as retention does."""
    for tp in logs:
        if rng.random() < 0.5:
            end = max((batch.last + 1 for batch in logs[tp]), default=0)
            logs[tp] = logs[tp] + [moved(batch, end) for batch in some_log(rng)]
        if rng.random() < 0.2:
            logs[tp] = [batch for batch in logs[tp] if batch.last >= positions[tp]]


def moved(batch: LogBatch, by: int) -> LogBatch:
    """Returns a batch with greater offsets. The checksum does not cover them."""
    base = batch.base + by
    data = base.to_bytes(8, "big") + batch.data[8:]
    return LogBatch(base, batch.last + by, data, [(at + by, time) for at, time in batch.records])
