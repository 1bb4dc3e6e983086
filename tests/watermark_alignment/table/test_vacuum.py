"""Maintenance deletes files that the table no longer has, and no others."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow.fs import FileSystem

from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table import maintenance as maintenance_module
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.storage.table_files import files_at, whole_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def test_forgotten_files_are_removed_and_those_being_written_are_not(path: Path) -> None:
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    written = next(path.glob("part-*.parquet"))
    forgotten, being_written = path / "part-forgotten.parquet", path / "part-being-written.parquet"
    for file in forgotten, being_written:
        shutil.copy(written, file)
    _make_old(forgotten)
    _make_old(being_written, hours=20)
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert not forgotten.exists()
    assert being_written.exists(), (
        "the process that writes it may be suspended, or this machine's clock ahead"
    )


def test_files_that_were_replaced_are_removed_before_a_checkpoint_forgets_them(path: Path) -> None:
    """Only the vacuum of files that nothing names would find them later, when they are a day old."""
    keep_nothing = {"delta.deletedFileRetentionDuration": "interval 0 seconds"}
    DeltaTable.create(str(path), SCHEMA, configuration=keep_nothing)
    table = SplitWatermarkTable(str(path), {})
    for batch in range(5):
        table.append("clicks/1", batch, split_rows(batch), {})
    table.delta.optimize.compact()
    Maintenance(table, checkpoint_every=10, round_every=1000).committed(10)
    assert len(list(path.glob("part-*.parquet"))) == 1
    assert len(list(path.glob("_delta_log/*.checkpoint.parquet"))) == 1


def test_two_rounds_may_delete_the_same_forgotten_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round of another member deletes the file between the listing and the deletion of this round."""
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    forgotten = path / "part-forgotten.parquet"
    shutil.copy(next(path.glob("part-*.parquet")), forgotten)
    _make_old(forgotten)

    def deleted_by_another(store: FileSystem, name: str) -> bool:
        forgotten.unlink()
        return True

    monkeypatch.setattr(maintenance_module, "_has_own_schema", deleted_by_another)
    assert Maintenance(table, clock=lambda: START_MS).run()


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint/offsets/0",
        "checkpoint/metadata",
        "sink/part-00000-0000.parquet",
        "landing.json",
        "part-cut-off.parquet",
        "part-of-another-table.parquet",
    ],
)
def test_files_of_others_in_the_folder_of_the_table_are_kept(path: Path, name: str) -> None:
    """A full vacuum of delta-rs deletes all of them."""
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    other = path / name
    other.parent.mkdir(parents=True, exist_ok=True)
    if "of-another-table" in name:
        pq.write_table(pa.table({"id": [1]}), other)
    else:
        other.write_bytes(b"PAR1")
    _make_old(other)
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert other.exists()


UNFINISHED = (
    "part-00000-0e5ca0de.c000.snappy.parquet#1",
    "part-0e5ca0de.zstd.parquet#12",
    ".flip27-probe-0123456789abcdef",
    ".flip27-probe-0123456789abcdef.link",
    "_delta_log/00000000000000000007.json#1",
    "_delta_log/00000000000000000007.checkpoint.parquet#1",
    "_delta_log/_last_checkpoint#1",
    "_delta_log/_commit_0e5ca0de-8b9c-4d8c-9d0a-3a4f5b6c7d8e.json.tmp",
)


def test_unfinished_files_of_killed_processes_are_removed_when_they_are_old(path: Path) -> None:
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    others = [
        path / "notes.txt#1",
        path / "_delta_log" / "notes.txt",
        path / "part-of-a-sink" / "part-0.parquet#1",
    ]
    others[-1].parent.mkdir()
    old = [path / name for name in UNFINISHED]
    young = [path / name.replace("0e5ca0de", "1e5ca0de").replace("7.", "8.") for name in UNFINISHED]
    young = [file for file in young if file not in old]
    for file in (*old, *young, *others):
        file.touch()
    for file in (*old, *others):
        _make_old(file)
    for file in young:
        _make_old(file, hours=20)
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert [file.name for file in old if file.exists()] == []
    assert len(young) == 5
    assert all(file.exists() for file in (*young, *others))


def test_a_file_of_a_compaction_that_is_killed_has_no_name_of_a_data_file(path: Path) -> None:
    """Otherwise no round would remove it: its columns cannot be read."""
    path.mkdir()
    files = files_at(str(path), {})
    with suppress(KeyboardInterrupt), whole_file(files, "part-1.parquet") as out:
        out.write(b"PAR1")
        raise KeyboardInterrupt
    assert [file.name for file in path.iterdir()] == ["part-1.parquet#1"]
    with whole_file(files, "part-1.parquet") as out:
        out.write(b"PAR1")
    assert [file.name for file in path.iterdir()] == ["part-1.parquet"]


def test_a_file_of_a_compaction_that_fails_takes_no_space(path: Path) -> None:
    """Each round on a full disk would leave one for a day, and take what other programs have freed."""
    path.mkdir()
    with suppress(OSError), whole_file(files_at(str(path), {}), "part-1.parquet") as out:
        out.write(b"PAR1")
        raise OSError("no space")
    assert list(path.iterdir()) == []


def _make_old(path: Path, hours: int = 48) -> None:
    long_ago = path.stat().st_mtime - hours * 3600
    os.utime(path, (long_ago, long_ago))
