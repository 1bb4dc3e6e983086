"""What the commits of a table tell of its members. No JVM."""

from __future__ import annotations

from itertools import accumulate

import pytest

from tests.watermark_alignment.support.group_entries import entry
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.group.member_info import MemberInfo, groups_in, members_in
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.recordings import Member


def commit(group: str, batch: int, lineage: str = "lineage") -> dict[str, str]:
    return {KEY: BatchNote(group, "clicks", lineage, batch, 10, 0).to_text()}


def test_a_source_that_has_moved_to_another_group_is_in_that_group() -> None:
    """Commits come newest first. Notes count as well as entries: a busy table can have no entry in what is read."""
    assert groups_in([commit("new", 2), {"timestamp": "7"}, commit("old", 1)]) == {"lineage": "new"}


def test_a_note_of_another_program_is_ignored() -> None:
    assert groups_in([{KEY: "[]"}, commit("g", 1)]) == {"lineage": "g"}


@pytest.mark.parametrize(
    ("written", "known"),
    [
        (((7, "a"), (10, "a"), (8, "a"), (9, "a"), (10, "a"), (11, "a")), [7, 10, 10, 10, 10, 11]),
        (((10, "a"), (3, "b"), (4, "b")), [10, 3, 4]),
    ],
    ids=["a note ahead of its rows", "another checkpoint"],
)
def test_a_note_of_an_older_batch_hides_none_of_a_later_one(
    written: tuple[tuple[int, str], ...], known: list[int]
) -> None:
    """A commit with an entry can have a note whose rows wait for the writer behind those of older batches."""
    told = entry("clicks", lineage="a").to_text()
    commits = [commit("g", batch, lineage) | {MEMBER: told} for batch, lineage in written]
    at_once = [members_in(reversed(commits[:count])) for count in range(1, len(commits) + 1)]
    one_by_one = accumulate(
        (members_in([told])[Member("g", "clicks")] for told in commits), lambda older, new: new.or_else(older)
    )
    for infos in ([found[Member("g", "clicks")] for found in at_once], list(one_by_one)):
        assert [info.note.batch for info in infos if info.note is not None] == known


def test_the_later_of_two_notes_on_one_batch_is_kept() -> None:
    """After a restart a batch is run again, and its note is recorded again: the later note counts."""
    first, again = (BatchNote("g", "clicks", "lineage", 1, 10, unreported) for unreported in (1, 2))
    assert MemberInfo(note=again).or_else(MemberInfo(note=first)).note is again
