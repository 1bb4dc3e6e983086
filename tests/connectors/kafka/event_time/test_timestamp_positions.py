"""Positions that are searched for all logs together are those of a search in each log, record by record."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from flip27_stream.api import EventTimes, PositioningRequest, SplitRange
from flip27_stream.connectors.kafka.client.unanswered import UnansweredPartitions
from flip27_stream.connectors.kafka.event_time import event_time_probe, known_batches
from flip27_stream.connectors.kafka.event_time.position_finder import PositionFinder
from flip27_stream.connectors.kafka.records import batch_header_columns
from flip27_stream.connectors.kafka.records.record_times import RecordTimes, record_times
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import CorruptRecordError, UnreachableError
from tests.connectors.kafka.event_time.random_logs import (
    CODECS,
    PLAUSIBLE,
    Broker,
    LogBatch,
    finder,
    reads_of,
    some_log,
    some_time,
)
from tests.connectors.kafka.event_time.timestamp_index import TimestampIndex
from tests.connectors.kafka.support.batch_bytes import (
    LZ4,
    BatchRow,
    patched,
    v2,
)
from tests.support.exploring import examples

CASES = examples(5000)


def search_by_record(broker: Any) -> PositionFinder:
    """Returns the reference, which searches log by log, and decodes each record."""
    return PositionFinder(reads_of(broker)[1], TimestampIndex())


@pytest.mark.parametrize(("block", "most_bytes", "most_records"), [(0, 1 << 20, 1000), (1, 100, 3)])
def test_event_times_of_batch_headers_are_those_of_records(
    block: int, most_bytes: int, most_records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules 3 and 6, I1, I12: all answers are the same with and without headers, plan after plan.

    The same holds with little memory, when batches are dropped and read again.
    """
    monkeypatch.setattr(known_batches, "MOST_BYTES", most_bytes)
    monkeypatch.setattr(known_batches, "_MOST_RECORDS", most_records)
    monkeypatch.setattr(known_batches, "_MOST_BATCHES", most_records)
    for seed in range(block * CASES, (block + 1) * CASES):
        _compare(Random(seed), all_kept=block == 0)


def _compare(rng: Random, all_kept: bool) -> None:
    by_tp = {TopicPartition("t", n): some_log(rng) for n in range(rng.randint(1, 3))}
    most, latest, budget = (
        rng.choice([1, 2, 5, 5]),
        rng.choice([None, PLAUSIBLE]),
        rng.choice([None, None, 3, 6]),
    )
    makers = [make(Broker(by_tp, most)) for make in (finder, search_by_record)]
    positions = dict.fromkeys(by_tp, 0)
    for _ in range(rng.randint(1, 3)):
        ranges = {
            tp: SplitRange(positions[tp], end)
            for tp in by_tp
            if (end := _end(by_tp[tp], rng)) > positions[tp]
        }
        request = PositioningRequest({str(tp): span for tp, span in ranges.items()}, latest, budget)
        with_headers, without = (
            maker.positions({str(tp): tp for tp in ranges}, dict.fromkeys(ranges, ""), request)
            for maker in makers
        )
        times, expected = with_headers.event_times(), without.event_times()
        assert times.keys() == expected.keys()
        for tp, span in ranges.items():
            _check_times(times[str(tp)], expected[str(tp)], by_tp[tp], span, latest, all_kept)
        for event_time in [*(rng.randrange(42) for _ in range(4)), some_time(rng) + 1, -5]:
            answer = with_headers.first_at_or_after(event_time)
            assert answer == without.first_at_or_after(event_time)
        if answer and rng.random() < 0.8:
            at = with_headers.first_at_or_after(rng.randrange(60))
            positions.update((tp, at[str(tp)][0]) for tp in ranges)


def _check_times(
    found: EventTimes,
    expected: EventTimes,
    log: list[LogBatch],
    span: SplitRange,
    latest: int | None,
    all_kept: bool,
) -> None:
    """Checks the first and the greatest known event time.

    A header has the greatest time of its whole batch, so more of the log may be known than by reading records.
    """
    assert found.next == expected.next
    assert (found.reach is None) == (expected.reach is None)
    if found.reach is not None and expected.reach is not None:
        times = [time for batch in log for at, time in batch.records if span.position <= at < span.end]
        assert found.reach in [time for time in times if 0 <= time <= (2**63 if latest is None else latest)]
        assert found.reach >= expected.reach or not all_kept


def _end(log: list[LogBatch], rng: Random) -> int:
    """Returns an end of a range, mostly behind a batch, as a broker gives it."""
    last = [batch.last + 1 for batch in log] or [0]
    return rng.choice([last[-1], rng.choice(last), rng.randrange(last[-1] + 1)])


