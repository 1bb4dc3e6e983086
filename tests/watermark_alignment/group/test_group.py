"""Tests of what a member computes from the entries of its group, without a table and without threads."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watermark_alignment.support.group_entries import TIMEOUT, entry, seen
from watermark_alignment.group.group_view import Entry, GroupView, resumed_progress

ME = entry("me", 0)


def floor(view: GroupView, now: int = 0, timeout_ms: int = TIMEOUT) -> int | None:
    return view.floor(ME.key, now, timeout_ms)


def test_al_12_the_floor_is_the_least_watermark_of_the_others() -> None:
    """The floor is the least watermark of the other members, without the own one (AL-12).

    Without other members there is no limit (AL-16).
    """
    assert floor(GroupView()) is None
    assert floor(seen(ME)) is None
    assert floor(seen(ME, entry("a", 30), entry("b", 20))) == 20


def test_al_15_al_17_a_member_without_a_watermark_holds_nobody() -> None:
    """A member without a watermark holds no other member back. Idle and finished members have no watermark, so they
    do not either (AL-02, AO-06). An unknown watermark is ``None`` and not the least number.
    """
    assert floor(seen(entry("a", None), entry("b", 20))) == 20
    assert floor(seen(entry("a", None))) is None


def test_al_03_the_floor_may_fall() -> None:
    view = seen(entry("a", 30), entry("a", None))
    assert floor(view) is None
    assert floor(view.after(9, entry("a", 10), 0)) == 10


def test_wm_16_a_member_that_left_holds_nobody() -> None:
    assert floor(seen(entry("a", 10), entry("a", None, left=True), entry("b", 20))) == 20


@pytest.mark.parametrize(("own", "others"), [(TIMEOUT, 1), (1, TIMEOUT), (TIMEOUT, TIMEOUT)])
def test_al_20_silence_for_longer_than_the_timeout_ends_a_membership(own: int, others: int) -> None:
    """A member is alive up to and including the last millisecond of its timeout.

    Of the timeouts of the reading member and of the member that is read, the longer one counts.
    """
    view = GroupView().after(1, entry("a", 10, timeout_ms=others), 5000)
    assert floor(view, 5000 + TIMEOUT, own) == 10
    assert floor(view, 5000 + TIMEOUT + 1, own) is None


def test_a_member_that_repeats_its_entry_is_alive() -> None:
    view = GroupView().after(1, entry("a", 10), 0).after(2, entry("a", 10, beat=1), 900)
    assert floor(view, 1900) == 10


def test_a_member_that_was_taken_for_dead_counts_again() -> None:
    view = GroupView().after(1, entry("a", 10), 0)
    assert floor(view, 5000) is None
    assert floor(view.after(2, entry("a", 7), 5000), 5000) == 7


def test_dead_members_are_forgotten_and_the_own_entry_is_not() -> None:
    view = seen(ME, entry("a", 10), now=0).after(9, entry("b", 10), 2 * TIMEOUT)
    kept = view.without_expired_members(ME.key, 2 * TIMEOUT, TIMEOUT)
    assert {source for source, _ in kept.members} == {"me", "a", "b"}
    kept = view.without_expired_members(ME.key, 2 * TIMEOUT + 1, TIMEOUT)
    assert {source for source, _ in kept.members} == {"me", "b"}
    assert kept.without_expired_members(ME.key, 2 * TIMEOUT + 1, TIMEOUT) is kept


def test_the_slowest_member_is_named() -> None:
    assert GroupView().slowest(ME.key, 0, TIMEOUT) is None
    named = seen(entry("a", 30), entry("b", 20), ME).slowest(ME.key, 0, TIMEOUT)
    assert named is not None
    assert named.source == "b"


def test_a_later_run_takes_the_place_of_the_one_before() -> None:
    """A later run of a source replaces the one before, in whatever order their entries are read, since an old process
    may still write.
    """
    old, new = entry("a", 50), entry("a", 40, run="0", began=2)
    assert floor(seen(old, new)) == 40
    assert floor(seen(old, new, entry("a", 60, beat=1))) == 40
    assert floor(seen(new, entry("a", None, left=True))) == 40
    assert floor(seen(entry("a", None, left=True), new)) == 40


def test_a_run_that_begins_by_an_earlier_clock_follows_all_the_same() -> None:
    last = entry("a", 50, began=1000)
    new = entry("a", 40, run="2", began=10).succeeding(last)
    assert floor(seen(last, new)) == 40
    assert new.succeeding(None) is new


def test_a_run_whose_clock_was_ahead_keeps_no_place_once_it_is_gone() -> None:
    """A run whose clock was ahead counts until it leaves or its timeout ends.

    From then on the run that followed it by an earlier clock counts (I3).
    """
    ahead, new = entry("a", 50, began=1000), entry("a", 40, run="2", began=10)
    view = seen(ahead, now=0)
    assert floor(view.after(1, new, TIMEOUT), TIMEOUT) == 50
    assert floor(view.after(1, new, TIMEOUT + 1), TIMEOUT + 1) == 40
    assert floor(seen(replace(ahead, left=True), new)) == 40


def test_a_former_run_is_no_successor_whatever_its_clock_says() -> None:
    own = entry("me", 10)
    former = entry("me", 5, run="2", began=2)
    view = GroupView().after(3, former, 0)
    assert view.successor(own, since=4) is None
    assert view.after(5, former, 0).successor(own, since=4) is None, "it lingers"
    assert GroupView().after(5, former, 0).successor(own, since=4) == former


def test_the_former_run_of_a_member_is_found() -> None:
    own, former = entry("me", 10, run="2"), entry("me", 5)
    assert GroupView().former(own) is None
    assert seen(own).former(own) is None
    assert seen(former).former(own) == former


def test_a_run_that_continues_from_an_offset_has_the_mark_of_the_former_run() -> None:
    """A run that continues from an offset has the mark of the run before, whether that left or died, if the offset is
    that of its last batch or of the batch before.
    """
    former = entry("me", 50, progress=7)
    for last in (former, former.leaving()):
        assert [resumed_progress(last, [40, 30], 2, batch) for batch in (7, 6, 5)] == [
            (50, 7),
            (50, 7),
            (27, 5),
        ]
    assert resumed_progress(None, [40, 30], 2, 7) == (27, 7)
    assert resumed_progress(entry("me", None, progress=7).leaving(), [40], 2, 7) == (37, 7), (
        "of an older release"
    )
    assert resumed_progress(entry("me", 50, progress=0), [], 2, None) == (50, 0)


def test_a_member_that_left_keeps_its_mark_and_holds_nobody() -> None:
    gone = entry("a", 10, progress=3).leaving()
    assert (gone.member_progress, floor(seen(gone))) == ((10, 3), None)


def test_an_excluded_member_holds_nobody() -> None:
    """A member that the caller excludes by its mark holds no other member.

    It counts again once its watermark or its progress, and so its mark, is another.
    """
    slow, tied = entry("a", 10, progress=3), entry("a", 10, progress=4)
    assert slow.member_progress != tied.member_progress
    view = seen(slow, entry("b", 20))
    assert view.floor(ME.key, 0, TIMEOUT, lambda e: e.member_progress != slow.member_progress) == 20
    assert (
        view.after(2, tied, 0).floor(ME.key, 0, TIMEOUT, lambda e: e.member_progress != slow.member_progress)
        == 10
    )


def test_an_entry_of_an_earlier_version_tells_no_progress() -> None:
    told = json.loads(entry("a", 17, progress=5).to_text())
    assert Entry.from_text(json.dumps(told)).progress == 5
    del told["progress"]
    assert Entry.from_text(json.dumps(told)) == entry("a", 17)


def test_a_run_knows_that_another_has_taken_its_place() -> None:
    own = entry("me", 10)
    assert seen(own).successor(own) is None
    assert GroupView().successor(own) is None
    later = entry("me", 10, run="2", began=2)
    assert seen(own, later).successor(own) == later
    assert seen(own, later).successor(later) is None
    assert seen(own, later, later.leaving()).successor(own) is None


def test_a_run_that_leaves_without_reading_gives_its_place_back() -> None:
    """The run before it, which may be alive, holds the others again at once, until its own timeout (I3)."""
    first, second = entry("a", 10, progress=4), entry("a", 10, run="2", began=2, progress=4)
    assert floor(seen(first, second, second.leaving())) == 10
    moved = first.next(30, progress=5)
    assert floor(seen(first, second, moved)) == 10
    assert floor(seen(first, second, moved, second.leaving())) == 30
    assert floor(seen(first, second, second.leaving(), now=0), TIMEOUT + 1) is None
    assert (
        floor(seen(first, second, second.next(20, progress=5), second.next(20, progress=5).leaving())) is None
    )
    assert floor(seen(first.leaving(), second, second.leaving())) is None


def test_a_run_that_takes_the_place_of_another_reads_once_its_progress_changes() -> None:
    own, later = entry("me", 10, progress=4), entry("me", 10, run="2", began=2, progress=4)
    moved = replace(later.again(), progress=5)
    assert seen(own, later, later.again()).reading_successor(own) is None
    assert seen(own, later, moved, moved.again()).reading_successor(own) == moved.again()
    assert seen(own, later, moved, moved.leaving()).reading_successor(own) is None


SAME_ID = {"lineage": "other lineage", "definition": "other definition"}


def test_a_duplicate_is_found_by_the_versions_of_one_table() -> None:
    younger = entry("me", 1, **SAME_ID)
    view = GroupView().after(900, ME, 0).in_another_table()
    assert view.after(1, younger, 0).after(2, younger, 0).duplicate(ME) is None, "it is not in this table yet"
    view = view.after(1, younger, 0).after(2, ME, 0)
    assert view.duplicate(ME) is None
    assert view.after(3, younger, 0).duplicate(ME) == younger


def duplicate(*entries: Entry, own: Entry = ME) -> Entry | None:
    return seen(*entries).duplicate(own)


def test_al_14_the_younger_of_two_live_holders_of_an_id_finds_the_older() -> None:
    """Of two live sources with one id, the younger finds the older as its duplicate, and the older does not find the
    younger (AL-14).
    """
    older, again = entry("me", 5, **SAME_ID), entry("me", 6, **SAME_ID)
    assert duplicate(older, ME, again) == again
    assert duplicate(older, ME, again, own=again) is None
    assert duplicate(ME, older, again) is None


def test_an_entry_that_nobody_renews_is_no_rival() -> None:
    """An entry that is not renewed is no duplicate, since its writer may be dead.

    The entry of a member that left, of a former run of this lineage or of the same self-join is no duplicate either.
    """
    older = entry("me", 5, **SAME_ID)
    assert duplicate(older, older, ME) is None
    assert duplicate(older, ME, entry("me", None, **SAME_ID, left=True)) is None
    assert duplicate(entry("me", 1, run="0", began=0), ME, entry("me", 2, run="0", began=0)) is None
    joined = entry("me", 5, lineage="other lineage")
    assert duplicate(joined, ME, joined) is None
    other = entry("you", 5)
    assert duplicate(other, ME, other) is None
    assert duplicate(older, older) is None, "this one has said nothing yet"


def test_an_entry_is_read_as_it_was_written() -> None:
    told = entry("naïve 'source'", 17, beat=3)
    assert Entry.from_text(told.to_text()) == told


def test_an_entry_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    told = entry("a", 17)
    assert Entry.from_text(json.dumps(json.loads(told.to_text()) | {"mood": "fine"})) == told


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "17", "null", entry("a").to_text().replace("1000", '"1000"'), '{"source": "a"}', "nö"],
)
def test_other_commits_are_told_from_entries(text: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        Entry.from_text(text)


@given(st.integers(0, 2**32).map(Random))
def test_al_08_the_floor_is_that_of_the_newest_entries_whatever_came_before(rng: Random) -> None:
    """After each single entry the floor is that of the newest entries of live members, while members renew entries,
    fall back, leave, fall silent and begin anew (AL-08).
    """
    view, now = GroupView(), 0
    newest: dict[str, tuple[int, Entry]] = {}
    for version in range(60):
        now += rng.choice([0, 10, 300])
        source = rng.choice("abcd")
        began = max(rng.randrange(3), newest[source][1].began if source in newest else 0)
        told = entry(
            source,
            rng.choice([None, rng.randrange(100)]),
            run=str(began),
            began=began,
            left=rng.random() < 0.1,
            timeout_ms=rng.choice([1, TIMEOUT]),
            progress=version,
        )
        newest[source] = now, told
        view = view.after(version, told, now).without_expired_members(ME.key, now, TIMEOUT)
        alive = [e for at, e in newest.values() if not e.left and now - at <= TIMEOUT]
        assert floor(view, now) == min((e.watermark for e in alive if e.watermark is not None), default=None)
