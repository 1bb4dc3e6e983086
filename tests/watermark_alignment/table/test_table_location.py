"""Tests of where the table may lie: relative paths, Databricks' paths, file systems without hard links, object
stores.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from flip27_stream.errors import AlignmentError, OptionError
from flip27_stream.options.dbfs import on_driver
from tests.watermark_alignment.support.no_hard_links import CALLS, COMPILER, links_refused_in
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment import table_location
from watermark_alignment.table.split_watermark_table import NoTableError, SplitWatermarkTable
from watermark_alignment.table_location import (
    check_folder,
    has_hard_links,
    parse_location,
    remedy,
)

ROOT = Path(__file__).parents[3]
OPTION = "scan.watermark.alignment.table"


@pytest.mark.parametrize(
    "text",
    [
        *("split_watermarks", "./split_watermarks", "../split_watermarks/", "~/split_watermarks"),
        *("a/b.c", "delta.`/a/c`", r"C:\a\c", "C:/a/c", "file:c", "s3:/a/c", "jdbc:postgresql://a/c"),
    ],
)
def test_a_relative_path_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_location(text, OPTION)
    assert f"'{OPTION}': {text!r}" in str(refused.value)
    name = "split_watermarks" if "split" in text else "c"
    for advice in (f"/Volumes/main/streaming/files/{name}", f"s3://bucket/{name}", f"main.streaming.{name}"):
        assert advice in str(refused.value)


def test_a_name_with_a_hyphen_is_corrected_in_the_advice() -> None:
    with pytest.raises(OptionError, match=r"such as main\.streaming\.split_watermarks\."):
        parse_location("main.streaming.split-watermarks", OPTION)


@pytest.mark.parametrize(
    "text",
    [
        "/delta/t",
        "s3://bucket/t",
        "file:///t",
        "file:/t",
        "dbfs:/t",
        "abfss://c@a.dfs.core.windows.net/t",
        "hdfs:///t",
    ],
)
def test_an_absolute_path_is_accepted(text: str) -> None:
    assert parse_location(f" {text} ", OPTION) == text


@pytest.mark.parametrize(
    "text", ["s3://key:s3cr3t@bucket/t", "s3://key:s3c/r3t@bucket/t", "hdfs://me:s3cr3t@node/t"]
)
def test_credentials_in_a_uri_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(OptionError, match="credentials") as refused:
        parse_location(text, OPTION)
    assert "r3t" not in str(refused.value)
    assert f"{OPTION}.option.<name>" in str(refused.value)


@pytest.mark.parametrize("text", ["s3://", "s3:///t", "S3A://", "gs://", "abfss://", "hdfs://", "file://"])
def test_a_uri_without_a_bucket_is_refused(text: str) -> None:
    said = rf"'{OPTION}': '{text}'\. The URI does not say in which bucket, .* such as s3://bucket/folder"
    with pytest.raises(OptionError, match=said):
        parse_location(text, OPTION)


@pytest.mark.parametrize(("text", "name"), [("uc://a.b.t", "a.b.t"), ("uc://", "catalog.schema.table")])
def test_a_uri_of_a_catalog_is_refused_with_the_name_of_the_table(text: str, name: str) -> None:
    said = rf"Write the name of the table, {name}, .* flip27_stream\.table_location\(spark, '{name}'\)\.path"
    with pytest.raises(OptionError, match=said):
        parse_location(text, OPTION)


@pytest.mark.parametrize("text", ["/delta/t%20x", "dbfs:/delta/a%2Fb"])
def test_a_path_with_an_escape_is_refused(text: str) -> None:
    """delta-rs writes to the path as it is given, and then reads from the path that the escape stands for."""
    with pytest.raises(OptionError, match=r"reads '%2.' in a path as '.', and would use another folder"):
        parse_location(text, OPTION)


@pytest.mark.parametrize("name", ["a b/ü t", "100%/t", "a#b?c", "it's", "$HOME"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_path_may_have_any_other_characters(tmp_path: Path, scheme: str, name: str) -> None:
    """A path is taken as it is, and the path of a URI by its escapes."""
    given = f"file://{quote(str(tmp_path / name))}" if scheme else str(tmp_path / name)
    table = SplitWatermarkTable(parse_location(given, OPTION), {})
    table.append("clicks", 0, split_rows(0), {})
    assert (tmp_path / name / "_delta_log").is_dir()
    assert SplitWatermarkTable(given, {}).rows().num_rows == 4


@pytest.mark.parametrize("location", ["wasbs://c@a.blob.core.windows.net/t", "https://host/t"])
@pytest.mark.parametrize("act", [SplitWatermarkTable.open, SplitWatermarkTable.load])
def test_an_unknown_scheme_is_refused(location: str, act: Callable[[SplitWatermarkTable], object]) -> None:
    """The error about an unknown scheme says in one sentence what to write, instead of delta-rs' list of some fifty
    schemes.
    """
    with pytest.raises(AlignmentError, match="abfss://") as failed:
        act(SplitWatermarkTable(location, {}))
    assert not isinstance(failed.value, NoTableError)
    assert "opendal" not in str(failed.value)


@pytest.mark.parametrize("below", ["", "folder/table"])
@pytest.mark.parametrize("act", [SplitWatermarkTable.open, SplitWatermarkTable.load])
def test_a_file_in_place_of_a_folder_is_named(
    tmp_path: Path, below: str, act: Callable[[SplitWatermarkTable], object]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        AlignmentError, match=rf"'{tmp_path}/file' is a file\. Give the path of a folder .*{OPTION}"
    ):
        act(SplitWatermarkTable(str(tmp_path / "file" / below), {}))


CHECKPOINT = "00000000000000000002.checkpoint.parquet"


@pytest.mark.parametrize(
    ("file", "content", "cause"),
    [
        ("_delta_log/00000000000000000002.json", "{not json", "Json error: "),
        ("_delta_log/00000000000000000002.json", None, "found gap"),
        ("_delta_log/00000000000000000000.json", None, "No table metadata or protocol"),
        ("_delta_log/_last_checkpoint", '{"version":2,"size":3}', "Invalid Checkpoint"),
        (f"_delta_log/{CHECKPOINT}", "PAR", "less than footer"),
        ("*.parquet", "PAR", "Requested range was invalid"),
        ("*.parquet", None, "not found"),
    ],
)
def test_a_damaged_table_has_its_own_remedy(
    tmp_path: Path, file: str, content: str | None, cause: str
) -> None:
    """The error says that a file is damaged or missing and what to do, and has no stack of calls of delta-rs."""
    table = SplitWatermarkTable(str(tmp_path), {})
    for batch in range(3):
        table.append("clicks", batch, split_rows(batch), {})
    for path in list(tmp_path.glob(file)) or [tmp_path / file]:
        path.write_text(content) if content is not None else path.unlink()
    with pytest.raises(
        AlignmentError, match=r"A file of the table is damaged or missing\. Restore the folder"
    ) as failed:
        SplitWatermarkTable(str(tmp_path), {}).rows()
    shown = str(failed.value).partition("The cause: ")[2]
    assert cause in shown
    assert not re.search(r"<unknown>|0: |clone3|ParsedLogPath", shown)


def test_a_folder_that_cannot_be_made_has_a_remedy() -> None:
    with pytest.raises(AlignmentError, match=f"Check that the driver .* {OPTION}.* The cause: ") as failed:
        SplitWatermarkTable("/proc/split_watermarks", {}).open()
    assert not isinstance(failed.value, NoTableError)


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("dbfs:/Volumes/main/web/files/t", "/Volumes/main/web/files/t"),
        ("dbfs:/delta/t", "/dbfs/delta/t"),
        ("dbfs:///delta/t", "/dbfs/delta/t"),
        ("/delta/t", "/delta/t"),
        ("s3://bucket/t", "s3://bucket/t"),
    ],
)
def test_paths_in_databricks_spelling_are_translated(location: str, path: str) -> None:
    assert on_driver(location) == path
    assert SplitWatermarkTable(location, {}).uri == path


def test_a_mount_of_dbfs_is_no_folder_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Databricks Spark takes ``/mnt/...`` for ``dbfs:/mnt/...``, and delta-rs for a folder of the driver."""
    check_folder("/mnt/lake/table")
    monkeypatch.setattr(table_location, "_DBFS_MOUNTS", tmp_path)
    with pytest.raises(AlignmentError, match=r"Write 'dbfs:/mnt/lake/table', or 'file:/mnt/lake/table'"):
        check_folder("/mnt/lake/table")
    check_folder("file:/mnt/lake/table")


