"""The files of a table are used without stopping other threads, where that is possible."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileType, SubTreeFileSystem

from flip27_stream.errors import UnreachableError
from flip27_stream.local_calls import LocalCall
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemoryWorld
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.storage import table_files
from watermark_alignment.table.storage.table_files import files_at

ROOT = Path(__file__).parents[3]
HUNG = """
import os, sys, threading
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

table = SplitWatermarkTable(sys.argv[1], {})
log = GroupLog(table, "web", 60_000)
table.note({})
log.new_entries()
commit = f"{sys.argv[1]}/_delta_log/{table.delta.version() + 1:020}.json"
os.mkfifo(commit)
reader = threading.Thread(target=log.new_entries)
reader.start()
with open(commit, "wb") as pipe:  # The other thread waits in the same call until this thread makes its own.
    os.unlink(commit)
    print("this thread runs", flush=True)
reader.join()
"""


def test_a_file_system_that_hangs_stops_only_the_thread_that_reads(tmp_path: Path) -> None:
    """The next commit is a pipe without a writer, which is opened by a thread. The thread waits until another thread
    opens the pipe, too.
    """
    command = [sys.executable, "-c", HUNG, str(tmp_path / "table")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, done.stdout) == (0, "this thread runs\n"), done.stderr


def test_a_query_whose_table_hangs_as_it_starts_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last checkpoint of the table is a pipe without a writer. Once it answers, the query starts."""
    monkeypatch.setattr(LocalCall, "time_limit_s", 0.5)
    table = tmp_path / "table"
    SplitWatermarkTable(table, {}).open()
    pipe = table / "_delta_log" / "_last_checkpoint"
    os.mkfifo(pipe)
    query = DrivenQuery(MemoryWorld({"a": [1, 2, 3]}), table)
    try:
        with pytest.raises(
            UnreachableError, match=r"Opening the split-watermark table at '.*/table' hangs: no .* for 0\.5 s"
        ):
            query.step()
    finally:
        os.close(os.open(pipe, os.O_RDWR))
        pipe.unlink()
    query.restart()
    assert query.step() == [("a", 1), ("a", 2), ("a", 3)]
    query.coordinator.close()


@pytest.mark.parametrize("name", ["plain", "with blank", "a=b#c?d", "ü"])
@pytest.mark.parametrize("as_uri", [False, True])
def test_local_files_are_found_under_the_names_in_the_log(tmp_path: Path, name: str, as_uri: bool) -> None:
    path = tmp_path / name
    table = SplitWatermarkTable(f"file://{quote(str(path))}" if as_uri else str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    assert path.is_dir()
    [data_file] = table.delta.get_add_actions(flatten=True)["path"].to_pylist()
    files = table.files()
    assert isinstance(files, SubTreeFileSystem)
    assert files.get_file_info(data_file).type is FileType.File


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        ({}, {"connect_timeout": "5s", "timeout": "15s", "retry_timeout": "15s"}),
        (
            {"Timeout": "1m", "retry_timeout": "2m"},
            {"connect_timeout": "5s", "Timeout": "1m", "retry_timeout": "2m"},
        ),
    ],
)
def test_calls_to_a_store_have_short_time_outs_unless_others_are_given(
    monkeypatch: pytest.MonkeyPatch, given: Mapping[str, str], bounds: Mapping[str, str]
) -> None:
    handed: list[Mapping[str, str]] = []

    def handler(location: str, options: dict[str, str]) -> object:
        handed.append(options)
        return DeltaStorageHandler(location, options)

    monkeypatch.setattr(table_files, "DeltaStorageHandler", handler)
    files_at("s3://bucket/table", {"aws_region": "us-east-1", **given})
    assert handed == [{"aws_region": "us-east-1", **bounds}]
