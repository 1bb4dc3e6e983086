"""Tests of the location of the table as a text: its forms, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from flip27_stream.errors import AlignmentError, OptionError
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.storage.location_checks import local_folder
from watermark_alignment.table_location import for_delta_rs, parse_location, shown, why_no_place

OPTION = "scan.watermark.alignment.table"


@pytest.mark.parametrize(
    "text",
    [
        *("split_watermarks", "./split_watermarks", "../split_watermarks/", "~/split_watermarks"),
        *("a/b.c", "delta.`/a/c`", r"C:\a\c", "C:/a/c", "file:c", "dbfs:c", "jdbc:postgresql://a/c"),
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
        "hdfs://namenode:8020/t",
        "gcs://bucket/t",
        "/Volumes/main/web/files",
        "/Volumes/main/web/files/t",
        "/VolumesOfMine",
        "file:/data/x:y@z",
        "file:///x:y@z",
        "hdfs://namenode:8020/user/me@corp.com/t",
    ],
)
def test_an_absolute_path_is_accepted(text: str) -> None:
    assert parse_location(f" {text} ", OPTION) == text


@pytest.mark.parametrize("text", ["DBFS:/x/Wm", "File:///x/Wm", "S3://Bucket/Wm"])
def test_the_scheme_of_a_uri_has_no_case(text: str) -> None:
    scheme, colon, rest = text.partition(":")
    assert parse_location(text, OPTION) == scheme.lower() + colon + rest
    assert local_folder(for_delta_rs(text)) == local_folder(for_delta_rs(scheme.lower() + colon + rest))


@pytest.mark.parametrize(
    "text",
    [
        *("s3://key:s3cr3t@bucket/t", "s3://key:s3c/r3t@bucket/t", "hdfs://me:s3cr3t@node/t"),
        *("s3:/key:s3cr3t@bucket/t", "s3:key:s3cr3t@bucket/t", "file://me:s3cr3t@host/t"),
        *(
            "s3://key:12/s3cr3t@bucket/t",
            "s3:///key:s3cr3t@bucket/t",
            "s3:////key:s3cr3t@bucket/t",
            "hdfs:/me:s3cr3t@node/t",
        ),
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(text: str) -> None:
    """The commands, plot and the listener, which have no option, refuse them, too."""
    table = SplitWatermarkTable(text, {})
    with pytest.raises(OptionError, match="credentials") as refused:
        parse_location(f" {text} ", OPTION)
    shown = [str(refused.value), repr(table)]
    for act in (SplitWatermarkTable.open, SplitWatermarkTable.load):
        with pytest.raises(
            AlignmentError, match=r"at '\w+:/*\.\.\.@.*credentials.*--storage-option"
        ) as failed:
            act(table)
        shown.append(str(failed.value))
    assert [said for said in shown if "r3t" in said or "key:" in said] == []
    assert f"{OPTION}.option.<name>" in str(refused.value)


def test_a_signature_in_the_query_of_a_uri_is_not_shown() -> None:
    text = "abfss://c@account.dfs.core.windows.net/t?sig=s3cr3t"
    with pytest.raises(OptionError, match=r"t\?\.\.\.'") as refused:
        parse_location(text, OPTION)
    assert [said for said in (str(refused.value), repr(SplitWatermarkTable(text, {}))) if "r3t" in said] == []


@pytest.mark.parametrize(
    ("text", "written"),
    [
        *((text, "s3://bucket/folder") for text in ("s3://", "s3:///t", "S3A://", "gs://", "gcs://")),
        *(("hdfs://", "hdfs://namenode:8020/folder"), ("viewfs://", "viewfs://cluster/folder")),
        ("file://", "file:///folder"),
    ],
)
def test_a_uri_without_a_bucket_is_refused(text: str, written: str) -> None:
    said = rf"'{OPTION}': '{text}'\. The URI does not say in which bucket, .* such as {written}"
    with pytest.raises(OptionError, match=said):
        parse_location(text, OPTION)
    assert parse_location(written, OPTION) == written


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s3:", "After 's3:' come two slashes and a bucket. Write a URI such as s3://bucket/folder, "),
        ("gs:/", "After 'gs:' come two slashes and a bucket. Write a URI such as s3://bucket/folder, "),
        ("abfss:", "After 'abfss:' come two slashes and a container. Write a URI such as "),
        ("hdfs:", "come two slashes and a host. Write a URI such as hdfs://namenode:8020/folder."),
        ("viewfs:/", "come two slashes and a cluster. Write a URI such as viewfs://cluster/folder."),
    ],
)
def test_a_scheme_alone_has_a_uri_of_its_kind_as_remedy(text: str, said: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_location(text, OPTION)
    assert said in str(refused.value)


@pytest.mark.parametrize("host", ["file://localhost", "FILE://LocalHost"])
def test_this_machine_may_be_named_as_the_host_of_a_file(tmp_path: Path, host: str) -> None:
    given = f"{host}{tmp_path}/t"
    assert parse_location(given, OPTION) == f"file://{tmp_path}/t"
    assert local_folder(given) == tmp_path / "t"
    SplitWatermarkTable(given, {}).append("clicks", 0, split_rows(0), {})
    assert (tmp_path / "t" / "_delta_log").is_dir()
    assert SplitWatermarkTable(given, {}).rows().num_rows == 4


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


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("dbfs:/Volumes/main/web/files/t", "/Volumes/main/web/files/t"),
        ("dbfs:/delta/t", "/dbfs/delta/t"),
        ("dbfs:///delta/t", "/dbfs/delta/t"),
        ("/delta/t", "/delta/t"),
        ("s3://bucket/t", "s3://bucket/t"),
        ("gcs://bucket/t", "gs://bucket/t"),
        ("GCS://bucket/gcs://t", "gs://bucket/gcs://t"),
        ("DBFS:/x/wm", "/dbfs/x/wm"),
        ("Dbfs:/Volumes/Main/web/files/t", "/Volumes/Main/web/files/t"),
        ("File:///Volumes/Main/web/files/t", "file:///Volumes/Main/web/files/t"),
        ("S3://Bucket/T", "s3://Bucket/T"),
        ("/gcs://t", "/gcs://t"),
    ],
)
def test_other_spellings_are_translated_for_delta_rs(location: str, path: str) -> None:
    assert for_delta_rs(location) == path
    assert SplitWatermarkTable(location, {}).uri == path


@pytest.mark.parametrize("name", ["my-catalog.streaming.marks", "main.click-stream.marks", "web.a-b"])
def test_a_name_with_other_characters_is_written_in_backticks(name: str) -> None:
    with pytest.raises(OptionError, match="relative path") as refused:
        parse_location(name, OPTION)
    quoted = ".".join(f"`{part}`" if "-" in part else part for part in name.split("."))
    assert f"If it is the name of a table in a catalog, write {quoted}." in str(refused.value)
    assert parse_location(quoted, OPTION) == quoted


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("s3:/bucket/t", "s3://bucket/t"),
        ("s3:bucket/t", "s3://bucket/t"),
        ("S3A:/bucket/t", "s3a://bucket/t"),
        ("gcs:/bucket/t", "gcs://bucket/t"),
        ("abfss:/t", "abfss://container@account.dfs.core.windows.net/t"),
        ("abfss:/c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("hdfs:/t", "hdfs://namenode:8020/t"),
        ("hdfs:/node:9000/t", "hdfs://node:9000/t"),
        ("hdfs:/node:9000/a@b", "hdfs://node:9000/a@b"),
        ("hdfs:/user/a@b", "hdfs://namenode:8020/user/a@b"),
        ("hdfs:/a@b/t", "hdfs://namenode:8020/a@b/t"),
        ("abfss:/folder/a@b", "abfss://container@account.dfs.core.windows.net/folder/a@b"),
        ("viewfs:/t", "viewfs://cluster/t"),
    ],
)
def test_a_missing_slash_of_a_uri_is_named(text: str, written: str) -> None:
    """The remedy is a location that is accepted."""
    scheme = written.partition(":")[0]
    said = f"'{OPTION}': '{text}'. Two slashes must follow '{scheme}:'. Write '{written}'."
    with pytest.raises(OptionError) as refused:
        parse_location(text, OPTION)
    assert str(refused.value).endswith(said)
    assert parse_location(written, OPTION) == written


NO_PLACES = [
    ("memory://t", "A table in memory ends with its process"),
    ("MEMORY:/t", "A table in memory ends with its process"),
    ("file://host/t", "'file:///host/t', or 'file:///t' if 'host' is a host"),
    ("file://localhost", "'file:///localhost', or 'file:///folder' if 'localhost' is a host"),
    ("/Volumes", "the root of a file system of Databricks"),
    ("/Volumes/", "the root of a file system of Databricks"),
    ("/Volumes/main", "the root of a file system of Databricks"),
    ("/Volumes/main/streaming/", "the root of a file system of Databricks"),
    ("DBFS:/Volumes/main/streaming", "the root of a file system of Databricks"),
    ("dbfs:/Volumes", "the root of a file system of Databricks"),
    ("file:///Volumes", "the root of a file system of Databricks"),
    ("/dbfs", "the root of a file system of Databricks"),
    ("/dbfs//", "the root of a file system of Databricks"),
    ("dbfs:/", "the root of a file system of Databricks"),
    ("s3:/bucket/t", "Two slashes must follow"),
    ("s3://", "does not say in which bucket"),
    ("uc://a.b.t", "URIs of catalogs are not supported"),
]


@pytest.mark.parametrize(("text", "said"), NO_PLACES)
def test_a_location_where_no_table_can_be_is_refused(text: str, said: str) -> None:
    """The option is refused; and the commands and the listener, which have no option, refuse the table."""
    with pytest.raises(OptionError) as refused:
        parse_location(text, OPTION)
    assert f"'{OPTION}': '{text}'. " in str(refused.value)
    assert said in str(refused.value)
    for act in (SplitWatermarkTable.open, SplitWatermarkTable.load):
        with pytest.raises(AlignmentError) as failed:
            act(SplitWatermarkTable(text, {}))
        assert str(failed.value).startswith(f"No split-watermark table can be at '{text}'. ")
        assert said in str(failed.value)


@pytest.mark.parametrize("blank", [" ", "\t", "\n"])
def test_blanks_before_a_location_hide_no_credentials(blank: str) -> None:
    location = f"{blank}s3://AKIA:hush-hush@bucket/t"
    assert "hush-hush" not in shown(location)
    assert "hush-hush" not in shown(f'"{location}"')
    assert "has credentials in it" in str(why_no_place(location))
