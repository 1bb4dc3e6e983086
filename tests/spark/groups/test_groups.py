"""What members of a group publish and read, and how far each of them may read because of it (rule 7). No JVM."""

from __future__ import annotations

import itertools

import pytest

from flip27_stream.api import ReadLimits
from flip27_stream.spark.planning.idle_backoff import IdleBackoff
from flip27_stream.testing import wait_until
from tests.spark.support.members import Make, held_by, member_of, step
from tests.spark.support.sources.backlog_source import BacklogEnumerator
from tests.spark.support.sources.memory_source import LogEnumerator
from tests.support.module_time import replace_time
from watermark_alignment.group.membership import Membership
from watermark_alignment.planner import BACKLOG, GROUP


def test_the_first_plan_of_a_run_only_announces_it(make: Make) -> None:
    """Rule 7: the first plan of a run only announces the run, so that no source of a query passes another one that
    has not been asked yet.
    """
    early, late = make({"a": [100, 105, 200]}), make({"b": [500]})
    assert step(late) == []
    assert step(early) == []
    assert step(late) is None
    assert step(early) == [100, 105, 200]


def test_trigger_once_reads_in_its_one_batch(make: Make) -> None:
    query = make({"a": [100]})
    assert query.batch() == [("a", 100)]


def test_a_run_with_nothing_to_read_announces_itself_without_a_batch(make: Make) -> None:
    query = make({"a": [100]})
    assert [step(query), step(query)] == [[], [100]]
    query.restart()
    assert step(query) is None
    query.world.logs["a"].append(101)
    assert step(query) == [101]


def test_members_of_a_group_wait_for_each_other(make: Make) -> None:
    """I3, AL-12, AL-15: each member is read up to max-drift after the front of the other one. A member publishes the
    front that it had before its last batch.
    """
    one, two = make({"a": [100, 130, 160]}), make({"b": [105, 128, 150]})
    assert [step(one), step(two)] == [[], []]
    rounds = [(step(one), step(two)) for _ in range(4)]
    assert rounds == [([100], [105]), (None, [128]), ([130], None), ([160], [150])]


def test_members_that_hold_each_other_do_not_wait_for_their_least_rows(make: Make) -> None:
    """SK-06, I11: within max-drift there are fewer rows than ``minOffsetsPerTrigger``, and each member waits for the
    other. They would advance by max-drift in each ``maxTriggerDelay``. The last row, which no member holds, waits.
    """
    limits = ReadLimits(min_rows=3)
    one = make({"a": [100, 120, 140, 160], "ahead": [900]}, limits)
    two = make({"b": [105, 125, 145, 165], "ahead": [900]}, limits)
    read = [time for _ in range(10) for query in (one, two) for time in step(query) or []]
    assert sorted(time for time in read if time is not None) == [100, 105, 120, 125, 140, 145, 165]
    one.clock.advance(limits.max_trigger_delay_ms)
    assert step(one) == [160]


def test_max_drift_across_members_holds_at_its_boundary(make: Make) -> None:
    """Rule 2: a record at front + max-drift of the other member is read, and a record 1 ms later is not. This holds
    with an out-of-orderness, too.
    """
    slow = make({"a": [100]}, out_of_orderness="5 ms")
    fast = make({"b": [100, 110, 111]}, out_of_orderness="5 ms")
    assert [step(slow), step(fast), step(slow), step(fast)] == [[], [], [100], [100, 110]]
    assert step(fast) is None


def test_drift_is_that_from_the_slowest_of_the_group(make: Make) -> None:
    """I3: the recorded drift of a member is measured from the slowest member of the group, also when a member that is
    further behind has come.
    """
    fast = make({"b": [500, 501]})
    assert [step(fast), step(fast)] == [[], [500, 501]]
    slow = make({"a": [100]})
    assert step(slow) == []
    fast.clock.advance(1001)
    fast.world.logs["b"] += [502]
    assert step(fast) is None
    wait_until(lambda: bool([r for r in fast.rows() if r["batch"] == 1]), "the batch to be recorded", 30)
    assert [r["drift_ms"] for r in fast.rows() if r["batch"] == 1] == [401]


def test_short_runs_find_a_split_idle_that_only_holds_another_member_back(make: Make) -> None:
    """Rule 9: no split of its own source waits for it. Its last batch did not know that it was at the end of its log,
    as with Kinesis, so one empty batch takes the moment into the offset.
    """
    silent, ahead = make({"a": [100]}), make({"b": [100, 500]})
    silent.world.undrained.add("a")
    assert [step(silent), step(ahead), step(silent), step(ahead)] == [[], [], [100], [100]]
    silent.world.undrained.clear()
    read: list[list[int | None]] = []
    for _ in range(5):
        for query in (silent, ahead):
            query.restart()
        for _ in range(3):
            read += [rows for query in (silent, ahead) if (rows := step(query)) is not None]
        silent.clock.advance(400)
    assert read == [[], [], [500]]


