"""The data files of a split-watermark table: the active ones, their replacement, and those that are missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.fs import FileSystem

from flip27_stream.wall_clock import now_ms
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.storage.table_files import commit_path, exists

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Leaves checkpoints and clean-up of the log to maintenance, so that each commit takes the same time."""

_ATTEMPTS = 10


class DataFile(NamedTuple):
    """An active data file of a table.

    Attributes:
        path: The path in the folder of the table.
        size: The size (bytes).
        modified: The time (ms since the epoch) at which it was written, by the clock of the writer.
        rows: The number of rows; ``None`` if unknown.
        oldest: The least ``recorded_at`` of a row; ``None`` if unknown.
        newest: The greatest ``recorded_at`` of a row; ``None`` if unknown.
    """

    path: str
    size: int
    modified: int
    rows: int | None
    oldest: datetime | None
    newest: datetime | None


def active_files(delta: DeltaTable) -> list[DataFile]:
    """Returns the active files of the version that ``delta`` has, in the order in which they were written."""
    files = [
        DataFile(
            action["path"],
            action["size_bytes"],
            action["modification_time"],
            action.get("num_records"),
            action.get("min.recorded_at"),
            action.get("max.recorded_at"),
        )
        for action in pa.table(delta.get_add_actions(flatten=True)).to_pylist()
    ]
    return sorted(files, key=lambda file: file.modified)


def files_added_by(files: FileSystem, version: int) -> list[str]:
    """Returns the paths of the data files that the commit of ``version`` adds; none if the log has no such commit."""
    try:
        with files.open_input_stream(commit_path(version)) as stream:
            actions = map(json.loads, bytes(stream.read()).splitlines())
            return [action["add"]["path"] for action in actions if "add" in action]
    except FileNotFoundError:
        return []


def replace_files(
    delta: DeltaTable,
    files: FileSystem,
    removed: Iterable[DataFile],
    added: Sequence[AddAction],
    properties: CommitProperties,
) -> bool:
    """Replaces active files in one commit, and returns whether it did.

    It does not if another process has removed one of them first, or has deleted one of the files to add.

    Args:
        delta: The table, which is at the new version afterwards.
        files: The file system of the table.
        removed: The files to remove from the table.
        added: The files to add to it, which are written already.
        properties: The properties of the commit, which must have ``max_commit_retries=0``: the commit succeeds only as
            the next version, so that no other process can have removed the files.

    Raises:
        CommitFailedError: Other processes committed first in all attempts.
    """
    gone = {file.path: file for file in removed}
    for _ in range(_ATTEMPTS):
        if not exists(files, [action.path for action in added]):
            return False  # This process was suspended for so long that a vacuum deleted them.
        if not gone.keys() <= {file.path for file in active_files(delta)}:
            return False
        if _replaced(delta, list(gone.values()), added, properties):
            return True
        delta.update_incremental()
    raise CommitFailedError(
        f"Maintenance of the table gave up after {_ATTEMPTS} attempts, because each time another process had "
        "committed first. It tries again later."
    )


def _replaced(
    delta: DeltaTable, removed: Sequence[DataFile], added: Sequence[AddAction], properties: CommitProperties
) -> bool:
    now = now_ms()
    try:
        delta.create_write_transaction(
            [*added, *(RemoveAction(file.path, not added, now, file.size, {}) for file in removed)],
            "append",
            columns_of_table(delta),
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
    except CommitFailedError:
        return False
    delta.update_incremental()
    return True


def columns_of_table(delta: DeltaTable) -> pa.Schema:
    """Returns the columns in the order in which the table has them, which another program may have changed."""
    return pa.schema([SCHEMA.field(column.name) for column in delta.schema().fields])
