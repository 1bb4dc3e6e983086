"""Tests of the spool through which rows reach a table that only a Spark session can write: its files, its locks, and
which commits are written together.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError, OptionError
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.table import catalog_spool
from watermark_alignment.table.catalog_spool import CatalogSpool, SpooledCommit
from watermark_alignment.table.file_lock import FileLock
from watermark_alignment.table.split_rows import as_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter
from watermark_alignment.table.written_batches import WrittenBatches
from watermark_alignment.table_location import catalog_name

NAME = "main.streaming.split_watermarks"
HOLDER = """
import sys
from pathlib import Path
from watermark_alignment.table.file_lock import FileLock
assert FileLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def spool(tmp_path: Path) -> CatalogSpool:
    spool = CatalogSpool(str(tmp_path / "user" / "warehouse"), NAME)
    spool.create()
    return spool


@pytest.fixture
def writer(spool: CatalogSpool) -> Iterator[FileLock]:
    """The lock that a session holds while it writes the table. It shows the planning process the session."""
    lock = spool.writer_lock()
    assert lock.acquire(shared=True)
    yield lock
    lock.release()


def commits(*batches: int) -> list[SpooledCommit]:
    return [SpooledCommit(Path(str(batch)), batch) for batch in batches]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("main.streaming.t", "main.streaming.t"),
        ("Web.T", "web.t"),
        ("`my-catalog`.web.`t 1`", "my-catalog.web.t 1"),
        ("t", None),
        ("a.b.c.d", None),
        ("./a.b", None),
        ("/a/b.c", None),
        ("s3://a.b", None),
        ("delta.`/a/b`", None),
    ],
)
def test_names_of_catalog_tables_are_recognised(text: str, name: str | None) -> None:
    assert catalog_name(text) == name


@pytest.mark.parametrize("option", ["table.option.aws_region", "source-timeout", "update-interval"])
def test_options_without_an_effect_are_refused(option: str) -> None:
    given = {
        "scan.watermark.alignment.group": "web",
        "scan.watermark.alignment.max-drift": "1 minute",
        "scan.watermark.alignment.table": NAME,
    }
    assert (options := AlignmentOptions.parse(given)) is not None
    assert options.in_catalog
    with pytest.raises(
        OptionError, match=rf"'scan\.watermark\.alignment\.{option}' has no effect with .*'{NAME}'"
    ):
        AlignmentOptions.parse(given | {f"scan.watermark.alignment.{option}": "5 minutes"})


def test_delta_rs_does_not_open_a_catalog_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AlignmentError, match=f"'{NAME}' is the name of a table in a catalog.*split_status"):
        SplitWatermarkTable(NAME, {}).rows()
    monkeypatch.chdir(tmp_path)
    SplitWatermarkTable(str(tmp_path / "web.t"), {}).append("a", 0, split_rows(0), {})
    assert SplitWatermarkTable("web.t", {}).rows().num_rows == 4  # a folder of that name


def test_commits_wait_in_order_until_they_are_taken(spool: CatalogSpool) -> None:
    writer = TableWriter(spool, "clicks:1")
    for batch in (9, 10, 11, 10):
        writer.submit(batch, split_rows(batch), {"note": str(batch)})
    assert writer.flush(60)
    writer.close()
    (waiting,) = spool.pending().values()
    assert [commit.batch for commit in waiting] == [9, 10, 11]
    for commit in waiting:
        rows = as_table(split_rows(commit.batch))
        assert commit.read() == ("clicks:1", rows, {"note": str(commit.batch)})


def test_rows_that_nobody_takes_are_bounded(spool: CatalogSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_spool, "_MOST_FILES", 2)
    for batch in range(2):
        spool.append("a", batch, split_rows(batch), {})
    with pytest.raises(AlignmentError, match=f"'{NAME}' are not written: 2 batches wait in"):
        spool.append("a", 2, split_rows(2), {})


