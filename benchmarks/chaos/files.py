"""A folder of files and a Delta table, to which rows are written, and that change in other ways."""

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
    """So many rows that are due now, numbered from ``first``."""
    now = time.time_ns() // 1000
    return pa.table(
        {
            "partition": pa.array([partition] * count, pa.int32()),
            "number": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array([now] * count, pa.timestamp("us", tz="UTC")),
        }
    )


class Folder:
    """Parquet files; safe to share between threads.

    Attributes:
        written: how many rows the folder has got.
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
        """One file more, unless the folder is away."""
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

    def accounted(self) -> None:
        """All that was there at the account before is read by now, and may change."""
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
        """Give an old file another modification time; false if there is none."""
        with self._lock:
            path = self._picked(pick)
            if path is not None:
                os.utime(path)
            return path is not None

    def remove(self, pick: float) -> bool:
        """Remove an old file; false if there is none."""
        with self._lock:
            path = self._picked(pick)
            if path is not None:
                path.unlink()
                self._old.remove(path)
            return path is not None

    def empty(self) -> None:
        """Remove all files that are old."""
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
        number: how many tables were there before it.
        written: how many rows the table has got.
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
        """Delete all rows."""
        with self._lock:
            self._table().delete()

    def remake(self) -> None:
        """Drop it, and make it anew."""
        with self._lock:
            self._store.filesystem.delete_dir(self.uri.partition("://")[2])
            self.number, self.written = self.number + 1, 0
        self.append()

    def _table(self) -> DeltaTable:
        return DeltaTable(self.uri, storage_options=self._store.options())
