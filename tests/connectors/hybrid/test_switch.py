"""The switch from one source to the next: when it happens, where the next source begins, and restarts. No JVM."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import Boundedness, JsonValue, SourceEvent, SplitEnumerator
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.connectors.hybrid.planning.enumerator import HybridSourceSplitEnumerator
from flip27_stream.errors import ForeignCheckpointError, OptionError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.testing import wait_until
from tests.connectors.hybrid.kit import SOME, HybridQuery, Made, Row, history, live
from tests.spark.support.sources.memory_source import MemoryEnumerator, MemorySource, World

Logs = dict[str, list[int | None]]

OLD: Logs = {"old": [100, 110, 120], "older": [90, 95]}
NEW: Logs = {"a": [115, 120, 121, 130], "b": [122]}
SEAM: list[Row] = [*sorted((n, t) for n in OLD for t in OLD[n]), ("a", 121), ("a", 130), ("b", 122)]
"""The rows of ``OLD``, and then those rows of ``NEW`` whose event times are after all of ``OLD``."""


def two(make: Made) -> Callable[[], HybridSource]:
    return lambda: HybridSource.builder(history("old", OLD), event_time="event_time").add_source(make).build()


def table(tmp_path: Path, aligned: bool) -> Path | None:
    return tmp_path / "table" if aligned else None


def test_hy_01_all_but_the_last_source_must_be_bounded() -> None:
    """HY-01: the boundedness of a hybrid source is that of its last source."""
    old, new = history("old", OLD), live("new", NEW)
    assert HybridSource.builder(old).add_source(old).build().boundedness is Boundedness.BOUNDED
    assert HybridSource.builder(old).add_source(new).build().boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    with pytest.raises(OptionError, match=r"Source 0 of the hybrid source, new, is not bounded.*final one"):
        HybridSource.builder(new).add_source(old)
    with pytest.raises(OptionError, match=r"Source 1 .*a source made at the switch, is not bounded"):
        HybridSource.builder(old).add_source(lambda switch: new).add_source(old)
    with pytest.raises(OptionError, match="said to be bounded, but new is not"):
        HybridSource.builder(old).add_source(lambda switch: new, boundedness=Boundedness.BOUNDED)


@pytest.mark.parametrize("aligned", [False, True])
def test_hy_02_a_factory_gets_the_enumerator_before_and_where_it_ends(tmp_path: Path, aligned: bool) -> None:
    """HY-02: the end position is the greatest event time read; the next source goes on after it."""
    made = Made(NEW)
    query = HybridQuery(two(made), table(tmp_path, aligned))
    assert query.run() == SEAM
    trial, call = made.calls
    assert (trial.previous_enumerator, trial.end_position) == (None, 0)
    assert isinstance(call.previous_enumerator, MemoryEnumerator)
    assert (call.end_position, call.start_time_ms) == (120, 121)


def test_hy_04_the_switch_waits_until_every_split_is_processed() -> None:
    """HY-03, HY-04: the plan that finds every split processed makes the switch. No batch is empty, and none has rows of
    both sources."""
    made = Made(NEW)
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


def test_splits_of_a_source_that_is_read_leave_the_offset() -> None:
    query = HybridQuery(two(Made(NEW)))
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
    middle, newest = Made(logs[1], Boundedness.BOUNDED), Made(logs[2])

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
    that was never logged. A source may be empty. Without a limit the run is Trigger.Once, which makes one plan."""
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
    sources, and has the same rows. Its tasks call no factory (see :class:`Made`)."""
    source, _ = three()
    query = HybridQuery(source, table(tmp_path, aligned))
    first: list[tuple[dict[str, Any], dict[str, Any], list[Row]]] = []
    while (rows := query.step(2)) is not None:
        first.append((query.start, query.offset, rows))
    assert len(first) >= 5
    for start, end, rows in first:
        query.restart()
        assert query.read(start, end) == rows


def test_one_available_now_run_reads_all_sources() -> None:
    """HY-12: an AvailableNow run ends with the last source only. A row that is written after the first look at that
    source is left to the next run."""
    made = Made(NEW)
    query = HybridQuery(two(made), available_now=True)
    while query.index == 0 if query.offsets else True:
        assert query.step(2)
    made.world.logs["a"] = [*made.world.logs["a"], 140]
    query.run(2)
    assert sorted(query.rows) == sorted(SEAM)
    query.restart()
    assert query.run(2) == [("a", 140)]


def test_hy_18_a_restart_asks_the_past_nothing() -> None:
    """HY-18: the end position is in the offset, so the first source may be gone after the switch."""
    made = Made(NEW)
    query = HybridQuery(two(made))
    query.run()
    gone = HybridSource.builder(history("old", {}), event_time="event_time").add_source(made)
    query._source = gone.build
    made.world.logs["a"] = [*NEW["a"], 140]
    made.calls.clear()
    query.restart()
    assert query.run() == [("a", 140)]
    (call,) = made.calls
    assert (call.previous_enumerator, call.end_position) == (None, 120)


def test_hy_18_a_factory_that_needs_the_enumerator_fails_by_name_after_a_restart() -> None:
    def needs(switch: SourceSwitchContext) -> Any:
        assert isinstance(switch.previous_enumerator, SplitEnumerator), "no enumerator"
        return live("new", NEW)

    query = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(needs).build())
    query.run()
    query.restart()
    with pytest.raises(OptionError, match=r"(?s)factory of source 1 .*no enumerator.*this is a restart"):
        query.step()


def test_a_factory_that_makes_another_source_after_a_restart_is_refused() -> None:
    names = iter(["trial", "new", "another trial", "another"])
    query = HybridQuery(
        lambda: HybridSource.builder(history("old", OLD)).add_source(lambda s: live(next(names), NEW)).build()
    )
    query.run()
    query.restart()
    with pytest.raises(ForeignCheckpointError, match=r"'new'.*now makes 'another'"):
        query.step()


class Taking(MemorySource):
    """A source that accepts the checkpoint of any source whose fingerprint has no dash."""

    def accepts_checkpoint_of(self, fingerprint: str) -> bool:
        return "-" not in fingerprint


def test_a_chain_accepts_the_checkpoint_of_one_whose_sources_its_own_accept() -> None:
    """A hybrid source accepts the checkpoint of another one if each of its sources accepts that of the source at its
    place, whether these are fixed or made by factories."""
    past = history("old", OLD)

    def chain(*more: Any) -> HybridSource:
        builder = HybridSource.builder(past)
        for one in more:
            builder = builder.add_source(one)
        return builder.build()

    now = Taking(World(dict(NEW)), fingerprint="now")
    assert chain(now).accepts_checkpoint_of(chain(live("then", NEW)).fingerprint)
    assert not chain(now).accepts_checkpoint_of(chain(live("the-n", NEW)).fingerprint)
    assert not chain(now).accepts_checkpoint_of(chain(past, live("then", NEW)).fingerprint)
    assert not chain(now).accepts_checkpoint_of("old, then then")
    made = iter([live("trial", NEW), live("new", NEW), live("trial", NEW), now])
    query = HybridQuery(lambda: chain(lambda switch: next(made)))
    rows = query.run()
    query.restart()
    assert query.step() in (None, [])
    assert len(rows) == sum(map(len, [*OLD.values(), *NEW.values()]))


def test_an_end_that_nobody_looked_for_is_an_error_and_no_guess() -> None:
    """The query has neither alignment nor a column of event time. A factory that asks for the end of the history
    fails. A fixed source does not ask, and is read."""
    made = Made(NEW)
    query = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(made).build())
    query.step()
    with pytest.raises(OptionError, match="was read without a look at its event times"):
        query.step()
    fixed = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(live("n", NEW)).build())
    assert len(fixed.run()) == 10


def test_alignment_switched_on_half_way_leaves_the_end_unknown(tmp_path: Path) -> None:
    """The event times of rows that were read before alignment are unknown. A smaller greatest event
    time would double rows of the next source."""
    made = Made(NEW)
    query = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(made).build())
    query.step(3)
    query._table = tmp_path / "table"
    query.restart()
    with pytest.raises(OptionError, match="was read without a look at its event times"):
        query.run()


def test_an_enumerator_can_say_where_its_source_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """FLIP-150: the end position may be any JSON value, and a restart finds it again."""
    from flip27_stream.connectors.hybrid.planning import enumerator

    monkeypatch.setattr(enumerator, "SupportsEndPosition", MemoryEnumerator)
    position: JsonValue = {"version": 7, "files": ["a", "b"]}
    monkeypatch.setattr(MemoryEnumerator, "end_position", lambda self: position, raising=False)
    seen = []

    def after(switch: SourceSwitchContext) -> Any:
        seen.append(switch.end_position)
        return live("new", NEW)

    query = HybridQuery(lambda: HybridSource.builder(history("old", OLD)).add_source(after).build())
    query.run()
    query.restart()
    query.step()
    assert seen == [0, position, 0, position]
    with pytest.raises(OptionError, match="not an event time in milliseconds"):
        SourceSwitchContext(known_end=position).start_time_ms  # noqa: B018


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
    source does not reach it, and switches nothing."""
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


def test_what_is_reported_are_the_ends_of_the_source_that_is_read() -> None:
    """SK-34: the report has the split names and positions of the source that is being read."""
    query = HybridQuery(two(Made(NEW)))
    query.step(1)
    assert query.coordinator.report_latest_offset() == {"old": 3, "older": 2}
    query.run()
    assert query.coordinator.report_latest_offset() == {"a": 4, "b": 1}


def test_offsets_follow_each_other_over_a_switch(tmp_path: Path) -> None:
    """I8, I10: batch numbers rise by one. A plan with nothing new returns the start offset itself."""
    query = HybridQuery(two(Made(NEW)), tmp_path / "table")
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
    query = HybridQuery(HybridSource.builder(old, event_time="event_time").add_source(Made(NEW)).build)
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
    the history must not skip the live source."""
    in_a_day = time.time_ns() // 1_000_000 + 24 * 3_600_000
    old: Logs = {**OLD, "wrong": [in_a_day]}
    made = Made(NEW)
    query = HybridQuery(
        HybridSource.builder(history("old", old), event_time="event_time").add_source(made).build
    )
    query.run()
    assert made.calls[-1].end_position == 120
