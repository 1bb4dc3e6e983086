"""Delta tables that tests write, and queries over them. No JVM."""

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
    """A commit with one file, or one per partition."""
    times = pa.array(first_ms + SECOND * np.arange(rows), pa.timestamp("ms", "UTC"))
    data = {"ts": times.cast(pa.timestamp("us", "UTC")), "id": np.arange(ids, ids + rows), **columns}
    write_deltalake(table, pa.table(data), mode="append", partition_by=list(columns) or None)


def add_rows(table: Path, ids: range, more: Mapping[str, Any] | None = None, **options: Any) -> None:
    """A commit with one file; ``more`` are columns beside ``ts`` and ``id``."""
    times = pa.array([n * SECOND + 1 for n in ids], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "id": pa.array(ids, pa.int64()), **(more or {})})
    write_deltalake(table, rows, **{"mode": "append", **options})


def commit(table: Path, version: int, *actions: Mapping[str, Any]) -> None:
    """A commit of any form, which appears whole, as those of Delta's writers do."""
    file = table / "_delta_log" / f"{version:020}.json"
    hidden = file.with_name(f".{file.name}")
    hidden.write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    hidden.replace(file)


def query(table: Path, **options: str) -> FileQuery:
    """A query that ends at what is there when it begins."""
    drift = options.pop("drift", None)
    return FileQuery({"path": str(table), "files.format": "delta", **options}, max_drift=drift)


def running(table: Path, schema: pa.Schema | None = None, **options: str) -> FileQuery:
    """A query that goes on, has read what was there, and looks for more all the time."""
    given = {"path": str(table), "files.format": "delta", "source.monitor-interval": "1 ms", **options}
    reading = FileQuery(given, available_now=False, schema=schema)
    reading.run()
    return reading


def reads(reading: FileQuery, rows: int) -> None:
    """Micro-batches until the query has read so many rows.

    Raises:
        Flip27Error: it fails before.
        TimeoutError: it does not read them.
    """

    def enough() -> bool:
        reading.run()
        return len(reading.rows) >= rows

    wait_until(enough, f"{rows} rows; there are {len(reading.rows)}")


def fails(reading: FileQuery) -> None:
    """Micro-batches until the query fails, as it must.

    Raises:
        Flip27Error: it does.
        TimeoutError: it does not.
    """
    wait_until(lambda: reading.run() and False, "the query to fail")
