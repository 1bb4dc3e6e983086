"""A commit of a Delta table: what one version did to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flip27_stream.connectors.files.split import Partition
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.errors import ConnectorError, UnreachableError

Action = Mapping[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A data file of the table.

    Attributes:
        file: its path in the file system, and what the log says of it.
        partition: values of partition columns.
        least: least event time (ms) by the log's statistics.
        known: whether ``least`` is known; it is ``None`` where no row has an event time.
    """

    file: FoundFile
    partition: Partition
    least: int | None = None
    known: bool = False


@dataclass(frozen=True)
class Commit:
    """What a version did to the table; rearranging its data, as OPTIMIZE does, is nothing.

    Attributes:
        version: its number.
        added: files with new rows.
        removes: whether rows were removed.
        schema: the table's columns from this version on; ``None`` where it does not set them.
        table: the id of the table, with ``schema``.
        restores: whether what it added was in the table before (RESTORE).
    """

    version: int
    added: Sequence[DataFile]
    removes: bool
    schema: pa.Schema | None = None
    table: str | None = None
    restores: bool = False


def actions(data: bytes, version: str) -> list[Action]:
    """The actions in the log of one version.

    Lines end with a line feed; other line breaks may be in a name.

    Args:
        data: the bytes of the log's file.
        version: what it is, for errors.

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
