"""The start of reading a Delta table, and its checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from flip27_stream.connectors.files.backlog.processed_files import Frontier
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping


@dataclass(frozen=True)
class DeltaStart:
    """The version to begin with, and the rules for commits that do not only add rows.

    Attributes:
        version: read only what this version and later ones added; ``None`` for a snapshot first.
        latest: read only what is added from now on.
        timestamp: begin with the first version that was committed then or later.
        ignore_deletes: pass over commits that only remove rows.
        ignore_changes: read the files that commits add which also remove rows, including rows that were read before.
        skip_change_commits: pass over commits that remove rows, and do not read the files that they add.
    """

    version: int | None = None
    latest: bool = False
    timestamp: str | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False


@dataclass(frozen=True)
class DeltaState:
    """The checkpoint of ``DeltaFiles``. Everything else is in the table's log.

    Attributes:
        through: the last version whose files were all taken; -1 before the first.
        until: the last version of the generation that is being read; its snapshot if ``through`` is -1.
        frontiers: the last files that were taken of that generation, one for each order.
        table: the id of the table; ``None`` before the first look.
        columns: names that data files have for the columns of the query; ``None`` where they have the table's.
    """

    through: int = -1
    until: int | None = None
    frontiers: tuple[Frontier, ...] = ()
    table: str | None = None
    columns: ColumnMapping | None = None
