"""Where reading of a Delta table begins, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_stream.connectors.files.backlog.processed_files import Frontier
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping


@dataclass(frozen=True)
class DeltaStart:
    """Where reading begins, and what becomes of commits that do not only add rows.

    Attributes:
        version: read only what this version and later ones added; ``None`` for a snapshot first.
        latest: read only what is added from now on.
        timestamp: begin with the first version that was committed then or later.
        ignore_deletes: commits that only remove rows are passed over.
        ignore_changes: what commits add that also remove rows is read, rows that were there before included.
        skip_change_commits: commits that remove rows are passed over, with what they add.
    """

    version: int | None = None
    latest: bool = False
    timestamp: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False


@dataclass(frozen=True)
class DeltaState:
    """The checkpoint of ``DeltaFiles``: the log knows all the rest.

    Attributes:
        through: all that versions up to this one added was taken; -1 for nothing yet.
        until: the version up to which is being read; the snapshot of it, if ``through`` is -1.
        frontiers: how far the files that are being read were taken, in their order.
        table: tells the table from one that is made later in its place; ``None`` before the first look.
        columns: names that data files have for the columns of the query; ``None`` where they have the table's.
    """

    through: int = -1
    until: int | None = None
    frontiers: tuple[Frontier, ...] = ()
    table: str | None = None
    columns: ColumnMapping | None = None
