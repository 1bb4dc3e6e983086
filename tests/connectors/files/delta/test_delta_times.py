"""The versions that ``startingTimestamp`` begins at, by in-commit timestamps and the times of commit files."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.files.delta.delta_times import first_since

COPIED = 9_000_000
"""The modification time of all files of a log that was copied."""


@pytest.mark.parametrize(
    ("at", "first"), [(50, 0), (99, 0), (100, 2), (101, 3), (200, 3), (201, None), (COPIED, None)]
)
def test_in_commit_timestamps_hold_though_older_commits_were_copied(at: int, first: int | None) -> None:
    """Delta searches in-commit timestamps apart from the times of older commits, which can be later."""
    modified = dict.fromkeys(range(4), COPIED)
    assert first_since(at, modified, {0: None, 1: None, 2: 100, 3: 200}) == first


@pytest.mark.parametrize(
    ("at", "first"), [(5, 0), (6, 1), (7, 2), (8, 2), (40, 2), (50, 2), (51, 3), (61, None)]
)
def test_a_time_between_both_kinds_begins_at_the_first_in_commit_timestamp(
    at: int, first: int | None
) -> None:
    assert first_since(at, {0: 5, 1: 4, 2: 3, 3: 2}, {0: None, 1: None, 2: 50, 3: 60}) == first


def test_timestamps_that_were_turned_off_again_are_not_compared() -> None:
    modified = {0: 10, 1: 20, 2: 30}
    assert [first_since(at, modified, {0: None, 1: 999, 2: None}) for at in (20, 21, 31)] == [1, 2, None]


def test_a_log_without_versions_has_no_version() -> None:
    assert first_since(0, {}, {}) is None
