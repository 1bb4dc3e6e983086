"""A Delta table that vanishes, comes back, is made anew or loses versions, under a running query and a stopped one."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from flip27_stream.connectors.files.delta import delta_backlog as delta_files
from flip27_stream.connectors.files.delta import delta_log
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import ConnectorError, DataLossError, UnreachableError
from flip27_stream.testing import wait_until
from tests.connectors.files.support.delta_tables import append, fails, query, reads, running


def made(path: Path, versions: int, first_id: int = 0) -> Path:
    for number in range(versions):
        append(path, 1, first_id + number * 10, rows=10)
    return path


def drop_versions(table: Path, versions: range) -> None:
    for version in versions:
        (table / "_delta_log" / f"{version:020}.json").unlink()


@pytest.mark.parametrize("versions", [1, 3, 6])
def test_a_table_recreated_under_a_running_query_is_noticed(tmp_path: Path, versions: int) -> None:
    """A table made anew is noticed, whether it has fewer versions than the old table, as many, or more. Its first
    versions would count as read.
    """
    table = made(tmp_path / "t", 3)
    reading = running(table)
    made(tmp_path / "new", versions, first_id=1000)
    shutil.rmtree(table)
    (tmp_path / "new").rename(table)
    with pytest.raises(DataLossError, match="deleted and created again"):
        fails(reading)
    assert len(reading.rows) == 30


def test_a_table_recreated_during_a_look_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table is made anew in the middle of a look, after its id was compared. The look still notices it."""
    table = made(tmp_path / "t", 3)
    reading = running(table, **{"source.monitor-interval": "1 h"})
    backlog = reading.coordinator._enumerator._backlog  # type: ignore[union-attr]
    made(tmp_path / "new", 6, first_id=1000)
    look = backlog._added_after

    def swapped(version: int) -> object:
        shutil.rmtree(table)
        (tmp_path / "new").rename(table)
        return look(version)

    monkeypatch.setattr(backlog, "_added_after", swapped)
    with pytest.raises(DataLossError, match="deleted and created again"):
        backlog.look()


def test_a_table_made_anew_whose_commits_would_be_refused(tmp_path: Path) -> None:
    """A table made anew has commits that would be refused. The error says that it is another table."""
    table = made(tmp_path / "t", 1)
    reading = running(table)
    new = made(tmp_path / "new", 2, first_id=1000)
    DeltaTable(new).delete("id = 1001")
    shutil.rmtree(table)
    new.rename(table)
    with pytest.raises(DataLossError, match="deleted and created again"):
        fails(reading)


def test_an_older_copy_of_the_table_fails_the_query(tmp_path: Path) -> None:
    """An older copy of a table has the same id, and other rows under the same version."""
    table = made(tmp_path / "t", 2)
    shutil.copytree(table, tmp_path / "copy")
    append(table, 1, 20, rows=10)
    reading = running(table)
    append(tmp_path / "copy", 1, 1000, rows=10)
    append(tmp_path / "copy", 1, 2000, rows=10)
    shutil.rmtree(table)
    (tmp_path / "copy").rename(table)
    with pytest.raises(DataLossError, match="older copy"):
        fails(reading)


def test_a_table_that_is_away_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount is away for a moment: no row is lost, and no row is read twice."""
    monkeypatch.setattr(Retries, "pause_s", 0.01)
    table = made(tmp_path / "t", 3)
    reading = running(table)
    table.rename(tmp_path / "away")
    backlog = reading.coordinator._enumerator._backlog  # type: ignore[union-attr]
    with pytest.raises(UnreachableError, match="no Delta table at"):
        backlog.look()
    (tmp_path / "away").rename(table)
    append(table, 1, 30, rows=10)
    reads(reading, 40)
    assert Counter(row["id"] for row in reading.rows) == Counter(range(40))


@pytest.mark.parametrize(
    "away",
    [
        ["00000000000000000001.checkpoint.parquet"],
        ["_last_checkpoint", "00000000000000000001.checkpoint.parquet"],
        ["00000000000000000001.json", "_last_checkpoint", "00000000000000000001.checkpoint.parquet"],
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_files_of_the_log_that_are_away_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: list[str], restarts: bool
) -> None:
    """Files of the log are missing for a moment, while the log is cleaned up or a mount comes back. No row is lost,
    and no row is read twice.
    """
    monkeypatch.setattr(delta_files, "_PROVEN_S", 0.0)
    monkeypatch.setattr(Retries, "pause_s", 0.01)
    table = made(tmp_path / "t", 2)
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{0:020}.json").unlink()
    append(table, 1, 20, rows=10)
    columns = DeltaTable(table).schema().to_arrow()
    reading = running(table, pa.schema(columns), maxFilesPerTrigger="1")
    if restarts:
        for count in range(2):
            append(table, 1, 30 + 10 * count, rows=10)
        reading.step()
    for name in away:
        (table / "_delta_log" / name).rename(tmp_path / name)
    if restarts:
        reading.restart()
    failures: list[str] = []
    check = Retries._check_time_limit

    def come_back(self: Retries, error: UnreachableError, failing_s: float) -> None:
        failures.append(str(error))
        if len(failures) == 2:
            for name in away:
                (tmp_path / name).rename(table / "_delta_log" / name)
        check(self, error, failing_s)

    monkeypatch.setattr(Retries, "_check_time_limit", come_back)
    wait_until(lambda: reading.run() is not None and len(failures) > 1, "looks to fail")
    there = 50 if restarts else 30
    append(table, 1, there, rows=10)
    reads(reading, there + 10)
    assert Counter(row["id"] for row in reading.rows) == Counter(range(there + 10))


def test_a_version_that_is_away_while_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version is lost only if it is missing while the table is there. A version that is missing at
    first is read later.
    """
    table = made(tmp_path / "t", 3)
    reading = query(table, maxFilesPerTrigger="1")
    reading.step()
    reading.restart()
    versions: list[int] = []

    def loaded(uri: str, version: int | None, **more: Any) -> DeltaTable:
        if version is not None and version not in versions:
            versions.append(version)
            raise DeltaError("Kernel error: File not found")
        return DeltaTable(uri, version=version, **more)

    monkeypatch.setattr(delta_log, "DeltaTable", loaded)
    reading.run()
    assert versions
    assert Counter(row["id"] for row in reading.rows) == Counter(range(30))