@pytest.mark.parametrize("codec", [0, *CODECS.values()], ids=["none", *CODECS])
def test_headers_are_enough_for_logs_that_are_read_to_their_ends(codec: int) -> None:
    """Only headers and the first record of a log are decoded, and the log is fetched once for all questions."""
    tp = TopicPartition("t", 0)
    rows = [[BatchRow(10 * n + i, 100 * n + i, None, b"v") for i in range(10)] for n in range(3)]
    log = [LogBatch(10 * n, 10 * n + 9, v2(batch, codec), []) for n, batch in enumerate(rows)]
    broker = Broker({tp: log}, 5)
    maker = finder(broker)
    maker._known._decoder.decoded = None  # type: ignore[assignment, method-assign]  # an error if it is called
    request = PositioningRequest({"t-0": SplitRange(0, 30)})
    found = maker.positions({"t-0": tp}, {tp: ""}, request)
    assert found.event_times() == {"t-0": EventTimes(0, 209)}
    assert found.first_at_or_after(1_000) == {"t-0": (30, 30)}
    if not codec:
        assert found.first_at_or_after(10) == {"t-0": (10, 10)}
    assert broker.fetched == [tp]


@pytest.mark.parametrize("codec", [*CODECS.values(), 5], ids=[*CODECS, "unknown"])
def test_a_batch_that_cannot_be_decompressed_is_refused(codec: int) -> None:
    """Its checksum is right, as if the producer had compressed it wrongly. Other partitions are not to blame."""
    good, bad = TopicPartition("t", 0), TopicPartition("t", 1)
    data = v2([BatchRow(0, 5, None, b"v"), BatchRow(1, 6, None, b"v")])
    wrong = patched(data, attributes=codec)
    logs = {good: [LogBatch(0, 1, data, [])], bad: [LogBatch(0, 1, wrong, [])]}
    maker = finder(Broker(logs, 5))
    ranges = {str(tp): SplitRange(0, 2) for tp in logs}
    found = maker.positions({str(tp): tp for tp in logs}, dict.fromkeys(logs, ""), PositioningRequest(ranges))
    with pytest.raises(CorruptRecordError, match="t-1"):
        found.event_times()


def test_a_batch_whose_records_are_damaged_is_refused_when_they_are_needed() -> None:
    """Its checksum and its first record are right, so only the search that ends in it finds the damage."""
    good, bad = TopicPartition("t", 0), TopicPartition("t", 1)
    data = v2([BatchRow(i, i, None, b"v") for i in range(4)])
    record = data[61:]
    wrong = patched(data, records=record[:20] + b"\xff" * (len(record) - 20))
    logs = {good: [LogBatch(0, 3, data, [])], bad: [LogBatch(0, 3, wrong, [])]}
    ranges = {str(tp): SplitRange(0, 4) for tp in logs}
    maker = finder(Broker(logs, 5))
    found = maker.positions({str(tp): tp for tp in logs}, dict.fromkeys(logs, ""), PositioningRequest(ranges))
    assert found.event_times() == dict.fromkeys(ranges, EventTimes(0, 3))
    with pytest.raises(CorruptRecordError, match="offset 0 of t-1"):
        found.first_at_or_after(2)


def test_a_cut_batch_is_decoded_once() -> None:
    """A row limit moves the position through one batch, plan after plan: it is neither read nor decoded again."""
    tp = TopicPartition("t", 0)
    broker = Broker({tp: [LogBatch(0, 9, v2([BatchRow(i, i, None, b"v") for i in range(10)], LZ4), [])]}, 5)
    maker = finder(broker)
    for position in range(9):
        request = PositioningRequest({"t-0": SplitRange(position, 10)}, budget=1)
        found = maker.positions({"t-0": tp}, {tp: ""}, request)
        assert found.first_at_or_after(position + 1) == {"t-0": (position + 1, 1)}
        maker._known._pieces.clear()  # The bytes are not needed again.
    assert broker.fetched == [tp]
    assert maker._known.offsets.tolist() == list(range(10))


@pytest.mark.parametrize("budget", [2**63 - 2, 2**63, 2**70])
def test_a_row_limit_may_be_larger_than_all_offsets(budget: int) -> None:
    tp = TopicPartition("t", 0)
    log = [LogBatch(0, 9, v2([BatchRow(i, i, None, b"v") for i in range(10)]), [])]
    request = PositioningRequest({"t-0": SplitRange(5, 10)}, budget=budget)
    found = finder(Broker({tp: log}, 5)).positions({"t-0": tp}, {tp: ""}, request)
    assert found.first_at_or_after(7) == {"t-0": (7, 2)}
    assert found.first_at_or_after(70) == {"t-0": (10, 5)}


