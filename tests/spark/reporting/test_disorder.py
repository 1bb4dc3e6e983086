"""Disorder beyond max-out-of-orderness, within ranges and across the borders of tasks and batches. No JVM."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pyarrow as pa
import pytest

from flip27_stream.api import RecordTimestampAssigner
from flip27_stream.spark.execution.event_times import EventTimeObserver, ImplausibleEventTimes
from flip27_stream.spark.planning.micro_batch.split_warnings import SplitWarnings
from flip27_stream.spark.reporting.disorder import Disorder
from flip27_stream.spark.reporting.reports import SplitReport
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import LogEnumerator, MemorySource

B = "scan.watermark.max-out-of-orderness"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "fell back" in message]


@pytest.mark.parametrize("enumerator", [None, LogEnumerator])
def test_disorder_across_the_border_of_two_batches_is_warned_of_once(
    make: Callable[..., DrivenQuery], caplog: pytest.LogCaptureFixture, enumerator: type[LogEnumerator] | None
) -> None:
    """Disorder between two batches, each of which is in order by itself, gives one warning.

    The warning names the split, how far its event times fell back, and the option.
    """
    query = make({"a": [100, 110], "b": [100, 101]}, **{B: "5 ms"})
    if enumerator is not None:
        query = DrivenQuery(
            query.world,
            query.table,
            options={B: "5 ms"},
            source=MemorySource(query.world, enumerator=LogEnumerator),
        )
    while query.step(10):
        pass
    query.world.logs["a"] += [104, 111]
    query.world.logs["b"] += [97, 102]
    while query.step(10):
        pass
    assert warnings(caplog) == [
        "event times of split a fell back by 6 ms, more than scan.watermark.max-out-of-orderness (5 ms) allows: "
        "Spark can drop rows as late. Raise this option and the delay of withWatermark."
    ]
    query.world.logs["a"] += [50]
    while query.step(10):
        pass
    assert len(warnings(caplog)) == 1


def test_disorder_across_a_restart_is_warned_of(
    make: Callable[..., DrivenQuery], caplog: pytest.LogCaptureFixture
) -> None:
    """Disorder across a restart gives a warning, because the offset has the greatest event time that was read before.

    The batch may be one that the former process has planned.
    """
    query = make({"a": [100, 110]})
    while query.step(10):
        pass
    query.world.logs["a"] += [105]
    query.clock.advance(1)
    start, query.offset = query.offset, query.coordinator.latest_offset(query.offset, 10)
    query.restart()
    assert query.run(start, query.offset) == [("a", 105)]
    query.step(10)
    assert [w for w in warnings(caplog) if "split a fell back by 5 ms" in w] != []


def test_reports_tell_the_least_event_time() -> None:
    """A report has the least and the greatest event time of a range, and its disorder. Only plausible event times
    count.
    """
    observer = EventTimeObserver("a", RecordTimestampAssigner(), 1000, ImplausibleEventTimes.SKIP)
    for times in ([None, 30, 40], [20, 2000, None], [25]):
        column = pa.array(times, pa.int64())
        observer.observe(pa.record_batch({"x": column}), column, None)
    seen = observer.statistics()
    assert (seen["min_event_time"], seen["max_event_time"], seen["disorder"]) == (20, 40, 20)


def test_disorder_of_pieces_is_that_of_the_whole() -> None:
    """The disorder of a log is found however the log is cut into batches and tasks, in whatever order tasks report,
    and if some report twice.
    """
    chance = random.Random(7)
    for _ in range(300):
        log = [chance.randrange(100) for _ in range(chance.randrange(1, 20))]
        whole = max(max(log[: i + 1]) - t for i, t in enumerate(log))
        cuts = [0, *sorted(chance.sample(range(1, len(log)), chance.randrange(len(log)))), len(log)]
        pieces = [report(log, a, b) for a, b in itertools.pairwise(cuts)]
        border = chance.randrange(len(pieces) + 1)
        disorder, found = Disorder(), 0
        for number, batch in enumerate((pieces[:border], pieces[border:])):
            read = [p.max_event_time or 0 for p in pieces[: border * number]]
            disorder.begin_batch(number, {"a": max(read, default=None)})
            disorder.begin_batch(number, {"a": 10**9})
            reports = [*batch, *batch[:1]]
            chance.shuffle(reports)
            found = max([found, *(disorder.add(number, r) for r in reports)])
        assert found == whole


def report(log: list[int], start: int, end: int) -> SplitReport:
    part = log[start:end]
    inside = max(max(part[: i + 1]) - t for i, t in enumerate(part))
    return SplitReport("a", start, end, len(part), max(part), inside, 0, min(part))


def test_a_late_report_of_an_earlier_batch_is_not_compared_with_this_one() -> None:
    """A late report of an earlier batch is not compared with the current batch. It may be the report of a speculative
    task for which Spark did not wait.
    """
    disorder = Disorder()
    disorder.begin_batch(5, {"a": 1000})
    assert disorder.add(4, SplitReport("a", 0, 9, 9, 500, 3, 0, 400)) == 3
    assert disorder.add(5, SplitReport("a", 9, 12, 3, 1500, 3, 0, 999)) == 3
    assert disorder.add(5, SplitReport("a", 12, 14, 2, 1500, 0, 0, 1499)) == 3


def test_few_of_many_splits_are_named_in_warnings(caplog: pytest.LogCaptureFixture) -> None:
    """At most five warnings of splits are logged in a minute, with the newest values. In the end each of them is
    logged once.
    """
    given = SplitWarnings()
    for i in range(12):
        given.add(f"s{i:02}", "split %s: %d", i)
        given.add(f"s{i:02}", "split %s: %d", i + 100)
    given.log_due(0)
    given.log_due(60_000)
    assert caplog.messages == [f"split s{i:02}: {i + 100}" for i in range(5)] + [
        "7 more such warnings follow, 5 a minute"
    ]
    given.forget(["s05"])
    for minute in range(1, 5):
        given.log_due(minute * 60_001)
        given.add("s00", "split %s: %d", 1)
    assert [m for m in caplog.messages if m.startswith("split")] == [
        f"split s{i:02}: {i + 100}" for i in range(12) if i != 5
    ]
