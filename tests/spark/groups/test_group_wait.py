"""How long an AvailableNow run waits for a member of its group, by the entries of the member that it reads. No JVM,
no clock.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream.spark.planning.group.group_wait import GroupWait
from tests.watermark_alignment.support.group_entries import entry

TIMEOUT_MS = 1000


@pytest.fixture
def wait() -> GroupWait:
    options: Any = SimpleNamespace(source_timeout_ms=TIMEOUT_MS, update_interval_ms=10)
    return GroupWait(options, monotonic=lambda: 0.0)


def test_a_member_without_new_entries_is_not_given_up(wait: GroupWait) -> None:
    """A member from which no entry comes is not given up, because it may have a longer source timeout and be unable
    to write. When an entry comes again, the whole time counts.
    """
    silent = entry("slow", 5, progress=1)
    for readable_ms in range(0, 10 * TIMEOUT_MS, 100):
        assert not wait.gives_up(silent, 7, readable_ms, readable_ms)
    assert wait.gives_up(silent.again(), 7, 10 * TIMEOUT_MS, 10 * TIMEOUT_MS)
    assert not wait.counts(silent)
    assert wait.counts(entry("slow", 5, progress=2))
    assert wait.counts(entry("other", 1))


def test_only_time_inside_one_plan_counts(wait: GroupWait) -> None:
    slow, half = entry("slow", 5), TIMEOUT_MS // 2
    for batch in range(50):
        assert not wait.gives_up(slow.again(), batch, 2 * batch * TIMEOUT_MS, 2 * batch * TIMEOUT_MS)
    begin = 98 * TIMEOUT_MS
    for waited in (half, 2 * half):
        assert not wait.gives_up(slow, 49, begin + waited, begin + waited)
    assert wait.gives_up(slow.again(), 49, begin + TIMEOUT_MS + 1, begin + TIMEOUT_MS + 1)


def test_time_in_which_the_group_cannot_be_read_does_not_count(wait: GroupWait) -> None:
    slow, half = entry("slow", 5), TIMEOUT_MS // 2
    assert not wait.gives_up(slow, 7, 0, 0)
    for passed in range(half, 10 * TIMEOUT_MS, half):
        assert not wait.gives_up(slow, 7, passed, None)
    assert not wait.gives_up(slow.again(), 7, 10 * TIMEOUT_MS, 10 * TIMEOUT_MS)


def test_a_wait_without_reading_the_group_does_not_count_after_a_batch(wait: GroupWait) -> None:
    """A wait during which the group could not be read does not count, even if the group is read again during a later
    batch that takes an hour.
    """
    slow = entry("slow", 5)
    for waited in range(0, 10 * TIMEOUT_MS, 100):
        assert not wait.gives_up(slow, waited // TIMEOUT_MS, waited, 0)
    assert not wait.gives_up(slow.again(), 11, 3_600_000, 3_600_000)


def test_looks_that_take_longer_than_a_plan_count(wait: GroupWait) -> None:
    """Time counts although each look at the group takes longer than a plan, such as 6 s. No such look ends within the
    plan that waits for it.
    """
    slow, given_up = entry("slow", 5), False
    for turn in range(1, 40):
        now, heard_until = turn * TIMEOUT_MS // 10, turn // 5 * TIMEOUT_MS // 2
        slow = slow.again() if turn % 5 == 0 else slow
        given_up = wait.gives_up(slow, 7 + turn // 4, now, heard_until) or given_up
        assert not given_up or now > TIMEOUT_MS
    assert given_up


def test_progress_begins_the_wait_anew(wait: GroupWait) -> None:
    now = 0
    for progress in range(20):
        slow = entry("slow", 5, progress=progress)
        assert not wait.gives_up(slow, 7, now, now)
        for _ in range(2):
            now += TIMEOUT_MS // 2
            slow = slow.again()
            assert not wait.gives_up(slow, 7, now, now)


def test_the_wait_for_one_goes_on_after_another_held_the_run(wait: GroupWait) -> None:
    """The wait for a member goes on after another member has held the run back for a while. So other members cannot
    make the run wait for ever.
    """
    slow, passing = entry("slow", 5), entry("passing", 1)
    now, given_up = 0, False
    for turn in range(5):
        for told in (slow, slow.again(), passing):
            given_up = wait.gives_up(told, turn, now, now) or given_up
            now += TIMEOUT_MS // 4
    assert given_up


@pytest.mark.parametrize("update_interval_ms", [1, 10_000])
def test_an_answer_is_held_back_for_some_time_even_with_a_short_update_interval(
    update_interval_ms: int,
) -> None:
    """A plan without progress of the awaited member holds its answer back for at least 50 ms, even with a short
    update interval. Otherwise no time would count, and the run would make empty batches for ever.
    """
    options: Any = SimpleNamespace(source_timeout_ms=TIMEOUT_MS, update_interval_ms=update_interval_ms)
    now = [0.0]
    wait = GroupWait(options, monotonic=lambda: now[0])
    slow = entry("slow", 5)
    assert wait.is_enough(0, slow, 1), "it has moved"
    assert not wait.is_enough(1, slow, 1)
    now[0] = 0.05
    assert wait.is_enough(1, slow, 1)
    assert wait.is_enough(2, entry("slow", 6), 2)


def test_a_tenth_of_the_time_counts_while_only_other_members_move(wait: GroupWait) -> None:
    """I11: while only other members move, about a tenth of the time counts for the wait. A member that never stands
    still must not keep a run waiting for another one for ever.
    """
    options: Any = SimpleNamespace(source_timeout_ms=60_000, update_interval_ms=1000)
    now, waited = 0.0, 0.0
    wait = GroupWait(options, monotonic=lambda: now)
    slow = entry("slow", 5)
    for batch in range(100):
        began = now
        while not wait.is_enough(batch, slow, batch):
            now += 0.01
        waited += now - began
        now += 3.0
    assert 0.08 < waited / now < 0.12
