"""The switch from one source to the next: when it happens, where the next source begins, and restarts. No JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from flip27_stream.api import Boundedness, ReadLimits, SourceEvent
from flip27_stream.connectors.hybrid import HybridSource
from flip27_stream.connectors.hybrid.planning.enumerator import HybridSourceSplitEnumerator
from flip27_stream.errors import ContractError, OptionError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from flip27_stream.testing import wait_until
from tests.connectors.hybrid.support.kit import (
    NEW,
    OLD,
    SEAM,
    SOME,
    HybridQuery,
    Logs,
    NotingFactory,
    Row,
    history,
    live,
    table,
    two,
)
from tests.spark.support.sources.memory_source import MemoryEnumerator


def test_hy_01_all_but_the_last_source_must_be_bounded() -> None:
    """HY-01: the boundedness of a hybrid source is that of its last source."""
    old, new = history("old", OLD), live("new", NEW)
    assert HybridSource.builder(old).add_source(old).build().boundedness is Boundedness.BOUNDED
    assert HybridSource.builder(old).add_source(new).build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(OptionError, match=r"Source 0 of the hybrid source, new, is not bounded.*final one"):
        HybridSource.builder(new).add_source(old)
    with pytest.raises(OptionError, match=r"Source 1 .*a source made at the switch, is not bounded"):
        HybridSource.builder(old).add_source(lambda switch: new).add_source(old)
    with pytest.raises(OptionError, match="declared bounded, but new is not"):
        HybridSource.builder(old).add_source(lambda switch: new, boundedness=Boundedness.BOUNDED)


def test_what_is_no_source_is_refused_where_it_is_given() -> None:
    old = history("old", OLD)
    its_class: Any = type(old)
    with pytest.raises(
        OptionError, match=r"Source 0 of the hybrid source is <class .*Give an object of a Source\."
    ):
        HybridSource.builder(its_class)
    wrong: list[Any] = [its_class, None]
    for given in wrong:
        with pytest.raises(
            OptionError, match=r"Source 1 of the hybrid source is .*or a function that makes one"
        ):
            HybridSource.builder(old).add_source(given)
    returns_nothing: Any = lambda switch: None  # noqa: E731
    with pytest.raises(
        ContractError, match="The factory of a hybrid source's next source returned None; it must"
    ):
        HybridSource.builder(old).add_source(returns_nothing)


def test_hy_04_the_switch_waits_until_every_split_is_processed() -> None:
    """HY-03, HY-04: the plan that finds every split processed makes the switch. No batch is empty, and none has rows of
    both sources.
    """
    made = NotingFactory(NEW)
    query = HybridQuery(two(made))
    batches = [query.step(3)]
    assert len(made.calls) == 1
    assert query.index == 0
    while query.index == 0:
        batches.append(query.step(3))
    assert [len(batch or ()) for batch in batches] == [2, 3, 3]
    assert sorted(query.rows[:5]) == SEAM[:5]
    assert query.rows[5:] == SEAM[5:]
    assert len(made.calls) == 2
    assert query.step(3) is None


def test_splits_of_a_finished_source_leave_the_offset() -> None:
    query = HybridQuery(two(NotingFactory(NEW)))
    query.run()
    assert set(query.offsets[0]["splits"]) == {"0:old", "0:older"}
    assert set(query.offset["splits"]) == {"1:a", "1:b"}


THREE: list[tuple[str, Logs]] = [
    ("oldest", {"o": [10, 12], "p": [14]}),
    ("middle", {"m": [3, 14, 15, 20, 21]}),
    ("newest", {"n": [15, 21, 22, 30, 31], "q": [25, 26]}),
]
THREE_READ: list[Row] = [
    *[("o", 10), ("o", 12), ("p", 14)],
    *[("m", 15), ("m", 20), ("m", 21)],
    *[("n", 22), ("n", 30), ("n", 31), ("q", 25), ("q", 26)],
]


def three(empty: int | None = None) -> tuple[Callable[[], HybridSource], list[Row]]:
    """Returns a function that makes three sources, of which one may be empty, and the rows that are to be read."""
    logs = [dict[str, list[int | None]]() if i == empty else named for i, (_, named) in enumerate(THREE)]
    middle, newest = NotingFactory(logs[1], Boundedness.BOUNDED), NotingFactory(logs[2])

    def source() -> HybridSource:
        builder = HybridSource.builder(history("oldest", logs[0]), event_time="event_time")
        return builder.add_source(middle, event_time="event_time").add_source(newest).build()

    names = {name for log in logs for name in log}
    expected = [row for row in THREE_READ if row[0] in names]
    if empty == 0:
        expected += [("m", 3), ("m", 14)]
    if empty == 1:
        expected += [("n", 15), ("n", 21)]
    return source, sorted(expected)


@pytest.mark.parametrize(
    ("aligned", "empty", "limit"),
    [
        *((False, empty, limit) for empty in (None, 0, 1, 2) for limit in (SOME, 1, None)),
        *((True, empty, limit) for empty, limit in ((None, SOME), (None, None), (1, SOME))),
    ],
)
@pytest.mark.parametrize("available_now", [False, True])
def test_hy_17_a_restart_at_any_boundary_neither_loses_nor_doubles(
    tmp_path: Path, aligned: bool, available_now: bool, limit: int | None, empty: int | None
) -> None:
    """HY-17, HY-08: the query restarts twice around each batch, before, at and after each switch, once with a plan
    that was never logged. A source may be empty. Without a limit the run is Trigger.Once, which makes one plan.
    """
    source, expected = three(empty)
    query = HybridQuery(source, table(tmp_path, aligned), available_now=available_now)
    planned = True
    while planned:
        query.restart()
        planned = query.plan(limit) is not None
        query.restart()
        assert (query.step(limit) is not None) == planned
        assert len(query.offsets) < 50, "empty batches for ever"
    assert sorted(query.rows) == expected
    assert query.index == 2


@pytest.mark.parametrize("aligned", [False, True])
def test_hy_08_a_replay_reads_the_same_in_another_process(tmp_path: Path, aligned: bool) -> None:
    """HY-08, HY-14, PY-09, PY-14: each batch is read again after a restart, long after the query switched to later
    sources, and has the same rows. Its tasks call no factory (see :class:`NotingFactory`).
    """
    source, _ = three()
    query = HybridQuery(source, table(tmp_path, aligned))
    first: list[tuple[dict[str, Any], dict[str, Any], list[Row]]] = []
    while (rows := query.step(2)) is not None:
        first.append((query.start, query.offset, rows))
    assert len(first) >= 5
    for start, end, rows in first:
        query.restart()
        assert query.read(start, end) == rows


def test_positions_of_a_source_do_not_count_for_the_next_one() -> None:
    """The splits of the sources have the same ids, as those of one topic on several clusters. Only the last source
    waits for ``minOffsetsPerTrigger``: no rows are added to a history, whose batches may be smaller (SK-06).
    """
    sources = [
        history(f"source {i}", {"a": [10 * i + n for n in range(count)]}) for i, count in ((1, 5), (2, 3))
    ]
    limits = ReadLimits(min_rows=4, max_trigger_delay_ms=1000)
    builder = HybridSource.builder(sources[0], limits=limits).add_source(sources[1])
    query = HybridQuery(builder.add_source(live("new", {"a": [30]})).build)
    assert query.step() == [("a", 10 + n) for n in range(5)]
    assert query.step() == [("a", 20 + n) for n in range(3)]
    assert query.step() is None
    query.clock.advance(2000)
    query.step()
    assert query.rows == [("a", time) for time in (10, 11, 12, 13, 14, 20, 21, 22, 30)]


class Noting(MemoryEnumerator):
    """An enumerator that notes the limits of the last plan."""

    limits = ReadLimits()

    def admit(self, limits: ReadLimits) -> None:
        self.limits = limits
        super().admit(limits)


def test_a_source_gets_the_row_limit_of_the_query_and_other_limits_of_its_own() -> None:
    """Kinesis and Pulsar count rows exactly up to the limit that they get. With their own one, which may be greater or
    missing, aligned batches exceeded that of the query.
    """
    new = live("new", NEW, limits=ReadLimits(max_rows=5000, max_bytes=7), enumerator=Noting)
    builder = HybridSource.builder(history("old", OLD), limits=ReadLimits(max_rows=50))
    query = HybridQuery(builder.add_source(new).build)
    query.run(50)
    assert limits_of(query) == ReadLimits(max_rows=50, max_bytes=7)


@pytest.mark.parametrize("aligned", [False, True])
def test_sources_keep_their_limits_if_those_of_the_query_are_empty(tmp_path: Path, aligned: bool) -> None:
    """Without any limit in the options, a plan would look like that of ``Trigger.Once``, which has no limits."""
    old = history("old", OLD, limits=ReadLimits(max_files=1, max_bytes=7), enumerator=Noting)
    builder = HybridSource.builder(old, limits=ReadLimits(), event_time="event_time")
    query = HybridQuery(builder.add_source(live("new", NEW)).build, table(tmp_path, aligned))
    limit = Flip27StreamReader(query.spec).getDefaultReadLimit()
    query.plan(limit.max_rows if isinstance(limit, ReadMaxRows) else None)
    assert limits_of(query) == ReadLimits(max_files=1, max_bytes=7)
    query.plan(None)
    assert limits_of(query) == ReadLimits()


def limits_of(query: HybridQuery) -> ReadLimits:
    """Returns the limits of the last plan of the source that is being read."""
    hybrid = query.coordinator._enumerator
    assert isinstance(hybrid, HybridSourceSplitEnumerator)
    assert isinstance(hybrid._child, Noting)
    return hybrid._child.limits


def test_one_available_now_run_reads_all_sources() -> None:
    """HY-12: an AvailableNow run ends with the last source only. A row that is written after the first look at that
    source is left to the next run.
    """
    made = NotingFactory(NEW)
    query = HybridQuery(two(made), available_now=True)
    while query.index == 0 if query.offsets else True:
        assert query.step(2)
    made.world.logs["a"] = [*made.world.logs["a"], 140]
    query.run(2)
    assert sorted(query.rows) == sorted(SEAM)
    query.restart()
    assert query.run(2) == [("a", 140)]


class Talkative(MemoryEnumerator):
    """An enumerator that notes the calls that it gets, and signals that there are no more splits."""

    told: list[Any]

    def start(self) -> None:
        self.told = []
        super().start()

    def _discovered(self, names: list[str], error: BaseException | None) -> None:
        super()._discovered(names, error)
        for subtask in self.context.registered_readers():
            self.context.signal_no_more_splits(subtask)

    def handle_source_event(self, subtask_id: int, event: SourceEvent) -> None:
        self.told.append(event)

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        self.told.append((subtask_id, requester_hostname))

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        self.told.append(dict(positions))


def test_hy_11_calls_go_on_to_the_enumerator_of_the_source_that_is_read() -> None:
    """HY-11, HY-09, HY-07: calls reach the enumerator of the source that is read. An event of a reader of another
    source does not reach it, and switches nothing.
    """
    sources = [history(name, OLD, enumerator=Talkative) for name in ("old", "new")]
    hybrid = HybridSource.builder(sources[0]).add_source(sources[1]).build()
    context = CoordinatorContext(2, "host")
    enumerator = hybrid.create_enumerator(context)
    assert isinstance(enumerator, HybridSourceSplitEnumerator)
    enumerator.start()
    context.run_due()
    enumerator.handle_source_event(1, SourceEvent("0:here", 5))
    enumerator.handle_source_event(1, SourceEvent("1:late", 5))
    enumerator.handle_split_request(0, "there")
    enumerator.notify_checkpoint_complete({"0:old": 2, "1:old": 3})
    child = enumerator._child
    assert isinstance(child, Talkative)
    assert child.told == [SourceEvent("here", 5), (0, "there"), {"old": 2}]
    assert enumerator.snapshot_state().index == 0
    child.context.send_event_to_source_reader(1, SourceEvent("hello"))
    assert context.events == {1: [SourceEvent("0:hello")]}


def test_hy_12_only_the_last_source_says_that_there_is_no_more() -> None:
    """HY-12: the signal of an earlier source does not end the hybrid source; the signal of the last source does."""
    sources = [history(name, OLD, enumerator=Talkative) for name in ("old", "new")]
    query = HybridQuery(lambda: HybridSource.builder(sources[0]).add_source(sources[1]).build())
    query.step()
    assert not query.coordinator._context.has_all_splits
    query.step()
    assert query.index == 1
    assert query.coordinator._context.has_all_splits
    assert query.step() is None


def test_reported_ends_are_those_of_the_source_that_is_read() -> None:
    """SK-34: the report has the split names and positions of the source that is being read."""
    query = HybridQuery(two(NotingFactory(NEW)))
    query.step(1)
    assert query.coordinator.report_latest_offset() == {"old": 3, "older": 2}
    query.run()
    assert query.coordinator.report_latest_offset() == {"a": 4, "b": 1}


def test_offsets_follow_each_other_over_a_switch(tmp_path: Path) -> None:
    """I8, I10: batch numbers rise by one. A plan with nothing new returns the start offset itself."""
    query = HybridQuery(two(NotingFactory(NEW)), tmp_path / "table")
    query.run(2)
    assert all(b["batch"] == a["batch"] + 1 for a, b in pairwise(query.offsets))
    assert query.coordinator.latest_offset(query.offset, SOME) is query.offset


class Late(MemoryEnumerator):
    """An enumerator that finds its splits only after a while."""

    def start(self) -> None:
        self.context.call_async(lambda: list(self.world.logs), self._discovered, initial_delay_ms=50)


class Unsure(MemoryEnumerator):
    """An enumerator that looks for splits again and again, and never says that there are no more."""

    def start(self) -> None:
        super().start()
        self.context.call_async(lambda: None, lambda value, error: None, period_ms=1)


def test_a_source_that_has_yet_to_look_for_its_splits_is_not_finished() -> None:
    old = history("old", OLD, enumerator=Late)
    query = HybridQuery(
        HybridSource.builder(old, event_time="event_time").add_source(NotingFactory(NEW)).build
    )
    wait_until(lambda: query.run() and query.index == 1, "the second source")
    assert query.rows == SEAM


def test_a_source_that_goes_on_looking_is_not_finished() -> None:
    old = history("old", OLD, enumerator=Unsure)
    query = HybridQuery(HybridSource.builder(old).add_source(live("new", NEW)).build)
    assert len(query.run()) == 5
    assert query.step() is None
    assert query.index == 0


def test_a_record_from_the_future_does_not_move_the_seam() -> None:
    """A query without alignment has no option for implausible times. One wrong time in
    the history must not skip the live source.
    """
    in_a_day = time.time_ns() // 1_000_000 + 24 * 3_600_000
    old: Logs = {**OLD, "wrong": [in_a_day]}
    made = NotingFactory(NEW)
    query = HybridQuery(
        HybridSource.builder(history("old", old), event_time="event_time").add_source(made).build
    )
    query.run()
    assert made.calls[-1].end_position == 120


@pytest.mark.parametrize("between", [{}, {"between": []}, {"between": [90]}, {"between": [None]}])
def test_a_source_without_later_rows_leaves_the_end_position_as_it_was(
    between: dict[str, list[int | None]], caplog: pytest.LogCaptureFixture
) -> None:
    """In a chain of three sources the last one does not read the rows of the first one again."""
    last = NotingFactory({"new": [100, 120, 130]})
    query = HybridQuery(
        HybridSource.builder(history("old", {"old": [100, 120]}), event_time="event_time")
        .add_source(NotingFactory(between, Boundedness.BOUNDED), event_time="event_time")
        .add_source(last)
        .build
    )
    rows = query.run()
    assert [row for row in rows if row[0] in ("old", "new")] == [("old", 100), ("old", 120), ("new", 130)]
    assert last.calls[-1].start_time_ms == 121
    assert "source 1 of the hybrid source" in caplog.text
