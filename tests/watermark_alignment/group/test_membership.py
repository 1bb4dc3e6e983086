"""Tests of the thread that keeps a member in its group. The table is in memory, and can be slow, fail or hang."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from flip27_stream.testing import ManualClock, wait_until
from tests.watermark_alignment.support.board import Board, BoardLog
from tests.watermark_alignment.support.group_entries import TIMEOUT, entry
from watermark_alignment.group import membership, own_entry
from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.membership import Membership

Join = Callable[..., Membership]
OWN_TIMEOUT = 60_000


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board()
    board.answers.set()
    yield board
    board.answers.set()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(5000)


@pytest.fixture
def join(board: Board, clock: ManualClock) -> Iterator[Join]:
    members: list[Membership] = []

    def join(
        source: str, timeout_ms: int = OWN_TIMEOUT, on_commit: Callable[[int], None] = lambda version: None
    ) -> Membership:
        members.append(Membership(BoardLog(board), entry(source, timeout_ms=timeout_ms), clock, on_commit))
        return members[-1]

    yield join
    board.answers.set()
    for member in members:
        member.leave()


def test_an_entry_is_in_the_table_when_announce_returns(join: Join, board: Board) -> None:
    """An entry is in the table when ``announce`` returns, and so before ``latestOffset`` returns (rule 7)."""
    one, two = join("one"), join("two")
    two.look()
    assert two.floor() is None
    one.announce(17)
    assert [e.watermark for e in board.entries] == [17]
    assert two.floor() is None, "two has not looked since"
    two.look()
    assert two.floor() == 17
    assert two.slowest() == board.entries[0]


def test_an_unchanged_entry_is_not_published_again(join: Join, board: Board) -> None:
    commits: list[int] = []
    one = join("one", on_commit=commits.append)
    for watermark in (None, None, 17, 17, None, 17):
        one.announce(watermark)
    assert [e.watermark for e in board.entries] == [None, 17, None, 17]
    assert [e.beat for e in board.entries] == [1, 2, 3, 4]
    assert commits == [0, 1, 2, 3]
    for _ in range(2):
        one.announce(17, waiting=2, held_by="split")
    assert [(e.waiting, e.held_by) for e in board.entries[3:]] == [(0, None), (2, "split")]


def test_an_entry_is_published_if_other_splits_wait(join: Join, board: Board) -> None:
    """Their number and what they wait for can be the same. A plan that says the same again publishes nothing."""
    one = join("one")
    said = [(("a",), False), (("b",), False), (("b",), True)]
    for waits in said:
        for _ in range(2):
            one.announce(17, waiting=1, held_by="split", waits=waits)
    assert [(e.waits, e.waits_all_but) for e in board.entries] == said
    assert [e.beat for e in board.entries] == [1, 2, 3]


def test_a_source_that_only_reads_the_log_is_no_member(join: Join, board: Board) -> None:
    one = join("one", timeout_ms=400)
    one.look()
    one.leave()
    assert board.entries == []
    assert one.age_ms() == 0


def test_a_member_is_renewed_whatever_its_query_does(join: Join, board: Board) -> None:
    """An entry is renewed without any call from the query, since a batch may take hours and a trigger may wait as
    long.
    """
    one = join("one", timeout_ms=400)
    one.announce(17, waiting=2, held_by="split")
    wait_until(lambda: len(board.entries) > 3, "three beats", 30)
    assert {(e.watermark, e.waiting, e.held_by) for e in board.entries} == {(17, 2, "split")}
    one.leave()
    count = len(board.entries)
    assert board.entries[-1].left
    one.announce(18)
    one.look()
    assert len(board.entries) == count


def beat(member: Membership) -> None:
    """Makes the member renew its entry at its next look."""
    member._own.beat_at = 0.0


def listen(member: Membership, clock: ManualClock, ms: int) -> None:
    """Makes the member read the group for ``ms`` milliseconds of the clock, as often as it renews its entry."""
    beat_ms = int(1000 * member._own.beat_s)
    for gone in range(0, ms, beat_ms):
        clock.advance(min(beat_ms, ms - gone))
        member.look()


def test_the_age_of_others_is_counted_from_when_they_were_seen_to_change(
    join: Join, board: Board, clock: ManualClock
) -> None:
    """A member measures the age of an entry by its own clock, from when it saw the entry change.

    Reads that renew its own entry count too.
    """
    one = join("one", timeout_ms=1000)
    board.entries.append(entry("other", 17))
    one.look()
    listen(one, clock, TIMEOUT)
    assert one.floor() == 17
    clock.advance(1)
    assert one.floor() == 17, "nothing is judged by what was read before"
    one.look()
    assert one.floor() is None
    board.entries.append(entry("other", 17, beat=1))
    one.look()
    assert one.floor() == 17


def test_entries_stay_valid_while_the_table_is_down(
    join: Join, board: Board, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """While the table is down, the entries that were read stay valid.

    An entry that could not be published is published once the table is back (rule 7).
    """
    one = join("one")
    board.entries.append(entry("other", 17))
    one.look()
    board.is_down = True
    listen(one, clock, 2 * OWN_TIMEOUT)
    one.announce(5)
    one.look()
    assert one.floor() == 17
    assert board.says("one") == []
    assert caplog.messages == ["The store is down. Meanwhile the last known state of the group is used."]
    board.is_down = False
    one.look()
    assert [e.watermark for e in board.says("one")] == [5]
    assert one.floor() == 17, "it could not be heard, which does not make it dead"
    listen(one, clock, OWN_TIMEOUT + 1)
    assert one.floor() is None


def test_time_in_which_a_member_cannot_read_makes_nobody_dead(
    join: Join, board: Board, clock: ManualClock
) -> None:
    """Time in which a member reads no entries makes no other member count as dead (I3): one look may take long, or
    its process may stand still with all others.
    """
    one = join("one")
    board.entries.append(entry("other", 17))
    one.look()
    board.answers.clear()
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(one.look)
        wait_until(lambda: one._asked == 2, "the look to begin", 30)
        clock.advance(2 * OWN_TIMEOUT)
        board.answers.set()
        slow.result(30)
    assert one.age_ms() == 0
    assert one.floor() == 17


def test_members_stay_alive_while_nobody_can_write(
    join: Join, board: Board, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Two members that cannot write, and so read nothing of each other, do not count each other as dead (I3)."""
    one, two = join("one"), join("two")
    one.announce(5)
    two.announce(17)
    one.look()
    board.is_read_only = True
    two.announce(18)
    for _ in range(20):
        clock.advance(OWN_TIMEOUT // 4)
        for member in (one, two):
            beat(member)
            member.look()
    assert (one.floor(), two.floor()) == (17, 5)
    assert set(caplog.messages) == {
        "The store is read-only. Meanwhile the other members get no news of this source."
    }
    board.is_read_only = False
    for member in (one, two, one):
        member.look()
    assert (one.floor(), two.floor()) == (18, 5)
    listen(one, clock, OWN_TIMEOUT + 1)
    assert one.floor() is None, "two says nothing more"


def test_a_member_that_alone_cannot_write_sees_others_die(
    join: Join, board: Board, clock: ManualClock
) -> None:
    """A member that alone cannot write still finds that another one has died: entries of a third member show that the
    table is not at fault (I11).
    """
    one = join("one")
    board.entries += [entry("dead", 17), entry("other", 30)]
    board.is_read_only = True
    one.announce(5)
    assert one.floor() == 17
    for n in range(5):
        assert one.floor() == 17
        board.entries.append(entry("other", 31 + n, beat=n))
        listen(one, clock, OWN_TIMEOUT // 4)
    assert one.floor() == 35
    board.is_read_only = False
    one.look()
    assert [e.watermark for e in board.says("one")] == [5]


def test_a_former_run_that_is_seen_late_is_no_successor(join: Join, board: Board) -> None:
    """A former run whose clock was ahead, and which was not seen when this run joined, is no successor.

    The table could not be read then, and this run still counts as the later one.
    """
    board.entries.append(replace(entry("one", 40), run="0", began=10**15))
    one, two = join("one"), join("two")
    two.look()
    board.is_deaf = True
    one.announce(30)
    board.is_deaf = False
    one.look()
    assert one.successor() is None
    wait_until(lambda: board.entries[-1].began == 10**15 + 1, "this run to follow the former one", 30)
    one.look()
    two.look()
    assert (one.successor(), two.floor()) == (None, 30)
    later = replace(entry("one", 35), run="2", began=10**15 + 2)
    board.entries += [later, replace(later, progress=1)]
    one.look()
    assert one.successor() == board.entries[-1]


def test_a_log_that_grew_for_long_delays_no_renewal(join: Join, board: Board, clock: ManualClock) -> None:
    """A long log is read in parts, and the member renews its own entry between them.

    The floor is known when all parts are read.
    """
    one = join("one", timeout_ms=1000)
    one.announce(5)
    board.entries += [entry("other", n) for n in range(40)]
    board.most_at_once = 2
    log = one._log
    parts: list[int] = []
    news = log.new_entries

    def slow() -> list[tuple[int, Entry]]:
        parts.append(len(board.says("one")))
        time.sleep(0.05)
        return news()

    log.new_entries = slow  # type: ignore[method-assign]
    one.look()
    assert not log.is_behind
    assert one.floor() == 39
    assert len(parts) >= 20
    assert parts[-1] > parts[0] + 1


def test_entries_are_renewed_as_often_as_new_members_expect(join: Join) -> None:
    """A member that may be silent for an hour renews its entry at least every ``LONGEST_BEAT_S``.

    A new member reads only the entries of the last minute, and finds it (I3).
    """
    assert join("one", timeout_ms=3_600_000)._own.beat_s == own_entry.LONGEST_BEAT_S
    assert join("two", timeout_ms=1000)._own.beat_s == 0.25


def test_a_table_that_does_not_answer_holds_a_plan_up_once(
    join: Join, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "_TIME_LIMIT_S", 0.05)
    waits: list[float | None] = []
    wait_for = threading.Condition.wait_for

    def watched(changed: threading.Condition, *args: object) -> bool:
        if threading.current_thread() is threading.main_thread():
            waits.append(args[1])  # type: ignore[arg-type]
        return wait_for(changed, *args)  # type: ignore[arg-type]

    one = join("one")
    board.answers.clear()
    monkeypatch.setattr(threading.Condition, "wait_for", watched)
    one.look()
    one.look()
    assert waits == [0.05, 0.05], "who never saw its group would not know whom it passes"
    board.answers.set()
    wait_until(lambda: one.age_ms() is not None, "the group to be seen", 60)
    one.look()
    wait_until(lambda: one._done >= one._asked, "the end of its access to the table", 60)
    board.answers.clear()
    waits.clear()
    for watermark in (1, 2, 3):
        one.announce(watermark)
        one.look()
    assert waits == [0.05, 0, 0, 0, 0, 0]
    board.answers.set()
    wait_until(lambda: board.says("one")[-1:] == [one.entry], "the newest to be told", 60)
    wait_until(lambda: one._done >= one._asked, "the end of its access to the table", 60)
    one.announce(4)
    assert waits[6:] == [0.05]
    wait_until(lambda: board.entries[-1].watermark == 4, "the entry", 60)


def test_leaving_takes_bounded_time(join: Join, board: Board) -> None:
    one = join("one")
    one.announce(17)
    board.answers.clear()
    one.leave(timeout_s=0.05)
    one.leave(timeout_s=0.05)
    assert not board.entries[-1].left
    board.answers.set()
    wait_until(lambda: board.entries[-1].left, "the good-bye", 30)


def test_a_process_whose_spark_has_ended_stops_renewing_its_entry(
    join: Join, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose parent, the JVM, has died stops renewing its entry and does not leave the group (AL-20).

    Its query was not stopped, so data that it has not read holds the others until its restart, for ``source-timeout``
    at most.
    """
    one = join("one", timeout_ms=400)
    one.announce(17)
    monkeypatch.setattr(os, "getppid", lambda: 0)
    assert one._thread is not None
    one._thread.join(30)
    assert not one._thread.is_alive()
    told = len(board.entries)
    one.leave()
    assert board.entries[-1].watermark == 17
    assert not board.entries[-1].left
    assert len(board.entries) == told


def test_a_restarted_member_begins_after_its_last_run_by_whatever_clock(join: Join, board: Board) -> None:
    board.entries.append(replace(entry("one", 40), run="0", began=10**15))
    one, two = join("one"), join("two")
    one.look()
    one.announce(30)
    two.look()
    assert two.floor() == 30
    assert one.successor() is None
