"""Maintenance deletes files that the table no longer has, and no others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import PyFileSystem

from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table import maintenance as maintenance_module
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


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
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert not forgotten.exists()
    assert being_written.exists()


def test_two_rounds_may_delete_the_same_forgotten_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round of another member deletes the file between the listing and the deletion of this round."""
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    forgotten = path / "part-forgotten.parquet"
    shutil.copy(next(path.glob("part-*.parquet")), forgotten)
    _make_old(forgotten)

    def deleted_by_another(store: PyFileSystem, name: str) -> bool:
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


def _make_old(path: Path) -> None:
    long_ago = path.stat().st_mtime - 2 * 3600
    os.utime(path, (long_ago, long_ago))
