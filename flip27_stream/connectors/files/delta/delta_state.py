"""The options for the start of reading a Delta table, and the checkpoint of its backlog."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_stream.connectors.files.backlog.processed_files import Frontier
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping


@dataclass(frozen=True)
class DeltaStart:
    """The version to begin with, and the rules for commits that do not only add rows.

    Attributes:
        version: The first version whose added files are read; ``None`` to read a snapshot first.
        latest: Whether only files are read that are added from now on.
        timestamp: The time (ISO 8601) of the first version whose added files are read, or of an earlier version.
        ignore_deletes: Whether commits that only remove rows are skipped.
        ignore_changes: Whether the added files of commits that also remove rows are read, so that unchanged rows are
            read again.
        skip_change_commits: Whether commits that remove rows are skipped, with the files that they add.
    """

    version: int | None = None
    latest: bool = False
    timestamp: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False


@dataclass(frozen=True)
class DeltaState:
    """The checkpoint of ``DeltaFiles``. Everything else is read from the table's log.

    Attributes:
        through: The last version whose files were all processed; -1 before the first.
        until: The last version of the generation that is being read. If ``through`` is -1, the version of the snapshot.
        frontiers: The last file of that generation that was processed, once for each order.
        table: The id of the table; ``None`` before the first look.
        columns: The names that data files have for the columns of the query; ``None`` if these are the same.
    """

    through: int = -1
    until: int | None = None
    frontiers: tuple[Frontier, ...] = ()
    table: str | None = None
    columns: ColumnMapping | None = None
