"""Tests of the file system where the table lies: Databricks' mounts, files in place of folders, hard links."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.no_hard_links import CALLS, COMPILER, links_refused_in
from watermark_alignment.table import split_watermark_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.storage import location_checks
from watermark_alignment.table.storage.location_checks import check_place, has_hard_links, on_disk_of_driver

ROOT = Path(__file__).parents[3]
OPTION = "scan.watermark.alignment.table"


@pytest.mark.parametrize("below", ["", "folder/table"])
@pytest.mark.parametrize("act", [SplitWatermarkTable.open, SplitWatermarkTable.load])
def test_a_file_in_place_of_a_folder_is_named(
    tmp_path: Path, below: str, act: Callable[[SplitWatermarkTable], object]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        AlignmentError,
        match=rf"'{tmp_path}/file' is a file\. Give the path of a folder \(option {OPTION}\)\.$",
    ):
        act(SplitWatermarkTable(str(tmp_path / "file" / below), {}))


def test_a_mount_of_dbfs_is_no_folder_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Databricks Spark takes ``/mnt/...`` for ``dbfs:/mnt/...``, and delta-rs for a folder of the driver."""
    check_place("/mnt/lake/table")
    monkeypatch.setattr(location_checks, "_DBFS_MOUNTS", tmp_path)
    with pytest.raises(AlignmentError, match=r"Write 'dbfs:/mnt/lake/table', or 'file:/mnt/lake/table'"):
        check_place("/mnt/lake/table")
    check_place("file:/mnt/lake/table")


