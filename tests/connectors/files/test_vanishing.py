"""Files that are away in one listing and come back: every row is read once, or the query fails by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.files.enumerator import FileSourceEnumerator
from tests.connectors.files.file_query import SECOND, FileQuery, write

NEVER_BY_ITSELF = {"source.monitor-interval": "1 h"}


def backlog(query: FileQuery) -> Any:
    enumerator = query.coordinator._enumerator
    assert isinstance(enumerator, FileSourceEnumerator)
    return enumerator._backlog


def look(query: FileQuery) -> None:
    """What the enumerator does once in each monitor interval."""
    files: Any = backlog(query)
    files._not_before = 0.0
    if (found := files.look()) is not None:
        files.take_in(found)


def away(path: Path) -> Callable[[], None]:
    """Moves a file out of the folder; the function that is returned moves it back."""
    elsewhere = path.parent.parent / path.name
    path.rename(elsewhere)

    def bring_back() -> None:
        elsewhere.rename(path)

    return bring_back


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three files of 100 rows, modified one after the other."""
    data = tmp_path / "data"
    for number in range(3):
        path = data / f"{number}.parquet"
        write(path, number * 100 * SECOND + 1, ids=number * 100)
        os.utime(path, (10**9 + number,) * 2)
    return data


def query(folder: Path, **options: str) -> FileQuery:
    return FileQuery({"path": str(folder), **NEVER_BY_ITSELF, **options}, available_now=False)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("limit", [{}, {"maxFilesPerTrigger": "1"}, {"maxRowsPerTrigger": "30"}])
@pytest.mark.parametrize("batches", [1, 2, 20])
@pytest.mark.parametrize("restarted", ["never", "while it is away", "when it is back"])
@pytest.mark.parametrize("name", ["0", "1", "2"])
def test_a_file_that_comes_back_as_it_was_is_read_once(
    three: Path, name: str, restarted: str, batches: int, limit: dict[str, str]
) -> None:
    """While it is being read, when it is read, or while it still waits."""
    reading = query(three, **limit)
    for _ in range(batches):
        reading.step()
    bring_back = away(three / f"{name}.parquet")
    try_to_restart(reading, restarted == "while it is away")
    look(reading)
    bring_back()
    try_to_restart(reading, restarted == "when it is back")
    look(reading)
    reading.run()
    assert reading.ids() == dict.fromkeys(range(300), 1)


def try_to_restart(reading: FileQuery, wanted: bool) -> None:
    """A file that was begun and is away fails the new run; it begins again when the file is back."""
    if wanted:
        reading.restart()
    if reading.coordinator._enumerator is None:
        reading.coordinator._open(reading.coordinator._documents.read(reading.offset))
        reading.coordinator._context.run_due()