def test_a_table_that_is_away_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retries, "pause_s", 0.01)
    monkeypatch.setattr(Retries, "time_limit_s", 0.1)
    table = made(tmp_path / "t", 3)
    reading = running(table)
    shutil.rmtree(table)
    with pytest.raises(UnreachableError, match=r"no Delta table at .* was tried repeatedly for"):
        fails(reading)


def test_versions_that_were_cleaned_up_under_a_query_that_slept(tmp_path: Path) -> None:
    """A query sleeps while versions are removed from the log. It would wait for ever if it only asked
    for the next version.
    """
    table = made(tmp_path / "t", 3)
    reading = running(table, **{"source.monitor-interval": "1 h"})
    made(table, 3, first_id=100)
    DeltaTable(table).create_checkpoint()
    drop_versions(table, range(5))
    backlog = reading.coordinator._enumerator._backlog  # type: ignore[union-attr]
    with pytest.raises(DataLossError, match=r"Version 3 .* up to version 4, is no longer in its log"):
        backlog.look()


def test_a_version_that_is_lost_while_later_ones_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next version is missing and a later one is there. A running query fails, and does not wait for ever."""
    monkeypatch.setattr(delta_files, "_PROVEN_S", 0.0)
    table = made(tmp_path / "t", 3)
    reading = running(table)
    made(tmp_path / "t", 3, first_id=100)
    DeltaTable(table).create_checkpoint()
    reads(reading, 60)
    made(tmp_path / "t", 1, first_id=200)
    later = table / "_delta_log" / f"{6:020}.json"
    later.rename(later.with_name(f"{7:020}.json"))
    with pytest.raises(ConnectorError, match=r"The Delta table .* could not be read: .* next commit 7\."):
        fails(reading)


def test_lost_versions_are_skipped_without_fail_on_data_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Lost versions are passed over without ``failOnDataLoss``, as in Delta's source. Rows that they added are lost,
    and the log says so.
    """
    table = made(tmp_path / "t", 3)
    reading = query(table, failOnDataLoss="false")
    reading.run()
    made(table, 3, first_id=100)
    DeltaTable(table).create_checkpoint()
    drop_versions(table, range(5))
    reading.restart()
    reading.run()
    append(table, 1, 500, rows=10)
    reading.restart()
    reading.run()
    assert {row["id"] for row in reading.rows} == {*range(30), *range(120, 130), *range(500, 510)}
    assert "Version 3 of the Delta table" in caplog.text


def test_a_lost_start_is_skipped_without_fail_on_data_loss(tmp_path: Path) -> None:
    table = made(tmp_path / "t", 6)
    DeltaTable(table).create_checkpoint()
    drop_versions(table, range(4))
    reading = query(table, startingVersion="1", failOnDataLoss="false")
    reading.run()
    assert {row["id"] for row in reading.rows} == set(range(40, 60))


@pytest.mark.parametrize("options", [{"startingVersion": "1"}, {}])
def test_a_version_lost_in_the_middle_is_skipped_without_fail_on_data_loss(
    tmp_path: Path, options: dict[str, str]
) -> None:
    """The rest of a begun snapshot or version is lost, and later versions are read."""
    table = made(tmp_path / "t", 4)
    reading = query(table, maxFilesPerTrigger="1", failOnDataLoss="false", **options)
    assert reading.step()
    append(table, 1, 500, rows=10)
    DeltaTable(table).create_checkpoint()
    drop_versions(table, range(4))
    reading.restart()
    reading.run()
    assert {row["id"] for row in reading.rows} >= set(range(500, 510))
    assert len(reading.rows) == 20
