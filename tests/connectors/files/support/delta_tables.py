"""Writes Delta tables for tests, and queries them. No JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from flip27_stream.testing import wait_until
from tests.connectors.files.support.file_query import SECOND, FileQuery


def append(table: Path, first_ms: int, ids: int, rows: int = 50, **columns: Any) -> None:
    """Makes a commit with one file, or with one for each partition."""
    times = pa.array(first_ms + SECOND * np.arange(rows), pa.timestamp("ms", "UTC"))
    data = {"ts": times.cast(pa.timestamp("us", "UTC")), "id": np.arange(ids, ids + rows), **columns}
    write_deltalake(table, pa.table(data), mode="append", partition_by=list(columns) or None)


def add_rows(table: Path, ids: range, more: Mapping[str, Any] | None = None, **options: Any) -> None:
    """Makes a commit with one file. ``more`` are columns besides ``ts`` and ``id``."""
    times = pa.array([n * SECOND + 1 for n in ids], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "id": pa.array(ids, pa.int64()), **(more or {})})
    write_deltalake(table, rows, **{"mode": "append", **options})


def commit(table: Path, version: int, *actions: Mapping[str, Any]) -> None:
    """Writes a commit with any actions. The file appears complete, as with Delta's writers."""
    file = table / "_delta_log" / f"{version:020}.json"
    hidden = file.with_name(f".{file.name}")
    hidden.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    hidden.replace(file)


def query(table: Path, **options: str) -> FileQuery:
    """Returns a query that reads the files that exist when it begins, and ends."""
    drift = options.pop("drift", None)
    return FileQuery({"path": str(table), "files.format": "delta", **options}, max_drift=drift)


def running(table: Path, schema: pa.Schema | None = None, **options: str) -> FileQuery:
    """Returns a query that has read the existing files, and waits for more."""
    given = {"path": str(table), "files.format": "delta", "source.monitor-interval": "1 ms", **options}
    reading = FileQuery(given, available_now=False, schema=schema)
    reading.run()
    return reading


def reads(reading: FileQuery, rows: int) -> None:
    """Runs micro-batches until the query has read ``rows`` rows.

    Raises:
        Flip27Error: The query fails before.
        TimeoutError: The query does not read them in time.
    """

    def enough() -> bool:
        reading.run()
        return len(reading.rows) >= rows

    wait_until(enough, f"{rows} rows; there are {len(reading.rows)}")


def fails(reading: FileQuery) -> None:
    """Runs micro-batches until the query fails, as is expected.

    Raises:
        Flip27Error: The query fails.
        TimeoutError: The query does not fail.
    """
    wait_until(lambda: reading.run() and False, "the query to fail")
