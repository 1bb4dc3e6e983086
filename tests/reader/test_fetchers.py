"""Fetchers, their managers and the queue: threads, back-pressure, idleness, pausing, closing."""

from __future__ import annotations

import logging
import threading

import pytest

from flip27_stream.api import InputStatus
from flip27_stream.reader import (
    FetcherPerSplitManager,
    RecordsWithSplitIds,
    SingleThreadFetcherManager,
    SplitsAddition,
)
from flip27_stream.reader.fetcher import SplitFetcher
from flip27_stream.reader.hand_over import HandOverQueue
from flip27_stream.testing import wait_until
from flip27_stream.testing.task_rows import TaskRows
from tests.reader.support.kit import (
    SCHEMA,
    TIME_LIMIT_S,
    Numbers,
    NumbersReader,
    NumbersSourceReader,
    WaitingReader,
    poll_until,
    read_all,
    splits,
)


class Exits:
    """Callbacks that keep what a fetcher tells its manager."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []
        self.exited = threading.Event()

    def failed(self, fetcher: SplitFetcher[Numbers], error: BaseException) -> None:
        self.errors.append(error)

    def ended(self, fetcher: SplitFetcher[Numbers]) -> None:
        self.exited.set()


class WatchedCondition(threading.Condition):
    """A condition that tells when a thread waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.has_waiter = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.has_waiter.set()
        return super().wait(timeout)


# ---- the queue --------------------------------------------------------------------------------------------------


def test_availability_follows_the_queue() -> None:
    """The future of a queue is done once there is an element or a notice. After the last element was polled, a new
    future waits.
    """
    queue: HandOverQueue[int] = HandOverQueue(2)
    waiting = queue.availability()
    assert not waiting.done()
    assert not waiting.cancel()
    assert queue.put(1)
    assert queue.put(2)
    assert waiting.done()
    assert queue.poll() == 1
    assert queue.availability().done()
    assert queue.poll() == 2
    assert not queue.availability().done()
    queue.notify_available()
    assert queue.availability().done()
    assert queue.poll() is None
    assert not queue.availability().done()


def producer_of(queue: HandOverQueue[int], put: list[bool]) -> threading.Thread:
    """Fills a queue of capacity 1. Returns a thread that waits for room in it and then adds the answer of ``put`` to
    the list.
    """
    queue._changed = changed = WatchedCondition()
    queue.put(1)
    producer = threading.Thread(target=lambda: put.append(queue.put(2)), daemon=True)
    producer.start()
    assert changed.has_waiter.wait(TIME_LIMIT_S), "the producer does not wait for room"
    return producer


def test_a_full_queue_makes_its_producer_wait() -> None:
    queue: HandOverQueue[int] = HandOverQueue(1)
    put: list[bool] = []
    producer = producer_of(queue, put)
    assert put == []
    assert queue.poll() == 1
    producer.join(TIME_LIMIT_S)
    assert (put, queue.poll()) == ([True], 2)


def test_closing_the_queue_releases_its_producer() -> None:
    queue: HandOverQueue[int] = HandOverQueue(1)
    put: list[bool] = []
    producer = producer_of(queue, put)
    queue.close()
    producer.join(TIME_LIMIT_S)
    assert (put, queue.put(3), queue.is_empty()) == ([False], False, True)


@pytest.mark.parametrize("capacity", [1, 3])
def test_fetchers_run_ahead_by_no_more_than_the_queue_holds(capacity: int) -> None:
    """Fetchers run ahead by as many fetches as the queue holds, and by one more, which waits for room in it."""
    made = NumbersReader(per_fetch=1)
    manager = SingleThreadFetcherManager(lambda: made, queue_capacity=capacity)
    reader, output = NumbersSourceReader(manager), TaskRows(SCHEMA)
    reader.add_splits(splits((0, 30)))
    wait_until(lambda: made.fetches == capacity + 1, "a fetcher that has run ahead as far as it can")
    ahead = []

    def look(status: InputStatus) -> bool:
        ahead.append(made.fetches - output.table.num_rows)
        return bool(output.released)

    poll_until(reader, output, look)
    assert max(ahead) <= capacity + 1
    reader.close()
    assert output.column("value") == list(range(30))


# ---- idle, closed -----------------------------------------------------------------------------------------------


def test_sr11_a_fetcher_without_splits_is_idle() -> None:
    """SR-11: a fetcher without a split is idle, at first and again after the end of its split. Then the queue
    notifies whoever waits.
    """
    queue: HandOverQueue[RecordsWithSplitIds] = HandOverQueue(9)
    exits = Exits()
    fetcher = SplitFetcher(NumbersReader(per_fetch=5), queue, exits.failed, exits.ended)
    assert fetcher.is_idle()
    fetcher.add_splits(splits((0, 5)))
    assert not fetcher.is_idle()
    fetcher.start()
    fetched = []
    while not fetcher.is_idle():
        queue.availability().result(TIME_LIMIT_S)
        fetched.append(queue.poll())
    fetched.append(queue.poll())
    assert [name for f in fetched if f for name in f.finished] == ["s0"]
    fetcher.shut_down()
    assert fetcher.join(TIME_LIMIT_S)
    assert exits.exited.is_set()
    assert exits.errors == []


