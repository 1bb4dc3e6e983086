"""What the commits of a table tell of its members. No JVM."""

from __future__ import annotations

from watermark_alignment.group.member_info import groups_in
from watermark_alignment.table.batch_note import KEY, BatchNote


def commit(group: str, batch: int) -> dict[str, str]:
    return {KEY: BatchNote(group, "clicks", "lineage", batch, 10, 0).to_text()}


def test_a_source_that_has_moved_to_another_group_is_in_that_group() -> None:
    """Commits come newest first. Notes count as well as entries: a busy table can have no entry in what is read."""
    assert groups_in([commit("new", 2), {"timestamp": "7"}, commit("old", 1)]) == {"lineage": "new"}


def test_a_note_of_another_program_is_ignored() -> None:
    assert groups_in([{KEY: "[]"}, commit("g", 1)]) == {"lineage": "g"}
