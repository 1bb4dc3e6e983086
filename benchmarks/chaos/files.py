"""A folder of Parquet files and a Delta table. Rows are written to both, and files are changed and removed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from benchmarks.chaos.store import BUCKET, Store

_ROWS = 20


def rows(partition: int, first: int, count: int) -> pa.Table:
    """Returns a number of rows with the present time, numbered from ``first``."""
    now = time.time_ns() // 1000
    return pa.table(
        {
            "partition": pa.array([partition] * count, pa.int32()),
            "number": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array([now] * count, pa.timestamp("us", tz="UTC")),
        }
    )


class ParquetFolder:
    """A folder of Parquet files, safe to share between threads.

    Attributes:
        written: The number of rows that were written to the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.written = path, 0
        self._away = path.with_name(path.name + "-away")
        self._lock = threading.Lock()
        self._number = 0
        self._old: list[Path] = []
        self._new: list[Path] = []
        path.mkdir()

    def write(self) -> None:
        """Writes one more file, unless the folder is hidden."""
        with self._lock:
            if not self.path.exists():
                return
            name = f"{self._number:06d}.parquet"
            hidden = self.path / f".{name}"
            pq.write_table(rows(0, self.written, _ROWS), hidden)
            hidden.rename(self.path / name)
            self._number += 1
            self.written += _ROWS
            self._new.append(self.path / name)

    def all_found(self) -> None:
        """Records that a comparison found the rows of all files in the sink, so that the files may change."""
        with self._lock:
            self._old += self._new
            self._new = []

    def hide(self) -> None:
        with self._lock:
            if self.path.exists():
                self.path.rename(self._away)

    def show(self) -> None:
        with self._lock:
            if self._away.exists():
                self._away.rename(self.path)

    def touch(self, pick: float) -> bool:
        """Changes the modification time of an old file; returns ``False`` if there is no old file."""
        with self._lock:
            path = self._picked(pick)
            if path is not None:
                os.utime(path)
            return path is not None

    def remove(self, pick: float) -> bool:
        """Removes an old file; returns ``False`` if there is no old file."""
        with self._lock:
            path = self._picked(pick)
            if path is not None:
                path.unlink()
                self._old.remove(path)
            return path is not None

    def empty(self) -> None:
        """Removes all old files."""
        with self._lock:
            for path in self._old:
                path.unlink()
            self._old = []

    def _picked(self, pick: float) -> Path | None:
        there = [path for path in self._old if path.exists()]
        return there[int(pick * len(there))] if there else None


class Table:
    """A Delta table in the store; rows have the number of the table as their partition. Safe to share between threads.

    Attributes:
        number: The number of tables that were at this path before.
        written: The number of rows that were written to the table.
    """

    def __init__(self, store: Store) -> None:
        self.number, self.written = 0, 0
        self.uri = f"s3://{BUCKET}/source"
        self._store = store
        self._lock = threading.Lock()
        self.append()

    def append(self) -> None:
        with self._lock:
            found = rows(self.number, self.written, _ROWS)
            write_deltalake(self.uri, found, mode="append", storage_options=self._store.options())
            self.written += _ROWS

    def compact(self) -> None:
        with self._lock:
            self._table().optimize.compact()

    def checkpoint(self) -> None:
        with self._lock:
            self._table().create_checkpoint()

    def empty(self) -> None:
        """Deletes all rows of the table."""
        with self._lock:
            self._table().delete()

    def remake(self) -> None:
        """Deletes the table and creates it again."""
        with self._lock:
            self._store.filesystem.delete_dir(self.uri.partition("://")[2])
            self.number, self.written = self.number + 1, 0
        self.append()

    def _table(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self._store.options())
