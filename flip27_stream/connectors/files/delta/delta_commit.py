"""A commit of a Delta table: the actions of one version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.file_layout import PLAIN, FileLayout, version_name
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.errors import ConnectorError, UnreachableError

Action = Mapping[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A data file of the table.

    Attributes:
        file: its path in the file system, and what the log says of it.
        layout: what else must be known to read its rows.
        least: least event time (ms) by the log's statistics.
        known: whether ``least`` is known; it is ``None`` where no row has an event time.
    """

    file: FoundFile
    layout: FileLayout = PLAIN
    least: int | None = None
    known: bool = False

    @property
    def name(self) -> str:
        """Tells it from every other file, and from the same file with other rows deleted."""
        return version_name(self.file.path, self.layout.deletion)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table at one version.

    Attributes:
        schema: names and types, with the log's metadata of each.
        mapping: the names that data files have for them; ``None`` for the same names.
    """

    schema: pa.Schema
    mapping: ColumnMapping | None = None


@dataclass(frozen=True)
class Commit:
    """The changes of a version to the table. A commit that only rearranges rows, as OPTIMIZE does, has none.

    Attributes:
        version: its number.
        adds: the actions that add files with new rows.
        removes: whether rows were removed.
        columns: the table's columns from this version on; ``None`` where it does not set them.
        table: the id of the table, with ``columns``.
        restores: whether what it added was in the table before (RESTORE).
    """

    version: int
    adds: Sequence[Action]
    removes: bool
    columns: TableColumns | None = None
    table: str | None = None
    restores: bool = False


def actions(data: bytes, version: str) -> list[Action]:
    """The actions in the log of one version.

    Lines end with a line feed; other line breaks may be in a name.

    Args:
        data: the bytes of the log's file.
        version: the name of the file, for errors.

    Raises:
        UnreachableError: it has no action yet, or ends within one: where a file can be seen before it is complete,
            it is being written.
        ConnectorError: it is not JSON.
    """
    lines = [line for line in data.split(b"\n") if line.strip()]
    found = [_action(line, version, is_cut=line is lines[-1] and not data.endswith(b"\n")) for line in lines]
    if not found:
        raise UnreachableError(f"{version} has a log without any action.")
    if not all(isinstance(action, dict) for action in found):
        raise ConnectorError(f"{version} has a log with a line that is not a JSON object.")
    return found


def _action(line: bytes, version: str, *, is_cut: bool) -> Action:
    try:
        action: Action = json.loads(line)
        return action
    except ValueError as error:
        if is_cut and line.startswith(b"{"):
            raise UnreachableError(
                f"{version} has a log that is no JSON yet, since it ends within an action: {error}."
            ) from error
        raise ConnectorError(f"{version} has a log that is no JSON: {error}.") from error


def all_of(kind: str, among: Sequence[Action]) -> list[Action]:
    """The actions of one kind, such as ``add``."""
    return [action[kind] for action in among if action.get(kind)]
