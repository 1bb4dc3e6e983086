"""The rule for commits that do not only add rows."""

from __future__ import annotations

from flip27_stream.connectors.files.delta.delta_commit import Commit
from flip27_stream.connectors.files.delta.delta_state import DeltaStart
from flip27_stream.errors import DataLossError


def is_read(commit: Commit, start: DeltaStart, uri: str) -> bool:
    """Returns whether the files that a commit adds are read, according to the options of Delta's own source.

    Args:
        commit: The commit.
        start: The options.
        uri: The URI of the table, for the error.

    Raises:
        DataLossError: The commit removes or restores rows, and no option allows such a commit.
    """
    restores = commit.restores and bool(commit.adds)
    if not (commit.removes or restores):
        return True
    if start.skip_change_commits or (start.ignore_deletes and not commit.adds):
        return False
    if start.ignore_changes:
        return True
    raise DataLossError(
        f"Version {commit.version} of the Delta table {uri} "
        f"{'restores' if restores else 'changes' if commit.adds else 'removes'} rows, which a stream that reads "
        "only added rows cannot show. Set option skipChangeCommits to true to skip such commits, ignoreDeletes to skip "
        "those that only remove rows, or ignoreChanges to read again the files that were rewritten."
    )