def test_a_commit_that_the_session_takes_while_the_spool_is_measured(
    spool: CatalogSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session removes a file after the folder was listed. Nothing is wrong with the folder."""
    spool.append("app", 1, split_rows(1), {})
    listed = list(os.scandir(spool.folder))
    next(spool.folder.glob("*.arrow")).unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", lambda folder: iter(listed))
        spool.append("app", 2, split_rows(2), {})
    assert [commit.batch for (found,) in [spool.pending().values()] for commit in found] == [2]


@pytest.mark.usefixtures("writer")
def test_a_spool_that_is_cleaned_up_with_other_temporary_files_is_made_again(spool: CatalogSpool) -> None:
    """Rows and the lock of the group come back: else rows wait for ever, and a second source joins the group."""
    spool.open("web", "clicks")
    (lock,) = spool.folder.glob("*.group")
    note = lock.read_text()
    shutil.rmtree(spool.folder.parent.parent)
    spool.append("app", 1, split_rows(1), {})
    assert [commit.batch for found in spool.pending().values() for commit in found] == [1]
    assert not FileLock(lock).acquire()
    assert FileLock(lock).note() == note
    spool.close()
    assert FileLock(lock).acquire()


def test_rows_that_a_full_disk_refuses_leave_no_file(
    spool: CatalogSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that cannot be written leave nothing in the folder. They are written once there is space."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for batch in range(3):
            with pytest.raises(AlignmentError, match=f"'{NAME}' cannot be put into .*: .*No space left"):
                spool.append("a", batch, split_rows(batch), {})
    assert list(spool.folder.iterdir()) == []
    spool.append("a", 3, split_rows(3), {})
    assert [commit.batch for (waiting,) in [spool.pending().values()] for commit in waiting] == [3]


def test_without_a_writer_the_start_is_refused(spool: CatalogSpool, writer: FileLock) -> None:
    spool.open("web", "clicks")
    spool.close()
    writer.release()
    with pytest.raises(AlignmentError, match=rf"no session writes it.*CatalogTableWriter\(spark, '{NAME}'\)"):
        spool.open("web", "clicks")


def test_a_session_without_a_driver_of_its_own_is_refused() -> None:
    with pytest.raises(AlignmentError, match=r"Spark Connect.*scan\.watermark\.alignment\.table"):
        CatalogSpool("", NAME).open("web", "clicks")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AlignmentError, match=f"'{NAME}' cannot be put into .*file/root"):
        CatalogSpool(str(tmp_path / "file" / "root"), NAME).create()


@pytest.mark.usefixtures("writer")
def test_a_second_source_of_a_group_is_refused(spool: CatalogSpool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_spool, "_FORMER_PROCESS_S", 0.0)
    spool.open("web", "clicks")
    other = CatalogSpool(str(spool.folder.parent), f"{NAME}")
    with pytest.raises(AlignmentError, match="Group 'web' has another source, 'clicks', and source 'views'"):
        other.open("web", "views")
    hashes = [f"0123456{n}-0123456789abcde{n}" for n in range(2)]
    other.open("shop", hashes[0], "orders")
    with pytest.raises(AlignmentError, match="has another source, 'orders', and source '/data/views' cannot"):
        spool.open("shop", hashes[1], "/data/views")
    spool.close()
    CatalogSpool(str(spool.folder.parent), NAME).open("web", "views")


@pytest.mark.usefixtures("writer")
def test_a_restart_waits_for_the_end_of_the_former_run(
    spool: CatalogSpool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_spool, "_FORMER_PROCESS_S", 0.0)
    spool.open("web", "clicks")
    end = threading.Timer(0.3, spool.close)
    end.start()
    CatalogSpool(str(spool.folder.parent), NAME).open("web", "clicks")
    end.join()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=os.getcwd(),
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert not FileLock(file).acquire()
        holder.kill()
        holder.wait()
        assert FileLock(file).acquire()
    finally:
        holder.kill()
        holder.communicate()


def test_a_run_that_was_begun_is_begun_again_as_it_was(tmp_path: Path) -> None:
    """A run of commits that was begun is begun again with the same commits and the same version, by which Delta tells
    whether the run was written.
    """
    written = WrittenBatches(tmp_path / "written.json")
    run, rest = written.next_run("a", commits(4, 5, 6))
    assert (run, rest) == (
        commits(4),
        commits(5, 6),
    )  # the table may have batch 4 already, from another driver
    assert written.begin("a", run) == 4
    run, rest = written.next_run("a", commits(5, 6))
    assert (run, rest) == (commits(5, 6), [])
    assert written.begin("a", run) == 6

    after_a_kill = WrittenBatches(tmp_path / "written.json")
    run, rest = after_a_kill.next_run("a", commits(5, 6, 7))
    assert (run, rest) == (commits(5, 6), commits(7))
    assert after_a_kill.begin("a", run) == 6
    recorded_again, _ = after_a_kill.next_run("a", commits(6, 7))
    assert after_a_kill.begin("a", recorded_again) == 6
    assert after_a_kill.next_run("b", commits(1, 2)) == (commits(1), commits(2))
