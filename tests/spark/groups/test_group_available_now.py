"""AvailableNow runs of members of a group (rule 8). No JVM."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest

from flip27_stream.api import ReadLimits
from flip27_stream.errors import AlignmentError
from flip27_stream.spark.planning.group.group_planner import GroupPlanner
from flip27_stream.testing import wait_until
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.members import TIMEOUT, Make, beat, member_of, step
from tests.support.module_time import replace_time
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter


class WaitingPlans:
    """Time that passes only while a plan waits inside ``latestOffset``. The heartbeats of other members run in that
    time.
    """

    STEP_MS = 10_000

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.before_it_passes: Callable[[], None] = lambda: None

    def for_a_while(self, run: DrivenQuery, others: Sequence[DrivenQuery], ms: int) -> None:
        """Runs plans of ``run`` that read nothing, until they have waited for ``ms`` milliseconds in total."""
        self._begin(run, others)
        until = run.clock() + ms
        while run.clock() < until:
            assert step(run) == []

    def until_it_moves(self, run: DrivenQuery, others: Sequence[DrivenQuery]) -> int:
        """Runs plans of ``run`` until one reads something, and returns the total time (ms) that they waited."""
        self._begin(run, others)
        began = run.clock()
        while step(run) == []:
            assert run.clock() < began + 10 * TIMEOUT
        return run.clock() - began

    def _begin(self, run: DrivenQuery, others: Sequence[DrivenQuery]) -> None:
        def sleep(_: float) -> None:
            self.before_it_passes()
            run.clock.advance(self.STEP_MS)
            for other in others:
                beat(other)

        replace_time(self._monkeypatch, "flip27_stream.spark.planning.stall_detector", sleep=sleep)
        planner = run.coordinator._planner
        assert isinstance(planner, GroupPlanner)
        planner._wait._monotonic = lambda: run.clock() / 1000


def unreachable(_: GroupLog) -> list[tuple[int, Entry]]:
    raise AlignmentError("The store is down")


def test_two_sources_of_one_query_reach_their_ends_together(make: Make) -> None:
    """I3, I11: two sources of one query read all their rows, and the early one comes near to the late one first.
    After each batch no source is ahead of the next row of the other by more than max-drift. Spark asks one after the
    other, so no source waits in its answer for one that is asked after it.
    """
    times = [*range(1, 401, 7)], [*range(201, 601, 7)]
    early, late = make({"a": times[0]}), make({"b": times[1]})
    for query in (early, late):
        query.coordinator.prepare_available_now()
    while (batches := [step(early), step(late)]) != [None, None]:
        read = [[t or 0 for batch in query.batches for _, t in batch] for query in (early, late)]
        for one, other in ((0, 1), (1, 0)):
            if read[one] and (unread := times[other][len(read[other]) :]):
                assert read[one][-1] - unread[0] <= 10, batches
        assert len(early.batches) < 500, batches
    assert read == [*times]
    first_of_late = next(i for i, batch in enumerate(late.batches) if batch)
    read_before = [t for batch in early.batches[:first_of_late] for _, t in batch]
    assert max(t or 0 for t in read_before) >= 201 - 10 - 7, "the early one came up to it first"


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> WaitingPlans:
    return WaitingPlans(monkeypatch)


def test_a_run_held_by_others_alone_goes_on_after_the_timeout(
    make: Make, waiting: WaitingPlans, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 8: a run that only other members hold back goes on right after the source timeout, with a warning that
    names the member.

    Until then the run does not end.
    """
    slow, run = make({"a": [100]}, source_id="lame"), make({"b": [100, 500]})
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run), step(run)] == [[], [100], [], []]
    with caplog.at_level(logging.WARNING, logger="flip27_stream.spark.planning.group.group_planner"):
        waited_ms = waiting.until_it_moves(run, [slow])
    assert run.batches[-1] == [("b", 500)]
    assert TIMEOUT < waited_ms <= TIMEOUT + 2 * waiting.STEP_MS
    assert "goes on without it: source 'lame'" in caplog.text
    assert step(run) is None


def test_only_time_in_which_a_plan_waited_counts(make: Make, waiting: WaitingPlans) -> None:
    """Rule 8: only time in which a plan waited counts. Spark may run a batch of another source of the query for
    hours, while the heartbeats of that source go on.
    """
    slow, run = make({"a": [100, 1000]}), make({"b": [500]}, update_interval="10 ms")
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    for _ in range(5):
        run.clock.advance(10 * TIMEOUT)
        beat(slow)
        assert step(run) == []
    assert waiting.until_it_moves(run, [slow]) > TIMEOUT


