"""Files through the conformance suite: SX-01 to SX-08, CO-11, CO-25, FI-17, alignment, replays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from flip27_stream.connectors.files import FileSource
from tests.connectors.files.support.conformance import COLUMNS, GROUP, STEP_MS, FolderSystem, OfFiles
from tests.connectors.files.support.deletion_vectors import add, create, in_file, removed
from tests.connectors.files.support.delta_tables import commit


class Lines(FolderSystem):
    format = "json"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class DeltaSystem(FolderSystem):
    """A Delta table in which each write is a commit."""

    format = "delta"
    schema = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._put("", [])

    def _put(self, name: str, rows: list[dict[str, Any]]) -> None:
        write_deltalake(self._data, pa.Table.from_pylist(rows, COLUMNS), mode="append")

    def _source(
        self, options: Mapping[str, str] = MappingProxyType({}), *, bounded: bool = False
    ) -> FileSource:
        return super()._source({"ignoreDeletes": "true", **options}, bounded=bounded)

    def hide(self, split: int) -> str:
        """Deletes the rows of a split. Their RESTORE is a commit that the source refuses, with the table's name."""
        table = DeltaTable(self._data)
        self._before = table.version()
        table.delete(f"split = {split}")
        return str(self._data)

    def restore(self, split: int) -> None:
        DeltaTable(self._data).restore(self._before)


class TableWithDeletedRows(DeltaSystem):
    """A Delta table in which each write is a file with deleted rows between the others."""

    def __init__(self, folder: Path) -> None:
        FolderSystem.__init__(self, folder)
        create(self._data, COLUMNS)
        self._version = 0
        self._actions: list[dict[str, Any]] = []

    def _put(self, name: str, rows: list[dict[str, Any]]) -> None:
        deleted = {"split": -1, "number": -1, "t": 1}
        stored = [stored for row in rows for stored in (deleted, row)]
        vector = in_file(self._data, range(0, len(stored), 2))
        group = max(2 * GROUP, len(stored) // 10)
        self._actions.append(
            add(self._data, pa.Table.from_pylist(stored, COLUMNS), vector, row_group_size=group)
        )
        self._commit(self._actions[-1])

    def _commit(self, *actions: dict[str, Any]) -> None:
        self._version += 1
        commit(self._data, self._version, *actions)

    def hide(self, split: int) -> str:
        """Deletes all rows."""
        self._commit(*map(removed, self._actions))
        return str(self._data)

    def restore(self, split: int) -> None:
        """Restores all rows, by a commit that the source refuses."""
        self._commit({"commitInfo": {"operation": "RESTORE"}}, *self._actions)


class TestParquet(OfFiles):
    folder = FolderSystem
    unit_ms = GROUP * STEP_MS


class TestJson(OfFiles):
    folder = Lines


class TestDelta(OfFiles):
    folder = DeltaSystem


class TestDeltaWithDeletedRows(OfFiles):
    folder = TableWithDeletedRows
