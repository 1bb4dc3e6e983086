"""Commits of a log whose beginning is gone, because the folder of the table was deleted while members wrote to it.

A member that has version N of the table open, and does not know that the table was deleted, writes the file of version
N + 1. If that file stays alone, nobody can open the table. So a member looks at the log after each commit and puts its
own commit aside, and one that cannot open the table puts such commits of all members aside. Files are renamed and not
deleted, because they may belong to a table that a user is just restoring.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from pyarrow.fs import FileInfo, FileSelector, FileSystem

from watermark_alignment.table.storage.table_files import COMMIT, LOG, commit_path, exists

MARK: Final = "flip27.table"
"""The name under which each commit of this project has the id of its table."""
ASIDE: Final = re.compile(r"\.flip27-lost-[0-9a-f]{16}-.*")
"""The names of files that were put aside, in the folder of the table."""

_HINT: Final = "_last_checkpoint"
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint\..*(?:parquet|json)")
_FORMER: Final = 3
"""How many commits before an own one are looked for. More members than this rarely commit before one looks."""
_SETTLED_S: Final = 10.0
"""The time (s) for which nothing may change in a log before the commits of other members are put aside."""


class _Log(NamedTuple):
    """The files of a log.

    Attributes:
        commits: The versions that have a commit file.
        checkpoint: The version of the newest checkpoint; ``None`` without one.
        files: All files.
    """

    commits: frozenset[int]
    checkpoint: int | None
    files: tuple[FileInfo, ...]

    @property
    def end(self) -> int:
        """The newest version that can be read; -1 if none can."""
        version = -1 if self.checkpoint is None else self.checkpoint
        while version + 1 in self.commits:
            version += 1
        return version

    @property
    def lost(self) -> list[int]:
        """The versions that cannot be read, because one before them is missing."""
        end = self.end
        return sorted(version for version in self.commits if version > end)


def commits_before(version: int) -> list[str]:
    """Returns the paths of four files that usually are in a log in which ``version`` was just written."""
    root = f"{LOG}/{_HINT}" if version > _FORMER else commit_path(0)
    return [root, *map(commit_path, range(max(version - _FORMER, 0), version))]


def is_in_log(files: FileSystem, version: int) -> bool:
    """Returns whether the commits before ``version``, which was just written, are in the log.

    Usually this takes a look at four files. Only if one of them is missing, as after a clean-up, the log is listed.
    """
    if exists(files, commits_before(version)):
        return True
    # The second list has the checkpoint for which commits were cleaned up while the first one was made.
    return any(_listed(files).end >= version for _ in range(2))


def is_of_another_table(files: FileSystem, version: int, table_id: str) -> bool:
    """Returns whether a log in which this process has committed ``version`` to a table is that of another table now.

    It is false if the log does not have that version any more: it was cleaned up, or the table was deleted.
    """
    try:
        with files.open_input_stream(commit_path(version)) as stream:
            return table_id.encode() not in bytes(stream.read())
    except FileNotFoundError:
        return False


def put_aside(files: FileSystem, names: Iterable[str]) -> None:
    """Moves files out of the log, into the folder of the table. Files that are gone already are ignored."""
    for name in names:
        with suppress(FileNotFoundError):
            files.move(f"{LOG}/{name}", f".flip27-lost-{secrets.token_hex(8)}-{name}")


def put_commit_aside(files: FileSystem, version: int) -> None:
    """Puts the own commit of ``version`` aside."""
    put_aside(files, [_name(version)])


def put_lost_checkpoint_aside(files: FileSystem, version: int) -> bool:
    """Puts the own checkpoint of ``version`` aside if the log has no commit of that version or a later one.

    Then the table was deleted before the checkpoint was written, which would hide a table that is created again.
    Returns whether it was put aside.
    """
    log = _listed(files)
    if max(log.commits, default=-1) >= version:
        return False
    of_version = (info.base_name for info in log.files if _CHECKPOINT.fullmatch(info.base_name))
    put_aside(files, [*(name for name in of_version if int(name[:20]) == version), _HINT])
    return True


class LostCommits:
    """Puts the lost commits of all members aside, once the log has not changed for 10 s."""

    def __init__(self) -> None:
        self._seen: frozenset[tuple[str, int, Any]] = frozenset()
        self._since = 0.0

    def put_aside(self, files: FileSystem) -> bool:
        """Returns whether lost commits were put aside. Nothing is done if one of them is not of this project."""
        log, now = _listed(files), time.monotonic()
        seen = frozenset((info.base_name, info.size, info.mtime) for info in log.files)
        if seen != self._seen:
            self._seen, self._since = seen, now
        if not log.lost or not all(_is_own(files, version) for version in log.lost):
            return False
        if now - self._since < _SETTLED_S:
            return False
        hint = [_HINT] if log.end < 0 else []
        put_aside(files, [*map(_name, log.lost), *hint])
        return True


def _listed(files: FileSystem) -> _Log:
    found = files.get_file_info(FileSelector(LOG, allow_not_found=True))
    commits = (COMMIT.fullmatch(info.base_name) for info in found)
    checkpoints = (_CHECKPOINT.fullmatch(info.base_name) for info in found)
    return _Log(
        frozenset(int(match[1]) for match in commits if match),
        max((int(match[1]) for match in checkpoints if match), default=None),
        tuple(found),
    )


def _name(version: int) -> str:
    return f"{version:020}.json"


def _is_own(files: FileSystem, version: int) -> bool:
    """Returns whether this project wrote the commit file of ``version``, and the commit does not create a table."""
    try:
        with files.open_input_stream(commit_path(version)) as stream:
            actions = [json.loads(line) for line in bytes(stream.read()).splitlines()]
        kinds = {kind for action in actions for kind in action}
        marked = any(MARK in action["commitInfo"] for action in actions if "commitInfo" in action)
    except (OSError, ValueError, TypeError):
        return False
    return marked and not kinds & {"metaData", "protocol"}