def test_a_folder_on_the_disk_of_a_driver_of_databricks_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark takes the same path for one of DBFS, for example in a checkpointLocation."""
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == "/dbfs" or os.path.isdir(path))
    table = str(tmp_path / "t")
    for location in (table, table, f"file:{table}"):
        SplitWatermarkTable(location, {}).open()
    (warning,) = caplog.messages
    assert "is a folder on the driver's disk, which is deleted with the cluster." in warning
    assert f"Spark takes the same path for 'dbfs:{table}'" in warning
    assert (
        on_disk_of_driver("/dbfs/t")
        is on_disk_of_driver("/Volumes/m/s/v/t")
        is on_disk_of_driver("dbfs:/t")
        is None
    )


@pytest.mark.skipif(Path("/dbfs").exists(), reason="there is such a file system")
@pytest.mark.parametrize("location", ["dbfs:/delta/t", "/dbfs/delta/t"])
def test_a_dbfs_path_outside_databricks_is_refused(location: str) -> None:
    """Without ``/dbfs`` the table is refused, and no folder of that name is made."""
    with pytest.raises(
        AlignmentError, match=f"Option '{OPTION}' is '{location}', but this driver has no /dbfs"
    ):
        SplitWatermarkTable(location, {}).open()
    assert not Path("/dbfs").exists()


@pytest.mark.parametrize("location", ["/volumes/main/s/v/t", "/Volume/main/s/v/t"])
def test_a_misspelt_volume_is_no_new_folder_of_the_driver(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    with pytest.raises(AlignmentError, match="write '/Volumes/main/s/v/t'"):
        check_place(location)


def test_a_folder_of_such_a_name_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == "/volumes")
    check_place("/volumes/data/t")


@pytest.mark.skipif(Path("/Volumes").exists(), reason="there is such a file system")
@pytest.mark.parametrize("location", ["dbfs:/Volumes/main/s/v/t", "/Volumes/main/s/v/t"])
def test_a_volume_outside_databricks_is_named_as_it_was_given(location: str) -> None:
    with pytest.raises(AlignmentError, match=f"is '{location}', but this driver has no /Volumes"):
        check_place(location)


def test_a_path_of_dbfs_is_named_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """delta-rs fails at the path under ``/dbfs``, here one where no user can make a folder."""
    monkeypatch.setattr(split_watermark_table, "for_delta_rs", lambda _: "/proc/t")
    monkeypatch.setattr(split_watermark_table, "check_place", lambda _: None)
    with pytest.raises(AlignmentError, match="The split-watermark table at 'dbfs:/delta/t' cannot be opened"):
        SplitWatermarkTable("dbfs:/delta/t", {}).open()


def test_other_paths_need_no_mount(tmp_path: Path) -> None:
    check_place(str(tmp_path))


def test_the_trial_of_hard_links_leaves_no_file(tmp_path: Path) -> None:
    assert has_hard_links(str(tmp_path / "not" / "there"), {})
    assert list(tmp_path.iterdir()) == []


def test_trials_of_other_members_are_no_other_use_of_the_path(tmp_path: Path) -> None:
    """Members that open a table at once in an empty folder see each other's trials. A killed one leaves its files."""
    begun, killed = (tmp_path / f".flip27-probe-{digit * 16}" for digit in "ab")
    for file in (begun, killed, killed.with_suffix(".link")):
        file.touch()
    long_ago = time.time() - 3600
    for file in (killed, killed.with_suffix(".link")):
        os.utime(file, (long_ago, long_ago))
    SplitWatermarkTable(str(tmp_path), {}).open()
    assert sorted(file.name for file in tmp_path.iterdir()) == [begun.name, "_delta_log"]


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def link(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", link)
    assert not has_hard_links(f"file://{tmp_path}", {})
    assert has_hard_links(str(tmp_path), {"Allow_Unsafe_Rename": "true"}), "the user has chosen"
    assert has_hard_links("s3://bucket/table", {})
    assert list(tmp_path.iterdir()) == []


SCRIPT = """
import sys
from tests.watermark_alignment.support.no_hard_links import refuse_hard_links
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

refuse_hard_links(int(sys.argv[2]))
table, other = (SplitWatermarkTable(sys.argv[1], {}) for _ in range(2))
for batch in range(3):
    table.append("clicks", batch, split_rows(batch), {})
    other.note({"flip27.member": "{}"})
assert Maintenance(table, clock=lambda: START_MS).run()
print(table.rows().num_rows)
"""


@pytest.mark.long
@pytest.mark.skipif(platform.machine() not in CALLS, reason="the numbers of its system calls are not known")
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_a_table_is_written_where_the_kernel_refuses_hard_links(tmp_path: Path, error: int) -> None:
    """delta-rs writes and maintains a table although the kernel refuses hard links ("Function not implemented"), as
    on Databricks volumes. A warning says when that is safe.
    """
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "table"), str(error)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (0, "12\n"), done.stderr
    assert done.stderr.count("has no hard links") == 1
    assert "safe as long as one source writes" in done.stderr
    assert "S3, ADLS or GCS by their URIs, or a local disk" in done.stderr


IN_A_FOLDER = """
import sys
from pathlib import Path
from deltalake import write_deltalake
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.table.split_rows import as_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

volume, disk = (Path(place) for place in sys.argv[1:])
for place in (volume, disk):
    try:
        write_deltalake(place / "by delta-rs", as_table(split_rows(0)))
    except OSError as error:
        print(place.name, "os error 38" in str(error))
    SplitWatermarkTable(str(place / "table"), {}).append("clicks", 0, split_rows(0), {})
"""


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for a folder without hard links")
def test_only_a_table_in_a_folder_without_hard_links_is_written_by_renaming(tmp_path: Path) -> None:
    """Hard links are refused to delta-rs in one folder and not in the one beside it, and the warning is of the one."""
    volume, disk = tmp_path / "volume", tmp_path / "disk"
    for place in (volume, disk):
        place.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **links_refused_in(volume, tmp_path)}
    command = [sys.executable, "-c", IN_A_FOLDER, str(volume), str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout) == (0, "volume True\n"), done.stderr
    assert done.stderr.count("has no hard links") == 1
    assert f"'{volume}/table' has no hard links" in done.stderr