@pytest.mark.parametrize("name", ["my-catalog.streaming.marks", "main.click-stream.marks", "web.a-b"])
def test_a_name_with_other_characters_is_written_in_backticks(name: str) -> None:
    with pytest.raises(OptionError, match="relative path") as refused:
        parse_location(name, OPTION)
    quoted = ".".join(f"`{part}`" if "-" in part else part for part in name.split("."))
    assert f"If it is the name of a table in a catalog, write {quoted}." in str(refused.value)
    assert parse_location(quoted, OPTION) == quoted


@pytest.mark.skipif(Path("/dbfs").exists(), reason="there is such a file system")
@pytest.mark.parametrize("location", ["dbfs:/delta/t", "/dbfs/delta/t"])
def test_a_dbfs_path_outside_databricks_is_refused(location: str) -> None:
    """Without ``/dbfs`` the table is refused, and no folder of that name is made."""
    with pytest.raises(
        AlignmentError, match=f"Option '{OPTION}' is '/dbfs/delta/t', but this driver has no /dbfs"
    ):
        SplitWatermarkTable(location, {}).open()
    assert not Path("/dbfs").exists()


@pytest.mark.parametrize("location", ["/volumes/main/s/v/t", "/Volume/main/s/v/t"])
def test_a_misspelt_volume_is_no_new_folder_of_the_driver(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda _: False)
    with pytest.raises(AlignmentError, match="write '/Volumes/main/s/v/t'"):
        check_folder(location)


