"""Records that were fetched beyond a range are kept for the next task, and only where they are still right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.client.client import ConnectionOptions, KafkaClient
from flip27_stream.connectors.kafka.client.protocol import FetchedPartition
from flip27_stream.connectors.kafka.fetching import fetched_ahead
from flip27_stream.connectors.kafka.fetching import fetcher as fetcher_module
from flip27_stream.connectors.kafka.fetching.fetched_ahead import FetchedAhead, Log
from flip27_stream.connectors.kafka.fetching.fetcher import Fetcher
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.task_rows import TaskRows
from tests.connectors.kafka.support.batch_bytes import T0, BatchRow, all_rows, v2
from tests.connectors.kafka.support.kit import read, settle, source, transactions, write_transaction

MakeTopic = Callable[..., str]

LOG = Log(TopicPartition("t", 3), "id", read_committed=True)
ALL = 10**9


def batches(*sizes: int, value: bytes = b"v") -> bytes:
    """Returns the bytes of a log with batches of these numbers of records."""
    log, first = b"", 0
    for size in sizes:
        log += v2([BatchRow(n, T0 + n, None, value) for n in range(first, first + size)])
        first += size
    return log


def answer(records: bytes, *aborted: tuple[int, int]) -> FetchedPartition:
    return FetchedPartition(0, memoryview(records), list(aborted))


def offsets(kept: FetchedPartition | None, start: int, stop: int = ALL) -> list[int] | None:
    return None if kept is None else [row.offset for row in all_rows(bytes(kept.records), start, stop)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(fetched_ahead, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_the_next_ranges_are_kept_and_no_earlier_one() -> None:
    ahead = FetchedAhead()
    ahead.keep(LOG, 4, answer(batches(3, 3, 3)))
    for start in (4, 5, 6, 8):
        assert offsets(ahead.take(LOG, start), start) == list(range(start, 9))
    assert ahead.take(LOG, 9) is None

    ahead.keep(LOG, 4, answer(batches(3, 3, 3)))
    assert ahead.take(LOG, 3) is None, "the batch of 3 is kept, but a range before 4 is not the next one"


def test_another_log_is_another_key() -> None:
    """Kept records are returned only for the topic id and the isolation level with which they were fetched."""
    ahead = FetchedAhead()
    ahead.keep(LOG, 0, answer(batches(2)))
    for other in (LOG._replace(topic_id="new"), LOG._replace(read_committed=False)):
        assert ahead.take(other, 0) is None
    assert ahead.take(LOG, 0) is not None


def test_what_may_be_wrong_later_is_not_kept() -> None:
    ahead, unknown = FetchedAhead(), LOG._replace(topic_id="")
    ahead.keep(unknown, 0, answer(batches(2)))
    assert ahead.take(unknown, 0) is None
    aborted = answer(batches(2), (7, 0))
    ahead.keep(LOG, 0, aborted)
    assert ahead.take(LOG, 0) is None
    uncommitted = LOG._replace(read_committed=False)
    ahead.keep(uncommitted, 0, aborted)
    assert ahead.take(uncommitted, 0) is not None


def test_records_are_used_for_two_seconds(clock: SimpleNamespace) -> None:
    ahead = FetchedAhead()
    ahead.keep(LOG, 0, answer(batches(2)))
    clock.now += 2
    assert ahead.take(LOG, 0) is not None
    clock.now += 0.1
    assert ahead.take(LOG, 0) is None


def test_a_newer_answer_replaces_what_is_kept() -> None:
    ahead = FetchedAhead()
    ahead.keep(LOG, 0, answer(batches(2, 2)))
    ahead.keep(LOG, 4, answer(batches(2, 2)))
    assert ahead.take(LOG, 0) is None


def test_a_log_has_at_most_256_kib_and_all_have_4_mib() -> None:
    ahead = FetchedAhead()
    large = batches(*[100] * 5, value=b"v" * 1000)
    ahead.keep(LOG, 0, answer(large))
    assert offsets(ahead.take(LOG, 0), 0) == list(range(200)), (
        "two batches of 100 kB fit, and a part of a third one"
    )
    ahead.keep(LOG, 0, answer(batches(1, value=b"v" * (256 << 10))))
    assert ahead.take(LOG, 0) is None

    logs = [LOG._replace(tp=TopicPartition("t", n)) for n in range(20)]
    for log in logs:
        ahead.keep(log, 0, answer(large))
    kept = [log.tp.partition for log in logs if ahead.take(log, 0) is not None]
    assert kept == list(range(4, 20)), "the oldest are dropped"
    for log in logs[:4]:
        ahead.keep(log, 0, answer(batches(1, value=b"v" * (256 << 10))))
    assert [n for n in kept if ahead.take(logs[n], 0) is None] == [], "what cannot be used takes no place"


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    cut=st.integers(0, 200),
    ends=st.lists(st.integers(1, 8), min_size=1, max_size=12),
)
def test_ranges_one_after_another_have_the_rows_of_the_log(
    sizes: list[int], cut: int, ends: list[int]
) -> None:
    """Whatever the batches and ranges are, and wherever the answer is cut off, the rows of a range are those of the
    log as far as they are kept.
    """
    log, ahead, start = batches(*sizes), FetchedAhead(), 0
    ahead.keep(LOG, 0, answer(log[: max(len(log) - cut, 0)]))
    whole = [row.offset for row in all_rows(log[: max(len(log) - cut, 0)])]
    for size in ends:
        stop = start + size
        kept = offsets(ahead.take(LOG, start), start, stop)
        assert kept == ([n for n in whole if start <= n < stop] or None)
        start = stop


# ---- on a real broker -----------------------------------------------------------------------------------------------


class CountedFetches:
    """Counts the fetches of this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        send = Fetcher.send

        def counted(*given: object, **named: object) -> None:
            self.count += 1
            send(*given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(fetcher_module.Fetcher, "send", counted)


def topic_id(broker: KafkaBroker, name: str) -> str:
    with closing(KafkaClient(ConnectionOptions(broker.bootstrap_servers))) as client:
        return client.topics([name])[name].topic_id


def values(output: TaskRows) -> list[bytes]:
    return output.column("value")


@pytest.mark.jvm
def test_a_backlog_in_small_ranges_needs_few_fetches(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, fetches = topic(2), CountedFetches(monkeypatch)
    for n in range(20):
        broker.write(name, [(p, 1000, None, b"%d" % (10 * n + i)) for p in range(2) for i in range(10)])
    made, known = source(broker, subscribe=name), topic_id(broker, name)
    for start in range(0, 200, 8):
        splits = [KafkaPartitionSplit(name, p, start, min(start + 8, 200), known) for p in range(2)]
        expected = [b"%d" % n for n in range(start, min(start + 8, 200))] * 2
        assert values(read(made, *splits)) == expected
    assert fetches.count == 1


@pytest.mark.jvm
def test_aborted_records_are_left_out_of_later_ranges_too(broker: KafkaBroker, topic: MakeTopic) -> None:
    """The same producer aborts a transaction in one range, and commits the next one in the range after it."""
    name = topic(1)
    with transactions(broker, name) as producer:
        for n in range(6):
            write_transaction(producer, name, [n] * 3, commit=n % 2 == 1)
    settle(broker, name)
    made = source(broker, {"kafka.isolation.level": "read_committed"}, subscribe=name)
    known, found = topic_id(broker, name), []
    for start in range(0, 24, 2):
        found += values(read(made, KafkaPartitionSplit(name, 0, start, start + 2, known)))
    assert found == [b"1"] * 3 + [b"3"] * 3 + [b"5"] * 3


@pytest.mark.jvm
def test_another_topic_of_the_same_name_is_fetched_anew(broker: KafkaBroker, topic: MakeTopic) -> None:
    name = topic(1)
    broker.write(name, [(0, 1, None, b"old")] * 4)
    made, old = source(broker, subscribe=name), topic_id(broker, name)
    assert values(read(made, KafkaPartitionSplit(name, 0, 0, 2, old))) == [b"old"] * 2
    broker.delete_topic(name)
    broker.create_topic(name, 1)
    broker.write(name, [(0, 1, None, b"new")] * 4)
    new = topic_id(broker, name)
    assert new != old
    assert values(read(made, KafkaPartitionSplit(name, 0, 2, 4, new))) == [b"new"] * 2