@pytest.mark.parametrize("time", [-1, PLAUSIBLE + 1], ids=["no time", "implausible"])
@pytest.mark.parametrize("most_bytes", [1 << 20, 100])
def test_batches_without_a_plausible_time_are_decoded_together(
    time: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With little memory, too: a batch whose bytes were dropped is read again with those after it."""
    monkeypatch.setattr(known_batches, "MOST_BYTES", most_bytes)
    calls: list[int] = []

    def counted(batches: Sequence[bytes | memoryview]) -> RecordTimes:
        calls.append(len(batches))
        return record_times(batches)

    monkeypatch.setattr(known_batches, "record_times", counted)
    tp = TopicPartition("t", 0)
    log = [LogBatch(n, n, v2([BatchRow(n, time if n < 200 else 7, None, b"v")]), []) for n in range(201)]
    broker = Broker({tp: log}, 500)
    request = PositioningRequest({"t-0": SplitRange(0, 201)}, PLAUSIBLE)
    found = finder(broker).positions({"t-0": tp}, {tp: ""}, request)
    assert found.event_times() == {"t-0": EventTimes(7, 7)}
    assert calls == [200]
    assert len(broker.fetched) <= 2


def test_a_split_that_is_held_while_its_log_grows_takes_limited_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_batches, "_MOST_BATCHES", 20)
    tp = TopicPartition("t", 0)
    log = [LogBatch(n, n, v2([BatchRow(n, n, None, b"v" * 900)]), []) for n in range(300)]
    maker = finder(Broker({tp: log}, 1))
    for end in range(100, 301):
        request = PositioningRequest({"t-0": SplitRange(0, end)})
        found = maker.positions({"t-0": tp}, {tp: ""}, request)
        assert found.event_times()["t-0"].next == 0
        assert found.first_at_or_after(0) == {"t-0": (0, 0)}
        assert len(maker._known._batches) <= 25


def test_large_compressed_batches_are_decoded_when_their_records_are_needed() -> None:
    """A batch larger than 128 kB is not decompressed for its first record alone: all its records are decoded."""
    tp = TopicPartition("t", 0)
    noise = Random(5).randbytes(batch_header_columns._LARGEST_COMPRESSED)
    log = [LogBatch(0, 1, v2([BatchRow(0, 5, None, noise), BatchRow(1, 6, None, b"v")], LZ4), [])]
    maker = finder(Broker({tp: log}, 5))
    found = maker.positions({"t-0": tp}, {tp: ""}, PositioningRequest({"t-0": SplitRange(0, 2)}))
    assert found.event_times() == {"t-0": EventTimes(5, 6)}
    assert maker._known.offsets.tolist() == [0, 1]


def test_only_partitions_without_an_answer_count_as_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query whose leaders answer goes on for any time. A query with a silent leader fails in the end."""
    monkeypatch.setattr(event_time_probe, "_TIME_LIMIT_S", 0)
    heard, silent = TopicPartition("t", 0), TopicPartition("t", 1)
    log = [LogBatch(n, n, v2([BatchRow(n, n, None, b"v")]), []) for n in range(4)]
    maker = finder(Broker({heard: log, silent: []}, 1), UnansweredPartitions(0, str))

    def plan(*ranges: tuple[TopicPartition, int]) -> set[str]:
        partitions = {str(tp): tp for tp, _ in ranges}
        request = PositioningRequest({str(tp): SplitRange(position, 4) for tp, position in ranges})
        return set(maker.positions(partitions, dict.fromkeys(partitions.values(), ""), request).event_times())

    for position in range(4):
        assert plan((heard, position)) == {"t-0"}
    for _ in range(3):
        assert plan((heard, 3), (silent, 0)) == {"t-0"}
    with pytest.raises(UnreachableError, match="no answer about t-1"):
        plan((heard, 3), (silent, 0))


def test_split_that_is_held_is_read_once() -> None:
    tp = TopicPartition("t", 0)
    log = [LogBatch(0, 9, v2([BatchRow(i, i, None, b"v") for i in range(10)]), [])]
    broker = Broker({tp: log}, 5)
    maker = finder(broker)
    for position in (0, 0, 5, 5):
        request = PositioningRequest({"t-0": SplitRange(position, 10)})
        found = maker.positions({"t-0": tp}, {tp: ""}, request)
        assert found.event_times() == {"t-0": EventTimes(position, 9)}
        assert found.first_at_or_after(7) == {"t-0": (7, 7 - position)}
    assert broker.fetched == [tp]


@pytest.mark.parametrize("at", [18, 30, 40, 62])
def test_damaged_batch_is_refused(at: int) -> None:
    """The checksum covers the header and the records. A batch that does not fit it is refused."""
    tp, data = TopicPartition("t", 0), bytearray(v2([BatchRow(0, 5, None, b"v"), BatchRow(1, 6, None, b"v")]))
    data[at] ^= 1
    maker = finder(Broker({tp: [LogBatch(0, 1, bytes(data), [])]}, 5))
    found = maker.positions({"t-0": tp}, {tp: ""}, PositioningRequest({"t-0": SplitRange(0, 2)}))
    with pytest.raises(CorruptRecordError, match=r"offset 0 of t-0: its checksum"):
        found.event_times()
