"""Tests of the remedies for errors of delta-rs, with the errors that it raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.table.delta_rs_remedies import remedy
from watermark_alignment.table.split_watermark_table import NoTableError, SplitWatermarkTable

OPTION = "scan.watermark.alignment.table"


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


CHECKPOINT = "00000000000000000002.checkpoint.parquet"


@pytest.mark.parametrize(
    ("file", "content", "cause"),
    [
        ("_delta_log/00000000000000000002.json", "{not json", "Json error: "),
        ("_delta_log/00000000000000000002.json", None, "found gap"),
        ("_delta_log/00000000000000000000.json", None, "No table metadata or protocol"),
        ("_delta_log/_last_checkpoint", '{"version":2,"size":3}', "Invalid Checkpoint"),
        (f"_delta_log/{CHECKPOINT}", "PAR", "less than footer"),
        (f"_delta_log/{CHECKPOINT}", "PAR1, cut off", "Corrupt footer"),
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
        ("azure://c/t", "denied", "azure_storage_account_name"),
        ("oss://bucket/t", "endpoint is empty", f"{OPTION}.option.<name> (of those that delta-rs has"),
        ("viewfs://cluster/t", "No viewfs fallback mount found", "HADOOP_CONF_DIR"),
        ("file:///t", "Permission denied (os error 13)", "no permission to write to this path"),
        ("S3://bucket/t", "denied", "aws_access_key_id"),
        (
            "/t",
            'Os { code: 13, kind: PermissionDenied, message: "Permission denied" }',
            "no permission to write to this path",
        ),
        ("/t", "Function not implemented (os error 38)", f"Set {OPTION}.option.allow_unsafe_rename to true"),
        ("/t", "Permission denied (os error 13)", "no permission to write to this path"),
        ("/t", "No space left on device (os error 28)", "disk is full"),
        ("/t", "[Errno 28] Error writing bytes to file. Detail: [errno 28] No space left", "disk is full"),
        ("/t", "Disk quota exceeded (os error 122)", "Free some space, or raise the quota"),
        ("/t", "Too many open files (os error 24)", "Raise that limit (ulimit -n)"),
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
        (
            "/t",
            "Failed to open local file '/t/part-1.parquet'. Detail: [errno 2] No such file or directory",
            "A file of the table is damaged or missing",
        ),
        ("/t", "anything", f"(option {OPTION})"),
    ],
)
def test_each_failure_has_a_remedy(location: str, cause: str, said: str) -> None:
    assert said in remedy(location, cause)


def test_gcs_is_the_store_of_gs(tmp_path: Path) -> None:
    """The options for credentials of ``gs://`` are taken, here a file that is not there, and are named in the error."""
    options = {"google_service_account": str(tmp_path / "key.json")}
    with pytest.raises(AlignmentError) as failed:
        SplitWatermarkTable("gcs://bucket/t", options).open()
    text = str(failed.value)
    assert text.startswith(
        "The split-watermark table at 'gcs://bucket/t' cannot be opened. The store was not"
    )
    assert f"{OPTION}.option.<name> (of google_service_account (a path), google_service_account_key)" in text
    assert "reqsign" not in text


@pytest.mark.parametrize(
    ("location", "cause"),
    [
        ("hdfs://host/t", "No NameNode hosts found"),
        ("hdfs:///t", "No fs.defaultFS setting found"),
        ("hdfs://127.0.0.1:1/t", "Connection refused"),
    ],
)
def test_a_name_node_that_is_not_found_has_a_remedy(
    location: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(AlignmentError) as failed:
        SplitWatermarkTable(location, {}).open()
    text = str(failed.value)
    assert "as in hdfs://namenode:8020/folder" in text
    assert cause in text.partition("The cause: ")[2]


SITE = """<configuration>
<property><name>fs.defaultFS</name><value>hdfs://ns</value></property>
<property><name>dfs.ha.namenodes.ns</name><value>a</value></property>
<property><name>dfs.namenode.rpc-address.ns.a</name><value>127.0.0.1:1</value></property>
</configuration>"""


@pytest.mark.parametrize("location", ["hdfs://ns/t", "hdfs:///t"])
def test_the_remedy_for_hdfs_works(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the two files that the remedy names delta-rs finds the NameNode, which here is a closed port."""
    for name in ("core-site.xml", "hdfs-site.xml"):
        (tmp_path / name).write_text(SITE)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with pytest.raises(AlignmentError, match=r"The cause: .*Connection refused"):
        SplitWatermarkTable(location, {}).open()
