"""Aligned queries over files that come now and then, for longer than the queries wait for a missing file. No JVM."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.connectors.files.backlog import listed_files
from flip27_stream.connectors.files.delta import delta_backlog
from flip27_stream.connectors.files.storage.retries import Retries
from tests.connectors.files.support.delta_tables import append, reads
from tests.connectors.files.support.file_query import SECOND, FileQuery, write

TIME_LIMIT_S = 0.3
ROWS, FILES = 20, 14


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "time_limit_s", TIME_LIMIT_S)
    monkeypatch.setattr(Retries, "pause_s", 0.01)
    monkeypatch.setattr(listed_files, "_TIME_LIMIT_S", TIME_LIMIT_S)
    monkeypatch.setattr(delta_backlog, "_PROVEN_S", TIME_LIMIT_S)


def add_file(folder: Path, number: int) -> None:
    write(folder / f"{number}.parquet", number * ROWS * SECOND + 1, ROWS, ids=number * ROWS)


def add_commit(table: Path, number: int) -> None:
    append(table, number * ROWS * SECOND + 1, number * ROWS, ROWS)


@pytest.mark.long
@pytest.mark.parametrize(("kind", "add"), [("parquet", add_file), ("delta", add_commit)])
def test_files_that_come_slowly_are_read_once(
    tmp_path: Path, kind: str, add: Callable[[Path, int], None]
) -> None:
    """All rows come once. The pause between two files is half of the time that the query waits for a missing file,
    and once twice as long.
    """
    place = tmp_path / "in"
    add(place, 0)
    options = {
        "path": str(place),
        "files.format": kind,
        "source.monitor-interval": "1 ms",
        "maxRowsPerTrigger": "15",
    }
    query = FileQuery(options, max_drift="1 h", available_now=False)
    for number in range(1, FILES):
        until = time.monotonic() + TIME_LIMIT_S * (2 if number == FILES // 2 else 0.5)
        while time.monotonic() < until:
            query.run()
        add(place, number)
    reads(query, FILES * ROWS)
    assert query.ids() == Counter(range(FILES * ROWS))
