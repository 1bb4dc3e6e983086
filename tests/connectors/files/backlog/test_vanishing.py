"""Files that a listing lacks and that come back: every row is read once, or the query fails and names the file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flip27_stream.connectors.files.planning.enumerator import FileSourceEnumerator
from flip27_stream.errors import ContractError, DataLossError
from tests.connectors.files.support.file_query import SECOND, FileQuery, write

IDS = pa.schema([("id", pa.int64())])
NEVER_BY_ITSELF = {"source.monitor-interval": "1 h"}


def backlog(query: FileQuery) -> Any:
    enumerator = query.coordinator._enumerator
    assert isinstance(enumerator, FileSourceEnumerator)
    return enumerator._backlog


def look(query: FileQuery) -> None:
    """Lists the folder, as the enumerator does once in each monitor interval."""
    files: Any = backlog(query)
    files._not_before = 0.0
    if (found := files.look()) is not None:
        files.take_in(found)


def away(path: Path) -> Callable[[], None]:
    """Moves a file out of the folder, and returns a function that moves it back."""
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
    """A file that goes away and comes back unchanged is read once, whether it was being read, was
    read, or still waited.
    """
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
    """Restarts a query if that is wanted. A begun file that is missing keeps the enumerator closed; it opens
    when the file is back.
    """
    if wanted:
        reading.restart()
    if reading.coordinator._enumerator is None:
        reading.coordinator._open(reading.coordinator._offset_log.read(reading.offset))
        reading.coordinator._context.run_due()


@pytest.mark.parametrize("restarted", ["never", "while it is away", "when it is back"])
@pytest.mark.parametrize("batches", [1, 20])
def test_a_file_that_comes_back_with_other_rows_is_read_with_those(
    three: Path, batches: int, restarted: str
) -> None:
    """A file that comes back with other rows is a new file, and its rows are read. Rows that were read of
    the old file stay read.
    """
    reading = query(three, maxFilesPerTrigger="1")
    for _ in range(batches):
        reading.step()
    away(three / "0.parquet")
    look(reading)
    write(three / "3.parquet", 1, ids=300)
    look(reading)
    reading.step()
    try_to_restart(reading, restarted == "while it is away")
    write(three / "0.parquet", 1, ids=1000, rows=50)
    try_to_restart(reading, restarted == "when it is back")
    look(reading)
    reading.run()
    assert reading.ids() == dict.fromkeys([*range(400), *range(1000, 1050)], 1)


@pytest.mark.parametrize("rows", [50, 100])
def test_a_file_that_is_written_anew_while_it_is_read_fails_by_name(three: Path, rows: int) -> None:
    """A file that is written anew while it is read fails the query, which names the file, also if
    its size is the same.
    """
    reading = query(three, maxRowsPerTrigger="30")
    reading.step()
    size = (three / "0.parquet").stat().st_size
    away(three / "0.parquet")
    look(reading)
    write(three / "0.parquet", 1, ids=1000 if rows == 50 else 0, rows=rows)
    assert ((three / "0.parquet").stat().st_size == size) == (rows == 100)
    look(reading)
    reading.restart()
    was = "ended at position 100" if rows == 50 else "had modification time 2001-"
    with pytest.raises(DataLossError, match=rf"0\.parquet {was}.* overwritten"):
        reading.run()


@pytest.mark.parametrize("left", [[], ["0"]])
def test_a_run_over_a_bounded_source_does_not_end_while_files_are_away(
    three: Path, monkeypatch: pytest.MonkeyPatch, left: list[str]
) -> None:
    """A bounded run with missing files fails, and does not end: Spark would take the run for complete."""
    monkeypatch.setattr("flip27_stream.connectors.files.planning.enumerator._LATE_LOOK_MS", 10)
    monkeypatch.setattr("flip27_stream.connectors.files.backlog.listed_files._TIME_LIMIT_S", 0.2)
    options = {"path": str(three), "source.monitor-interval": "0", "maxFilesPerTrigger": "1"}
    reading = FileQuery(options, schema=IDS)
    reading.step()
    bring_back = [away(path) for path in three.iterdir() if path.stem not in left]
    reading.restart()
    with pytest.raises(DataLossError, match=r"2 of the files .* not read yet, and not all"):
        reading.run()
    for back in bring_back:
        back()
    reading.restart()
    reading.run()
    assert reading.ids() == dict.fromkeys(range(300), 1)


@pytest.mark.parametrize("processed", [1, 4])
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("names", [["a"], ["b"], ["a", "b"]])
def test_one_of_several_paths_that_is_empty_for_a_while_is_not_read_again(
    tmp_path: Path, names: list[str], restarted: bool, processed: int
) -> None:
    """A path that lists no file, or not all, for a while is not read again, also if its files come
    back after a restart.
    """
    for number, name in enumerate("aabb"):
        write(tmp_path / name / f"{number}.parquet", 1, ids=number * 100)
    paths = json.dumps([str(tmp_path / "a"), str(tmp_path / "b")])
    options = {"paths": paths, "maxFilesPerTrigger": "1", **NEVER_BY_ITSELF}
    reading = FileQuery(options, available_now=False, schema=IDS)
    for _ in range(processed):
        reading.step()
    bring_back = [away(path) for name in names for path in (tmp_path / name).iterdir()]
    look(reading)
    try_to_restart(reading, restarted)
    for back in bring_back:
        back()
    look(reading)
    reading.run()
    assert reading.ids() == dict.fromkeys(range(400), 1)


def test_files_under_a_path_that_shows_nothing_are_warned_of_once(
    three: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reading = query(three)
    reading.step()
    bring_back = [away(path) for path in three.iterdir()]
    for _ in range(3):
        look(reading)
    assert caplog.text.count(f"No file is listed under {three}, where files were listed before") == 1
    for back in bring_back:
        back()
    look(reading)
    for path in three.iterdir():
        away(path)
    look(reading)
    assert caplog.text.count("No file is listed under") == 2


@pytest.mark.timeout(60)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("option", ["ignoreDeletes", "skipChangeCommits"])
def test_delta_rows_that_are_deleted_and_restored_are_not_read_twice(
    tmp_path: Path, option: str, later: bool, restarted: bool
) -> None:
    """RESTORE adds the same file again that DELETE removed. It is a commit that changes rows, also
    after other batches.
    """
    table = tmp_path / "table"
    write_deltalake(table, pa.table({"id": np.arange(50)}))
    options = {"path": str(table), "files.format": "delta", option: "true", **NEVER_BY_ITSELF}
    reading = FileQuery(options, available_now=False)
    reading.step()
    if later:
        write_deltalake(table, pa.table({"id": np.arange(50, 60)}), mode="append")
        look(reading)
        reading.step()
    DeltaTable(table).delete()
    DeltaTable(table).restore(1 if later else 0)
    if restarted:
        reading.restart()
    with refused(option == "ignoreDeletes"):
        if not restarted:
            look(reading)
        reading.run()
    assert reading.ids() == dict.fromkeys(range(60 if later else 50), 1)


def refused(wanted: bool) -> AbstractContextManager[Any]:
    if not wanted:
        return nullcontext()
    return pytest.raises(
        DataLossError, match=r"Version \d of the Delta table .* restores rows.*skipChangeCommits"
    )


@pytest.mark.timeout(60)
def test_a_delta_file_that_is_restored_while_it_is_in_the_offset_is_not_read_again(tmp_path: Path) -> None:
    """With ``ignoreChanges`` rows may be read again. But a file that is still in the offset is not
    a second split of it.
    """
    table = tmp_path / "table"
    write_deltalake(table, pa.table({"id": np.arange(50)}))
    options = {"path": str(table), "files.format": "delta", "ignoreChanges": "true", **NEVER_BY_ITSELF}
    reading = FileQuery({**options, "maxRowsPerTrigger": "20"}, available_now=False)
    reading.step()
    DeltaTable(table).delete()
    DeltaTable(table).restore(0)
    look(reading)
    reading.run()
    assert reading.ids() == dict.fromkeys(range(50), 1)


def test_a_plan_that_neither_takes_a_file_nor_gives_it_another_place_fails(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that leaves its first file in place fails, or planning would repeat it for ever."""
    monkeypatch.setattr(FileSourceEnumerator, "_take", lambda *arguments: None)
    with pytest.raises(ContractError, match=r"0\.parquet .* was neither assigned nor moved"):
        query(three).step()
