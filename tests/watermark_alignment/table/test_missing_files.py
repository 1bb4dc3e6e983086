"""Data files of the table are deleted before their commit, or by hand."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table import split_watermark_table as table_module
from watermark_alignment.table.data_files import DataFile
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def filled(path: Path, batches: int) -> SplitWatermarkTable:
    table = SplitWatermarkTable(str(path), {})
    for batch in range(batches):
        table.append("clicks/1", batch, split_rows(batch), {})
    return table


def test_rows_whose_file_was_deleted_before_the_commit_are_written_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is suspended between the file and the commit, and the vacuum of another member deletes the file."""
    table = filled(path, 2)
    written: list[str] = []

    def deleted_meanwhile(*args: Any, **options: Any) -> None:
        before = set(path.glob("part-*.parquet"))
        write_deltalake(*args, **options)
        if not written:
            (new,) = set(path.glob("part-*.parquet")) - before
            new.unlink()
        written.append("rows")

    monkeypatch.setattr(table_module, "write_deltalake", deleted_meanwhile)
    assert table.append("clicks/1", 2, split_rows(2), {"a": "note"})
    assert len(written) == 2
    assert sorted(set(SplitWatermarkTable(str(path), {}).rows()["batch"].to_pylist())) == [0, 1, 2]
    assert table.rows().num_rows == 3 * 4
    assert not table.append("clicks/1", 2, split_rows(2), {}), "the table has the batch"
    assert table.delta.history(1)[0]["a"] == "note"


def test_rows_that_cannot_be_written_again_are_told_to_be_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The table has the batch of their commit, so no later attempt writes them."""
    table = filled(path, 2)

    def deleted_meanwhile(*args: Any, **options: Any) -> None:
        before = set(path.glob("part-*.parquet"))
        write_deltalake(*args, **options)
        (new,) = set(path.glob("part-*.parquet")) - before
        new.unlink()
        monkeypatch.setattr(table_module, "write_deltalake", unreachable)

    def unreachable(*args: Any, **options: Any) -> None:
        raise DeltaError("the network is down")

    monkeypatch.setattr(table_module, "write_deltalake", deleted_meanwhile)
    assert not table.append("clicks/1", 2, split_rows(2), {})
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert "do not exist: 1, " in caplog.text
    assert "4 rows" in caplog.text


def test_a_round_makes_a_table_with_missing_files_readable(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = filled(path, 3)
    lost = path / os.path.basename(table.delta.file_uris()[1])
    lost.unlink()
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert sorted(set(SplitWatermarkTable(str(path), {}).rows()["batch"].to_pylist())) == [0, 2]
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING
    for told in (
        str(path),
        lost.name,
        "4 rows, recorded from 2023-11-14 22:13:21 to 2023-11-14 22:13:21 UTC",
    ):
        assert told in warning.getMessage()
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert len(caplog.records) == 1


def test_a_missing_file_with_a_deletion_vector_is_not_said_to_be_removed(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """delta-rs cannot remove it: the entry that removes a file must have its deletion vector, too."""
    table = filled(path, 2)
    commit = path / "_delta_log" / f"{table.delta.version():020}.json"
    [file] = [json.loads(line)["add"] for line in commit.read_text().splitlines() if '"add"' in line]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "sizeInBytes": 40,
        "cardinality": 1,
    }
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": file["path"], "dataChange": True, "deletionTimestamp": START_MS}},
        {"add": {**file, "deletionVector": {**vector, "offset": 4}}},
    ]
    next_commit = commit.with_name(f"{table.delta.version() + 1:020}.json")
    next_commit.write_text("\n".join(map(json.dumps, actions)))
    (path / file["path"]).unlink()
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert len(table.delta.file_uris()) == 2
    assert "were removed" not in caplog.text


def test_a_folder_that_is_gone_loses_no_rows(path: Path) -> None:
    """A mount ends while a round looks for files."""
    table = filled(path, 2)
    away = path.with_name("away")

    class Unmounted(SplitWatermarkTable):
        def reload(self) -> None:
            super().reload()
            if not away.exists():
                path.rename(away)
                path.mkdir()

    assert not Maintenance(Unmounted(str(path), {}), clock=lambda: START_MS).run()
    shutil.rmtree(path)
    away.rename(path)
    assert table.rows().num_rows == 2 * 4


def test_a_merged_file_that_was_deleted_replaces_no_other(path: Path) -> None:
    table = filled(path, 3)

    class Suspended(Maintenance):
        """A maintenance that is suspended before the commit, so that a vacuum deletes the merged file."""

        def _replace(self, removed: Sequence[DataFile], added: Sequence[AddAction]) -> bool:
            (path / added[0].path).unlink()
            return super()._replace(removed, added)

    assert Suspended(table, clock=lambda: START_MS).run()
    assert table.rows().num_rows == 3 * 4


def test_rows_expire_by_the_clock_of_the_store(path: Path) -> None:
    """The clock of this member is 30 days ahead of the store and of the other members."""
    table = SplitWatermarkTable(str(path), {})
    day_ms = 86_400_000
    store_now = int(time.time() * 1000) - 30 * day_ms
    for source, at in (("old", store_now - 8 * day_ms), ("new", store_now)):
        rows = [replace(row, recorded_at=at) for row in split_rows(0, source=source)]
        table.append(f"{source}/1", 0, rows, {})
    for commit in (path / "_delta_log").iterdir():
        os.utime(commit, (store_now / 1000, store_now / 1000))
    assert Maintenance(table).run()
    assert set(table.rows()["source"].to_pylist()) == {"new"}