def test_only_time_in_which_the_member_was_heard_counts(
    make: Make, waiting: WaitingPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 8: time in which the table cannot be read does not count, because moves of members are not seen then."""
    slow, run = make({"a": [100, 1000]}), make({"b": [500]})
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    with monkeypatch.context() as patched:
        patched.setattr(GroupLog, "new_entries", unreachable)
        waiting.for_a_while(run, [], 10 * TIMEOUT)
    waiting.for_a_while(run, [slow], TIMEOUT - waiting.STEP_MS)
    assert waiting.until_it_moves(run, [slow]) <= 3 * waiting.STEP_MS


def test_a_member_that_stands_still_is_given_up_where_each_look_ends_after_the_plan_that_began_it(
    make: Make, waiting: WaitingPlans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 8: a member that stands still is given up, although each look at the table ends after the plan that began
    it. A plan waits 5 s for the table. How much of each look counts depends on when its thread runs, so the end may
    be later than the timeout: ``until_it_moves`` allows ten of them.
    """
    slow, run = make({"a": [100]}), make({"b": [500]})
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    monkeypatch.setattr("watermark_alignment.group.membership._TIME_LIMIT_S", 0.0)
    waiting.before_it_passes = lambda: wait_for_look(run)
    assert waiting.until_it_moves(run, [slow]) > TIMEOUT


def wait_for_look(query: DrivenQuery) -> None:
    member = member_of(query)
    wait_until(lambda: member._done >= member._asked, "its look at the group", 30)


def test_a_member_whose_watermark_stands_in_ties_makes_progress(make: Make, waiting: WaitingPlans) -> None:
    """A member that reads many rows with one event time makes progress with each batch, although its watermark stands
    still. The run does not give it up.
    """
    slow, run = make({"a": [100] * 30 + [600]}, ReadLimits(max_rows=2)), make({"b": [500]})
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    for _ in range(14):
        waiting.for_a_while(run, [slow], TIMEOUT // 2)
        assert step(slow) == [100, 100]
        assert member_of(slow).entry.watermark == 99
    waiting.for_a_while(run, [slow], TIMEOUT // 2)
    assert run.batches[-1] == []


def test_a_member_that_was_given_up_counts_again_once_it_moves(make: Make, waiting: WaitingPlans) -> None:
    slow, run = make({"a": [100, 120]}), make({"b": [150, 155, 500]}, ReadLimits(max_rows=1))
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    waiting.until_it_moves(run, [slow])
    assert run.batches[-1] == [("b", 150)]
    assert [step(slow), step(slow)] == [[100, 120], None]
    run.clock.advance(1001)
    assert step(run) == [], "155 is above 120 + 10"


def test_a_new_member_behind_one_that_was_given_up_is_waited_for(make: Make, waiting: WaitingPlans) -> None:
    """I3: a run that has given up one member waits for a new member that is behind it."""
    slow, run = make({"a": [100]}), make({"b": [150, 500]}, ReadLimits(max_rows=1))
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    waiting.until_it_moves(run, [slow])
    assert run.batches[-1] == [("b", 150)]
    newcomer = make({"c": [90]})
    assert step(newcomer) == []
    run.clock.advance(1001)
    assert [step(run), step(run)] == [[], []]


def test_members_that_move_still_count(make: Make, waiting: WaitingPlans) -> None:
    """I3: a run goes on without the member that is stuck, but stays aligned with the others."""
    stuck, live, run = make({"a": [100]}), make({"b": [105]}), make({"c": [106, 115, 116, 500]})
    for query in (stuck, live):
        assert step(query) == []
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run)] == [[], [106], []]
    waiting.until_it_moves(run, [stuck, live])
    assert run.batches[-1] == [("c", 115)]
    assert step(run) == [], "116 is above 105 + 10"


def test_hold_leaves_rows_that_others_hold_to_the_next_run(make: Make) -> None:
    """Rule 8: with ``available-now`` set to ``hold`` a run ends, and leaves the rows that other members hold back to
    the next run.
    """
    slow, run = make({"a": [100]}), make({"b": [100, 500]}, available_now="hold")
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run)] == [[], [100], None]
    run.restart()
    slow.coordinator.close()
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run)] == [[], [500], None]


def test_the_plan_that_ends_a_run_frees_the_others(make: Make) -> None:
    """Rule 8: a source at its frozen end is finished for this run and holds no other member back, though its process
    may still exist for a while.
    """
    run, other = make({"a": [100]}), make({"b": [100, 500]})
    run.coordinator.prepare_available_now()
    assert [step(run), step(other), step(run), step(other)] == [[], [], [100], [100]]
    assert step(run) is None
    assert step(other) == [500]


def test_a_run_waits_once_for_an_outage_of_the_table(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run at its end waits for an outage of the table only once. Spark asks a source in every batch of the other
    sources of its query, even if the source's own run is at its end.
    """
    waits: list[tuple[float, float | None]] = []
    flush = TableWriter.flush

    def watched(writer: TableWriter, timeout_s: float, failing_timeout_s: float | None = None) -> bool:
        waits.append((timeout_s, failing_timeout_s))
        return flush(writer, min(timeout_s, 0.1), failing_timeout_s and 0.1)

    def down(*_: object) -> bool:
        raise AlignmentError("The store is down")

    monkeypatch.setattr(TableWriter, "flush", watched)
    run = make({"a": [100]})
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], [100]]
    with monkeypatch.context() as patched:
        patched.setattr(SplitWatermarkTable, "append", down)
        assert [step(run) for _ in range(4)] == [None] * 4
    assert waits == [(30.0, 5.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]
    assert len([m for m in caplog.messages if "The run ends before its last rows" in m]) == 1
    wait_until(lambda: step(run) is None and len(run.rows()) == 2, "the rows to be written", 30)
    step(run)
    step(run)
    assert waits[-1] == (30.0, 5.0)
