"""Which sources count as members of a group: idle, finished, restarted, stopped and dead ones.

No JVM.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from flip27_stream.api import ReadLimits
from flip27_stream.errors import AlignmentError
from flip27_stream.spark.planning.group import group_planner
from flip27_stream.spark.reporting.registered_readers import Readers
from flip27_stream.spark.reporting.reporting_splits import Reporting
from flip27_stream.testing import wait_until
from tests.spark.support.members import TIMEOUT, Make, beat, delete, kill, listen, member_of, several, step
from tests.spark.support.sources.memory_source import LogEnumerator, MemoryEnumerator
from watermark_alignment.group import group_log
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.own_entry import LONGEST_BEAT_S
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def unreachable(_: GroupLog) -> list[tuple[int, Entry]]:
    raise AlignmentError("The store is down")


def test_a_member_all_of_whose_splits_are_idle_holds_nobody_and_comes_back(make: Make) -> None:
    """AL-02, AL-03, AL-04, AO-04: a member whose splits are all idle holds no other member back. When it gets data,
    it holds them back with its own front, behind what they have read by then.
    """
    slow, fast = make({"a": [100]}), make({"b": [100, 500]})
    for query in (slow, fast, slow, fast):
        step(query)
    assert step(fast) is None
    slow.clock.advance(1001)
    assert step(slow) is None
    assert step(fast) == [500]
    slow.world.logs["a"] += [90, 140]
    fast.world.logs["b"] += [501]
    assert step(slow) == [90, 140]
    fast.clock.advance(1001)
    assert step(fast) is None
    assert member_of(slow).entry.watermark == 99


def test_a_finished_member_holds_nobody(make: Make) -> None:
    """AO-06, AS-06: a finished member holds no other member back."""
    short, long = make({"a": [100]}), make({"b": [100, 500]})
    short.world.finished.add("a")
    for query in (short, long, short, long):
        step(query)
    assert step(long) is None
    assert step(short) is None
    assert step(long) == [500]


def test_a_member_without_splits_keeps_its_last_watermark(make: Make) -> None:
    """Rule 7: a member without splits keeps its last watermark until it is told that no more splits come. A hybrid
    source has no splits for a moment between two of its sources, and for ever at its end.
    """
    query = make({"a": [100]})
    step(query)
    step(query)
    query.world.silent.add("a")
    step(query)
    assert member_of(query).entry.watermark == 99
    query.coordinator._context.retire_splits(["a"])
    step(query)
    assert member_of(query).entry.watermark == 99
    for subtask in query.coordinator._context.registered_readers():
        query.coordinator._context.signal_no_more_splits(subtask)
    step(query)
    assert member_of(query).entry.watermark is None


def test_a_member_that_stops_leaves_at_once(make: Make) -> None:
    slow, fast = make({"a": [100]}), make({"b": [500]})
    assert [step(slow), step(fast), step(fast)] == [[], [], None]
    slow.coordinator.close()
    assert step(fast) == [500]


def test_a_member_that_dies_leaves_after_the_timeout(make: Make) -> None:
    """AL-20: a member that was killed counts until the source timeout is over, to the millisecond. Each reader
    measures the timeout by its own clock, from when it first saw the entry.
    """
    slow, fast = make({"a": [100]}), make({"b": [500]})
    assert [step(slow), step(fast), step(fast)] == [[], [], None]
    kill(slow)
    listen(fast, TIMEOUT)
    assert step(fast) is None
    fast.clock.advance(1)
    assert step(fast) == [500]


def test_a_member_in_a_long_batch_or_with_a_long_trigger_stays(make: Make) -> None:
    """A member stays in its group during a long batch or a long trigger interval. Its heartbeats go on although Spark
    does not call it.
    """
    slow, fast = make({"a": [100]}, source_timeout="1 s"), make({"b": [500]}, source_timeout="1 s")
    assert [step(slow), step(fast), step(fast)] == [[], [], None]
    for _ in range(3):
        beats = member_of(slow).entry.beat
        wait_until(lambda seen=beats: member_of(slow).entry.beat > seen + 1, "two beats", 30)  # type: ignore[misc]
        fast.clock.advance(750)
        assert step(fast) is None
        fast.clock.advance(750)


def test_a_new_member_sees_a_member_with_a_longer_timeout(make: Make, tmp_path: Path) -> None:
    """I3: a member that joins counts another one with a longer source timeout, whose last heartbeat may be older than
    its own timeout.
    """
    slow = make({"a": [100]}, source_timeout="1 h")
    assert step(slow) == []
    for commit in (tmp_path / "table" / "_delta_log").iterdir():
        long_ago = time.time() - 1.1 * LONGEST_BEAT_S
        os.utime(commit, (long_ago, long_ago))
    short, fast = (make({name: [500]}, source_timeout="1 s") for name in "bc")
    assert step(short) == []
    assert [step(fast), step(fast)] == [[], None]


def test_a_restarted_member_comes_back_with_the_watermark_of_its_offset(make: Make) -> None:
    """AL-19: a restarted member publishes the watermark of its offset. It is the same member in another run, so its
    last entry from before the restart does not count beside the new one.
    """
    slow, fast = make({"a": [100, 104]}), make({"b": [500]})
    assert [step(slow), step(slow), step(fast)] == [[], [100, 104], []]
    kill(slow)
    slow.restart()
    assert step(slow) is None
    assert member_of(slow).entry.watermark == 103
    step(fast)
    assert member_of(fast).floor() == 103
    assert len(member_of(fast).view.members) == 2


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_restarted_member_keeps_its_watermark_until_it_publishes(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forgotten: bool
) -> None:
    """I3: a restarted member keeps its watermark while the leader of one of its splits is silent, even if its last
    entry is lost with the table.
    """
    monkeypatch.setattr(group_log, "ALL_RENEWED_S", 0.0)
    slow, fast = make({"a": [100], "b": []}), make({"c": [500]})
    assert [step(slow), step(slow), step(fast)] == [[], [100], []]
    slow.world.silent.add("b")
    kill(slow)
    if is_forgotten:
        shutil.rmtree(tmp_path / "table")
    slow.restart()
    assert step(slow) is None
    assert member_of(slow).entry.watermark == 99
    for _ in range(3):
        beat(slow)
        listen(fast, TIMEOUT // 2)
        assert step(fast) is None
    assert member_of(fast).floor() == 99


@pytest.mark.parametrize("leaves", [True, False])
def test_a_deleted_table_is_not_taken_for_the_whole_group(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    """I3: after the table was deleted, a restarted and a new member wait until the others have written to it again.

    The other member is in a long batch, and only its heartbeat writes.
    """
    monkeypatch.setattr(group_log, "ALL_RENEWED_S", 3.0)
    slow, fast, new = make({"a": [100]}), make({"b": [100, 500]}), make({"c": [500]})
    assert [step(slow), step(fast), step(slow), step(fast)] == [[], [], [100], [100]]
    if not leaves:
        kill(fast)
    delete(tmp_path / "table")
    fast.restart()
    sign_of_life = threading.Timer(1.0, beat, [slow])
    sign_of_life.start()
    assert [step(fast), step(new), step(fast), step(new)] == [None, [], None, None]
    sign_of_life.join()
    assert [member_of(query).floor() for query in (fast, new)] == [99, 99]


def test_a_fresh_group_and_a_restart_in_it_wait_for_nobody(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = make({"a": [100, 105]}, ReadLimits(max_rows=1)), make({"b": [100]})
    assert [step(one), step(one), step(two), step(two)] == [[], [100], [], [100]]
    kill(one)
    one.restart()
    late = make({"c": [100]})
    assert [step(one), step(one), step(late), step(late)] == [[], [105], [], [100]]
    assert [member_of(query)._log.complete_at is None for query in (one, two, late)] == [False] * 3
    assert [caplog.messages, member_of(late).complete_in_s] == [[], 0.0]


def test_a_member_that_left_has_its_watermark_when_it_comes_back(make: Make) -> None:
    """I3: a member that left its group comes back with the watermark that it had. Its offset alone tells only what
    was read, and the next record of "b" is much later.
    """
    slow = make({"a": [100, 200, 300], "b": [100, 500]}, ReadLimits(max_rows=3))
    assert [step(slow), step(slow), step(slow)] == [[], [100, 200, 100], [300]]
    assert member_of(slow).entry.watermark == 299
    slow.coordinator.close()
    slow.source.enumerator = LateEnumerator
    slow.restart()
    assert step(slow) is None
    assert member_of(slow).entry.watermark == 299


def test_a_member_that_repeats_a_batch_keeps_its_watermark(make: Make) -> None:
    """I3: a restarted member that runs a batch again keeps its watermark. Spark asks it for the tasks of the batch
    that was not committed, and for a plan only after that.
    """
    slow, fast = make({"a": [*range(100, 200, 10)]}, ReadLimits(max_rows=1)), make({"c": [500]})
    assert [step(slow), step(slow), step(fast)] == [[], [100], []]
    start, end = slow.offset, slow.coordinator.latest_offset(slow.offset, 1)
    kill(slow)
    slow.restart()
    assert slow.run(start, end) == [("a", 110)]
    for _ in range(3):
        beat(slow)
        listen(fast, TIMEOUT // 2)
        assert step(fast) is None
    slow.offset = end
    assert [step(slow), step(slow)] == [[], [120]], "it is the same run as before"


def test_a_restarted_member_has_its_watermark_once_it_can_read_the_table(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: a restarted member that could not read the table keeps its last watermark once it can. No plan gives a
    watermark because a leader is silent, and the offset gives no watermark because nothing was read.
    """
    slow, fast = make({"a": [100]}), make({"c": [500]})
    assert [step(slow), step(fast)] == [[], []]
    slow.world.silent.add("a")
    kill(slow)
    news, failures = GroupLog.new_entries, [1]

    def fails_once(log: GroupLog) -> list[tuple[int, Entry]]:
        return unreachable(log) if failures and failures.pop() else news(log)

    monkeypatch.setattr(GroupLog, "new_entries", fails_once)
    slow.restart()
    assert [step(slow), failures] == [None, []]
    for _ in range(3):
        beat(slow)
        listen(fast, TIMEOUT // 2)
        assert step(fast) is None
    assert member_of(fast).floor() == 99


def test_a_restarted_member_without_a_split_keeps_its_watermark(make: Make) -> None:
    """I3: a restarted member keeps its watermark while its enumerator has not found a split."""
    slow, fast = make({"a": [100]}), make({"c": [500]})
    assert [step(slow), step(slow), step(fast)] == [[], [100], []]
    kill(slow)
    slow.source.enumerator = LateEnumerator
    slow.restart()
    for _ in range(2):
        assert step(slow) is None
        beat(slow)
        listen(fast, TIMEOUT // 2)
        assert step(fast) is None
    assert member_of(fast).floor() == 99


class LateEnumerator(MemoryEnumerator):
    """An enumerator that drops the splits that it was restored with, and finds no others."""

    def start(self) -> None:
        self.context.retire_splits(list(self.world.logs))


def test_a_member_that_may_run_unaligned_holds_nobody_once_it_does(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I11: a member that begins to run unaligned holds no other member back. Otherwise its last aligned watermark
    would count for ever, since its heartbeats go on.
    """
    allowed = {"allow_unaligned": "true"}
    slow = make({"a": [*range(100, 200, 10)]}, ReadLimits(max_rows=1), LogEnumerator, **allowed)
    fast = make({"b": [500]})
    assert [step(slow), step(fast), step(slow)] == [[], [], [100]]
    several(slow)
    assert [step(fast), member_of(slow).entry.watermark is None] == [None, False]
    monkeypatch.setattr(Readers, "reporting", lambda self: Reporting("this driver cannot listen"))
    assert step(slow) != []
    assert step(fast) == [500]


def test_al_09_a_query_that_was_never_asked_for_a_plan_is_no_member(make: Make) -> None:
    """A process that was never asked for a plan is no member of the group, even if it was asked for everything else.
    Spark leaves such a process behind when a query fails to start.
    """
    leaked, fast = make({"a": [100]}), make({"b": [500]})
    leaked.coordinator.prepare_available_now()
    leaked.coordinator.report_latest_offset()
    assert [step(fast), step(fast)] == [[], [500]]
    assert set(member_of(fast).view.members) == {member_of(fast).entry.key}


def test_a_table_that_cannot_be_read_keeps_the_last_minimum(
    make: Make, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 7: while the table cannot be read, queries go on with the last least watermark of the others. The failure
    is logged once.
    """
    slow, fast = make({"a": [100]}), make({"b": [100, 500]})
    assert [step(slow), step(fast), step(slow), step(fast)] == [[], [], [100], [100]]

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(GroupLog, "new_entries", unreachable)
        listen(fast, 10 * TIMEOUT)
        fast.world.logs["b"][1:] = [105, 500]
        assert [step(fast), step(fast), step(fast)] == [[105], None, None]
    assert caplog.messages == ["The store is down. Meanwhile the last known state of the group is used."]
    assert step(fast) is None, "I3: it answers, but there was no time for a sign of the other"
    listen(fast, TIMEOUT + 1)
    assert step(fast) == [500]


def test_a_run_that_has_not_read_its_group_once_reads_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I3: a query that was killed and is started again while the table cannot be read reads nothing.

    It must not assume that it is alone in the group.
    """
    slow, fast = make({"a": [100]}), make({"b": [100, 500]})
    assert [step(slow), step(fast), step(slow), step(fast)] == [[], [], [100], [100]]
    news, looks = GroupLog.new_entries, []

    def down(log: GroupLog) -> list[tuple[int, Entry]]:
        looks.append(log)
        raise AlignmentError("The store is down")

    def down_at_first(log: GroupLog) -> list[tuple[int, Entry]]:
        return down(log) if len(looks) < 3 else news(log)

    kill(fast)
    fast.restart()
    with monkeypatch.context() as patched:
        patched.setattr(GroupLog, "new_entries", down_at_first)
        assert [step(fast), step(fast)] == [None, None]
    assert (len(looks), member_of(fast).floor()) == (3, 99)

    fast.restart()
    monkeypatch.setattr(GroupLog, "new_entries", down)
    monkeypatch.setattr(group_planner, "_FIRST_LOOK_S", 0.3)
    with pytest.raises(
        AlignmentError, match=r"Group '.*' could not be read .*: The store is down\. Nothing is lost"
    ):
        step(fast)


def test_a_table_that_nobody_can_write_keeps_the_last_minimum(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 7, I3: while the table cannot be written, all members go on with the last least watermark. No member
    considers another one dead, however long the outage is.
    """
    slow, fast = make({"a": [100, 104]}), make({"b": [100, 500]})
    assert [step(slow), step(fast), step(slow), step(fast)] == [[], [], [100, 104], [100]]

    def read_only(*_: object) -> int:
        raise AlignmentError("The store is read-only")

    with monkeypatch.context() as patched:
        patched.setattr(SplitWatermarkTable, "note", read_only)
        for _ in range(12):
            for query in (slow, fast):
                query.clock.advance(TIMEOUT // 4)
                beat(query)
        fast.world.logs["b"][1:] = [110, 500]
        assert [step(fast), step(fast), step(slow)] == [[110], None, None]
        assert (member_of(fast).floor(), member_of(slow).floor()) == (99, 99)
    for query in (slow, fast):
        beat(query)
    listen(fast, TIMEOUT + 1)
    assert step(fast) == [500], "it can be heard again, and says nothing: only its entry of now counts"