def test_sr11_a_reader_that_is_quicker_than_the_fetcher_hears_that_it_is_idle() -> None:
    """SR-11: a reader that takes the last records before the fetcher lets go of their split is notified once the
    fetcher is idle. Otherwise the reader would wait for ever.
    """

    class Quick(HandOverQueue[RecordsWithSplitIds]):
        def put(self, element: RecordsWithSplitIds) -> bool:
            return super().put(element) and self.poll() is element and not self.availability().done()

    exits, queue = Exits(), Quick(9)
    fetcher = SplitFetcher(NumbersReader(per_fetch=5), queue, exits.failed, exits.ended)
    fetcher.add_splits(splits((0, 5)))
    fetcher.start()
    wait_until(
        lambda: fetcher.is_idle() and queue.availability().done(), "the notice that the fetcher is idle"
    )
    fetcher.shut_down()
    assert fetcher.join(TIME_LIMIT_S)


def test_sr13_a_fetcher_that_waits_for_the_reader_can_be_closed() -> None:
    """SR-13: a fetcher that waits for room in the queue does not delay the end of its reader."""
    made = NumbersReader(endless=True)
    manager = SingleThreadFetcherManager(lambda: made)
    reader = NumbersSourceReader(manager)
    reader.add_splits(splits((0, 10**9)))
    wait_until(lambda: made.fetches > 2, "the queue to be full")
    closer = threading.Thread(target=reader.close)
    closer.start()
    closer.join(TIME_LIMIT_S)
    assert made.closed.is_set()


def test_sr15_a_split_reader_is_closed_only_after_its_last_records_were_emitted() -> None:
    """SR-15: a split reader is closed only after its last records were emitted, because they may lie in its
    buffers.
    """
    made = NumbersReader(per_fetch=5)
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: made))
    output = TaskRows(SCHEMA)
    reader.add_splits(splits((0, 5)))
    reader.notify_no_more_splits()
    while not output.released:
        assert not made.closed.is_set()
        reader.poll_next(output)
    assert output.column("value") == list(range(5))
    poll_until(reader, output, lambda status: status is InputStatus.END_OF_INPUT)
    assert made.closed.is_set()


def test_added_splits_wake_a_waiting_fetch() -> None:
    """A split reader that waits for records of one split is woken up, and gets the next split at once."""
    made = WaitingReader()
    reader = NumbersSourceReader(SingleThreadFetcherManager(lambda: made))
    first, second = splits((0, 9), (0, 9))
    reader.add_splits([first])
    wait_until(lambda: made.fetches, "the first fetch")
    reader.add_splits([second])
    wait_until(lambda: len(made.changes) == 2, "the second split")
    assert made.changes == [SplitsAddition([first]), SplitsAddition([second])]
    reader.close()


def test_closing_does_not_wait_for_a_fetch_that_is_stuck(caplog: pytest.LogCaptureFixture) -> None:
    """Closing a reader does not wait for a fetch that is stuck. A warning names the splits of the fetch, and what it
    still brings is dropped.
    """
    release = threading.Event()
    made = NumbersReader(on_fetch=lambda number: release.wait())
    manager = SingleThreadFetcherManager(lambda: made)
    reader = NumbersSourceReader(manager, close_timeout_s=0.01)
    reader.add_splits(splits((0, 9)))
    wait_until(lambda: made.fetches, "a fetch that is stuck")
    with caplog.at_level(logging.WARNING):
        reader.close()
    assert "1 fetcher(s) did not end within 0.01 s and are left running: s0" in caplog.text
    assert not made.closed.is_set()
    release.set()
    assert made.closed.wait(TIME_LIMIT_S)
    assert manager.queue.is_empty()


def test_fetchers_run_in_daemon_threads() -> None:
    """Fetchers run in daemon threads, so that a stuck one does not keep the worker process alive."""
    daemons: list[bool] = []
    made = NumbersReader(on_fetch=lambda number: daemons.append(threading.current_thread().daemon))
    read_all(NumbersSourceReader(SingleThreadFetcherManager(lambda: made)), splits((0, 2)))
    assert daemons == [True]


def test_idle_fetchers_end_and_new_ones_start() -> None:
    """An idle fetcher ends, so that no thread is left between splits. The next split gets a new split reader."""
    made: list[NumbersReader] = []

    def make() -> NumbersReader:
        made.append(NumbersReader())
        return made[-1]

    reader = NumbersSourceReader(SingleThreadFetcherManager(make))
    output = TaskRows(SCHEMA)
    for number, split in enumerate(splits((0, 3), (0, 3))):
        reader.add_splits([split])
        poll_until(reader, output, lambda status, n=number: n < len(made) and made[n].closed.is_set())  # type: ignore[misc]
    assert sorted(output.column("value")) == [0, 1, 2, 10, 11, 12]
    reader.close()


def test_splits_beyond_the_greatest_number_of_fetchers_share_them() -> None:
    made: list[NumbersReader] = []

    def make() -> NumbersReader:
        made.append(NumbersReader(on_fetch=lambda number: both.wait(TIME_LIMIT_S)))
        return made[-1]

    both = threading.Event()
    reader = NumbersSourceReader(FetcherPerSplitManager(make, max_fetchers=2))
    reader.add_splits(splits(*[(0, 4)] * 5))
    both.set()
    reader.notify_no_more_splits()
    output = TaskRows(SCHEMA)
    poll_until(reader, output, lambda status: status is InputStatus.END_OF_INPUT)
    reader.close()
    assert output.table.num_rows == 20
    assert sorted(sum(len(c.splits) for c in m.changes) for m in made) == [2, 3]