def test_each_member_adds_its_own_drift(make: Make) -> None:
    """AL-13: each member may read up to its own max-drift after the front of the slowest member."""
    slow = make({"a": [100]})
    fast = make({"b": [*range(100, 200)]}, max_drift="20 ms")
    assert [step(slow), step(fast), step(slow)] == [[], [], [100]]
    assert step(fast) == [*range(100, 121)]


def test_groups_of_one_table_do_not_see_each_other(make: Make) -> None:
    """AL-06: groups in one table do not hold each other back."""
    slow, other = make({"a": [100]}), make({"b": [5000]}, group="another")
    assert [step(slow), step(other)] == [[], []]
    assert step(other) == [5000]


def test_the_group_is_named_where_it_binds_and_the_backlog_where_that_does(make: Make) -> None:
    """I5, I11: a plan says that the group holds it back, or that its own backlog does."""
    slow = make({"a": [100]})
    files = make({"b": [100, 150], "c": [120]}, ReadLimits(max_files=1), BacklogEnumerator)
    step(slow)
    holders = held_by(files)
    assert [step(files), step(files)] == [[], [100]]
    assert step(files) is None
    assert holders[-1] == GROUP
    slow.world.logs["a"] += [200]
    assert step(slow) == [100]
    slow.world.logs["a"] += [300]
    step(slow)
    step(slow)
    assert step(files) is None
    assert holders[-1] == BACKLOG


@pytest.mark.parametrize("name", ["group", "backlog"])
def test_a_split_may_have_the_name_of_the_group_or_the_backlog(make: Make, name: str) -> None:
    """I11: a split may be named "group" or "backlog". A member that such a split of its own holds back does not wait
    for other members.
    """
    alone = make({"other": [100, 500], name: [100]}, ReadLimits(max_rows=10))
    holders = held_by(alone)
    assert [step(alone), step(alone), step(alone)] == [[], [100, 100], None]
    assert holders[-1] == name
    assert name not in (GROUP, BACKLOG)


def test_a_source_paused_by_reports_waits_for_the_group(make: Make) -> None:
    """Rule 2: a source whose splits are paused by reports waits for its group, too."""
    slow = make({"a": [100]})
    fast = make({"b": [*range(100, 200, 5)]}, ReadLimits(max_rows=3), LogEnumerator)
    holders = held_by(fast)
    assert [step(slow), step(fast), step(slow)] == [[], [], [100]]
    assert [step(fast), step(fast)] == [[100, 105, 110], [115, 120, 125]]
    assert step(fast) is None
    assert holders[-1] == GROUP


def test_the_group_is_read_once_in_an_interval_unless_it_holds(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 7: the watermarks are at most update-interval old, and are read again before another member holds a plan
    back.
    """
    looks: list[Membership] = []
    look = Membership.look

    def counted(member: Membership) -> None:
        looks.append(member)
        look(member)

    monkeypatch.setattr(Membership, "look", counted)
    slow, fast = make({"a": [100]}), make({"b": [100, 105]}, update_interval="1 s")
    for query in (slow, fast, slow, fast):
        step(query)
    looks.clear()
    fast.world.logs["b"] += [106]
    assert step(fast) == [106]
    assert looks == []
    fast.clock.advance(1001)
    fast.world.logs["b"] += [107]
    assert step(fast) == [107]
    assert looks == [member_of(fast)]
    looks.clear()
    slow.world.logs["a"] += [120]
    step(slow)
    step(slow)
    looks.clear()
    fast.world.logs["b"] += [125]
    assert step(fast) == [125], "what was last read would have held it"
    assert looks == [member_of(fast)]


def test_a_held_source_does_not_delay_the_other_sources_of_its_query(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that the group holds back does not delay the other source of its query, which Spark asks after it in
    every batch. It makes a plan each time while the other source moves, and fewer plans after that.
    """
    rests: list[float] = []

    costly = itertools.count().__next__  # each plan costs a second
    replace_time(monkeypatch, "flip27_stream.spark.planning.coordinator", process_time=costly)
    slow, fast = make({"a": [*range(0, 100, 10)]}, ReadLimits(max_rows=1)), make({"b": [1000]})
    pace = IdleBackoff(1.0)
    record_empty_plan = pace.record_empty_plan

    def watched(cost_s: float, *, comes_soon: bool) -> None:
        record_empty_plan(cost_s, comes_soon=comes_soon)
        rests.append(pace._plan_pause_s)

    monkeypatch.setattr(pace, "record_empty_plan", watched)
    fast.coordinator._backoff = pace
    for query in (slow, fast):
        step(query)
    for time_of_slow in range(0, 100, 10):
        fast.coordinator.committed(fast.offset)
        assert step(fast) is None
        assert step(slow) == [time_of_slow]
    assert set(rests[2:]) == {0.005}  # in the first two plans the other member has not moved yet
    rests.clear()
    for _ in range(20):
        fast.coordinator.committed(fast.offset)
        assert step(fast) is None
    assert max(rests) > 0.005