def test_a_folder_of_such_a_name_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda path: str(path) == "/volumes")
    check_folder("/volumes/data/t")


@pytest.mark.parametrize(
    ("protocol", "opens"),
    [
        (
            {"minReaderVersion": 3, "readerFeatures": ["superFeature"], "writerFeatures": ["superFeature"]},
            False,
        ),
        ({"minReaderVersion": 1, "writerFeatures": ["superFeature"]}, True),
    ],
)
def test_a_table_with_features_of_another_writer_has_its_own_remedy(
    tmp_path: Path, protocol: dict[str, object], opens: bool
) -> None:
    table = SplitWatermarkTable(str(tmp_path), {})
    table.append("clicks", 0, split_rows(0), {})
    commit = {"protocol": {"minWriterVersion": 7, **protocol}}
    (tmp_path / "_delta_log" / f"{table.delta.version() + 1:020}.json").write_text(json.dumps(commit))
    upgraded = SplitWatermarkTable(str(tmp_path), {})
    if opens:
        upgraded.open()
    with pytest.raises(AlignmentError, match=r"Another program has given .* no table is yet.*superFeature"):
        upgraded.append("clicks", 1, split_rows(1), {})


def test_other_paths_need_no_mount(tmp_path: Path) -> None:
    check_folder(str(tmp_path))


def test_the_trial_of_hard_links_leaves_no_file(tmp_path: Path) -> None:
    assert has_hard_links(str(tmp_path / "not" / "there"), {})
    assert list(tmp_path.iterdir()) == []


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


def test_a_store_without_credentials_names_the_options() -> None:
    """The error about a store, here a closed port of this machine, names the options for credentials before the cause
    that delta-rs gives.
    """
    options = {"aws_endpoint": "http://127.0.0.1:1", "aws_allow_http": "true", "aws_region": "nowhere"}
    options |= {"aws_access_key_id": "nobody", "aws_secret_access_key": "none", "max_retries": "0"}
    table = SplitWatermarkTable("s3://bucket/table", {**options, "retry_timeout": "1s"})
    with pytest.raises(AlignmentError) as failed:
        table.append("clicks", 0, split_rows(0), {})
    text = str(failed.value)
    assert "Permissions granted in a catalog do not reach it" in text
    assert f"{OPTION}.option.<name> (of aws_access_key_id, aws_secret_access_key" in text
    assert "--storage-option, StatusListener and plot have storage_options" in text
    assert text.index("aws_access_key_id") < text.index("The cause: ")


@pytest.mark.parametrize(
    ("location", "cause", "said"),
    [
        ("abfss://c@a/t", "denied", "azure_storage_account_name"),
        ("gs://bucket/t", "denied", "google_service_account"),
        ("S3://bucket/t", "denied", "aws_access_key_id"),
        (
            "/t",
            'Os { code: 13, kind: PermissionDenied, message: "Permission denied" }',
            "no permission to write to this path",
        ),
        ("/t", "Function not implemented (os error 38)", f"Set {OPTION}.option.allow_unsafe_rename to true"),
        ("/t", "Permission denied (os error 13)", "no permission to write to this path"),
        ("/t", "No space left on device (os error 28)", "disk is full"),
        (
            "/t",
            "Kernel error: Unsupported: Feature 'superFeature' is not supported",
            "Another program has given",
        ),
        (
            "/t",
            "Kernel error: Unsupported: Unsupported minimum reader version 4",
            "Another program has given",
        ),
        ("/t", "anything", f"(option {OPTION})"),
    ],
)
def test_each_failure_has_a_remedy(location: str, cause: str, said: str) -> None:
    assert said in remedy(location, cause)
