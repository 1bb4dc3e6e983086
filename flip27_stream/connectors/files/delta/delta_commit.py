"""A commit of a Delta table: the actions of one version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.file_layout import PLAIN, FileLayout, version_name
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.errors import ConnectorError, UnreachableError

Action = Mapping[str, Any]

_REPAIR: Final = (
    "Restore its file in _delta_log from a backup, or start the query with a new checkpoint on a copy of the "
    "table."
)


@dataclass(frozen=True)
class DataFile:
    """A data file of the table.

    Attributes:
        file: Path, modification time and size of the file, as the log has them.
        layout: Partition values, deletion vector and column mapping of the file.
        least: The least event time (ms) in the log's statistics.
        known: Whether ``least`` is known. If it is known and ``None``, no row has an event time.
    """

    file: FoundFile
    layout: FileLayout = PLAIN
    least: int | None = None
    known: bool = False

    @property
    def name(self) -> str:
        """A name that is unique to this file with this deletion vector."""
        return version_name(self.file.path, self.layout.deletion)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table at one version.

    Attributes:
        schema: The names and types, with the metadata that the log has for each column.
        mapping: The names that data files have for the columns; ``None`` if these are the same.
    """

    schema: pa.Schema
    mapping: ColumnMapping | None = None


@dataclass(frozen=True)
class Commit:
    """The changes that a version makes to the table. A commit that only moves rows, as OPTIMIZE does, has no changes.

    Attributes:
        version: The version.
        adds: The ``add`` actions with new rows.
        removes: Whether rows were removed.
        columns: The table's columns from this version on; ``None`` if the commit does not set them.
        table: The id of the table, if ``columns`` is given.
        restores: Whether the added files were in the table before (RESTORE).
    """

    version: int
    adds: Sequence[Action]
    removes: bool
    columns: TableColumns | None = None
    table: str | None = None
    restores: bool = False


def actions(data: bytes, what: str) -> list[Action]:
    """Returns the actions in a file of the log.

    Lines are divided at line feeds only, since names can have other line breaks in them.

    Args:
        data: The bytes of the file.
        what: The version or the checkpoint of the table, for errors.

    Raises:
        UnreachableError: The file has no action, or ends within an action: it is being written, on a storage where
            files are visible before they are complete.
        ConnectorError: A line is not a JSON object.
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    found = [_action(line, what, is_cut=line is lines[-1] and not data.endswith(b"\n")) for line in lines]
    if not found:
        raise UnreachableError(f"{what} has no action in the log; its file is perhaps still being written.")
    if not all(isinstance(action, dict) for action in found):
        raise ConnectorError(f"{what} has a line that is not a JSON object. {_REPAIR}")
    return found


def _action(line: bytes, what: str, *, is_cut: bool) -> Action:
    try:
        action: Action = json.loads(line)
        return action
    except ValueError as error:
        if is_cut and line.startswith(b"{"):
            raise UnreachableError(f"{what} is not complete: it ends within an action ({error}).") from error
        raise ConnectorError(f"{what} has a line that is not JSON: {error}. {_REPAIR}") from error


def all_of(kind: str, among: Sequence[Action]) -> list[Action]:
    """Returns the actions of one kind, such as ``add``."""
    return [action[kind] for action in among if action.get(kind)]
