"""FI-06, FI-07, FI-10: which files a listing has, and in which file system a path is."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from pyarrow import fs

from flip27_stream.connectors.files.source import FileSource
from flip27_stream.connectors.files.storage.filesystem import Storage, locate
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.glob import glob_regex
from flip27_stream.connectors.files.storage.listing import FileListing, is_hidden
from flip27_stream.connectors.files.storage.local_listing import local_file
from flip27_stream.errors import ConnectorError, OptionError, UnreachableError


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def listed(root: Path, path: str = "", **settings: object) -> set[str]:
    listing = FileListing(Storage(), (f"{root}{path}",), **settings)  # type: ignore[arg-type]
    return {file.path.removeprefix(f"{root}/") for file in listing()}


def test_an_empty_file_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path, "written", "begun")
    (tmp_path / "begun").write_text("")
    assert listed(tmp_path) == {"written"}
    (tmp_path / "begun").write_text("now")
    assert listed(tmp_path) == {"written", "begun"}


def test_a_modification_time_before_1970_counts_as_1970(tmp_path: Path) -> None:
    """It counts as 1970: no cut lies below, so a restart knows which of many such files were read."""
    make(tmp_path, "old")
    os.utime(tmp_path / "old", (-5, -5))
    listing = FileListing(Storage(), (str(tmp_path),))
    assert listing() == [local_file(str(tmp_path / "old"))] == [FoundFile(str(tmp_path / "old"), 0, 3)]


def test_subfolders_are_listed_if_the_option_says_so(tmp_path: Path) -> None:
    """FI-06: a listing has the files of all subfolders, or of the folder alone."""
    names = ("file1", "nested/file.out", "nested/deeper/anotherfile.txt")
    make(tmp_path, *names)
    assert listed(tmp_path) == set(names)
    assert listed(tmp_path, recursive=False) == {"file1"}


def test_hidden_names_are_skipped(tmp_path: Path) -> None:
    """FI-07: hidden files and the files of hidden folders are skipped. The folder of a partition column may
    begin with an underscore.
    """
    make(
        tmp_path,
        "visiblefile",
        ".hiddenfile1",
        "_hiddenfile2",
        "dir/.hiddendir/file",
        "_notvisible/afile",
        "_column=1/x",
        "copied.json._COPYING_",
        "folder._COPYING_/file",
    )
    assert listed(tmp_path) == {"visiblefile", "_column=1/x"}
    assert listed(tmp_path, "/*") == {"visiblefile", "_column=1/x"}
    hidden = ("/.a", "/a/_b", "/a.json._COPYING_", "/a._COPYING_/b")
    assert all(map(is_hidden, hidden))
    assert not any(map(is_hidden, ("/a", "/_column=1/x", "/_COPYING_=1/x")))


def test_a_folder_below_a_hidden_one_can_be_named(tmp_path: Path) -> None:
    make(tmp_path, ".cache/data/file")
    assert listed(tmp_path, "/.cache/data") == {".cache/data/file"}


class _Stored(Storage):
    """The local file system, listed like an object store."""

    def filesystem(self) -> fs.FileSystem:
        return fs.LocalFileSystem()


@pytest.mark.parametrize("storage", [Storage(), _Stored("s3://")], ids=["local", "stored"])
@pytest.mark.parametrize(
    ("path", "settings", "is_refused"),
    [
        ("", {}, True),
        ("/table", {"recursive": False}, True),
        ("/*", {}, True),
        ("/table/*.parquet", {}, True),
        ("/table/", {}, True),
        ("/table/day=1", {}, True),
        ("/table/day=1/*", {}, True),
        ("/table/part.parquet", {}, True),
        ("/table/_delta_log", {}, False),
        ("/table/_delta_log/*.json", {}, False),
        ("/*/*.csv", {}, False),
        ("", {"name_glob": "*.csv"}, False),
        ("", {"recursive": False}, False),
        ("/plain", {}, False),
    ],
)
def test_files_of_a_delta_table_are_refused(
    tmp_path: Path, storage: Storage, path: str, settings: dict[str, object], is_refused: bool
) -> None:
    """Files in the folder of a Delta table are not read one by one. Listings that pass such a folder and
    list none of its files are allowed.
    """
    make(
        tmp_path,
        "a.csv",
        "plain/b.csv",
        "table/_delta_log/0.json",
        "table/_delta_log/_last_checkpoint",
        "table/part.parquet",
        "table/day=1/part.parquet",
    )
    listing = FileListing(storage, (f"{tmp_path}{path}",), **settings)  # type: ignore[arg-type]
    if not is_refused:
        assert listing()
        return
    with pytest.raises(
        OptionError, match=rf"folder '{tmp_path}/table' is a Delta table.*'files\.format' to delta"
    ):
        listing()


@pytest.mark.parametrize(
    ("regex", "found"),
    [
        ("/dir/nested/file.out", {"dir/nested/file.out"}),
        ("/dir/nest.[a-z]/.*", {"dir/nested/file.out", "dir/nested/a.txt", "dir/nested/x/file.out"}),
        ("/dir/.*/file.out", {"dir/nested/file.out", "dir/nested/x/file.out"}),
    ],
)
def test_a_pattern_matches_whole_paths(tmp_path: Path, regex: str, found: set[str]) -> None:
    """FI-10: a pattern is compared with whole paths. Hidden names stay excluded."""
    make(tmp_path, "dir/nested/file.out", "dir/nested/a.txt", "dir/nested/x/file.out", "dir/_x/file.out")
    assert listed(tmp_path, path_regex=f"{tmp_path}{regex}") == found


def test_globs_match_files_and_folders(tmp_path: Path) -> None:
    make(tmp_path, "2026-01/a.json", "2026-02/b.json", "2025-12/c.json", "2026-01/deep/d.json")
    assert listed(tmp_path, "/2026-*") == {"2026-01/a.json", "2026-02/b.json", "2026-01/deep/d.json"}
    assert listed(tmp_path, "/2026-*/", recursive=False) == {"2026-01/a.json", "2026-02/b.json"}
    assert listed(tmp_path, "/*/{a,c}.json") == {"2026-01/a.json", "2025-12/c.json"}
    assert listed(tmp_path, "/nothing-*") == set()


def test_a_glob_of_names_selects_files(tmp_path: Path) -> None:
    make(tmp_path, "a.json", "b.csv", "sub/c.json")
    assert listed(tmp_path, name_glob="*.json") == {"a.json", "sub/c.json"}


def test_a_file_under_several_paths_is_listed_once(tmp_path: Path) -> None:
    make(tmp_path, "a", "sub/b")
    paths = (f"{tmp_path}/a", str(tmp_path), f"{tmp_path}/sub")
    files = FileListing(Storage(), paths)()
    assert sorted(file.path for file in files) == [f"{tmp_path}/a", f"{tmp_path}/sub/b"]
    assert {file.size for file in files} == {1, 5}
    assert all(file.modified > 10**12 for file in files)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConnectorError, match=r"Path .*nowhere.* does not exist in the local file system.*path"
    ):
        listed(tmp_path, "/nowhere")


def test_a_glob_in_a_folder_that_is_missing_names_the_folder(tmp_path: Path) -> None:
    """Otherwise a run with a fixed end, or a hybrid source, would end without the files of a mount that is away."""
    with pytest.raises(UnreachableError, match=r"Path '.*/away' does not exist in the local file system"):
        listed(tmp_path, "/away/day=*")
    (tmp_path / "away").mkdir()
    assert listed(tmp_path, "/away/day=*") == set()


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("*.csv", "a.csv", True),
        ("*.csv", "a/b.csv", False),
        ("a?c", "abc", True),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("{a,b*}.x", "bcd.x", True),
        ("a,b", "a,b", True),
        ("a+(b)", "a+(b)", True),
    ],
)
def test_globs_match_as_in_hadoop(glob: str, name: str, matches: bool) -> None:
    import re

    assert bool(re.fullmatch(glob_regex(glob), name)) == matches


def test_paths_and_uris_name_their_storage() -> None:
    assert locate("/data/x y", {}) == (Storage(), "/data/x y")
    assert locate("file:///data/x%20y", {}) == (Storage(), "/data/x y")
    assert locate("file:/data", {}) == (Storage(), "/data")
    assert locate("s3://bucket/a/b/", {}) == (Storage("s3://bucket"), "bucket/a/b")
    assert locate("hdfs://name:8020/a", {}) == (Storage("hdfs://name:8020"), "/a")
    container = "abfss://container@account.dfs.core.windows.net"
    assert locate(f"{container}/a", {}) == (Storage(container), "container/a")


def test_options_of_the_file_system_are_taken_and_never_shown() -> None:
    options = {"aws_access_key_id": "me", "aws_secret_access_key": "hush", "region": "eu-west-1"}
    storage, _ = locate("s3://bucket/a", options)
    assert "hush" not in repr(storage)
    filesystem = pickle.loads(pickle.dumps(storage)).filesystem()
    assert isinstance(filesystem, fs.S3FileSystem)
    assert filesystem.region == "eu-west-1"


def test_a_wrong_option_of_the_file_system_is_named() -> None:
    storage, _ = locate("s3://bucket/a", {"regoin": "hush"})
    with pytest.raises(OptionError, match=r"files\.storage\.option\.regoin") as refused:
        storage.filesystem()
    assert "hush" not in str(refused.value)


def test_an_existing_path_with_glob_characters_is_not_a_glob(tmp_path: Path) -> None:
    make(tmp_path, "[1]/a.json", "{b}/b.json", "b/c.json", "1/d.json")
    assert listed(tmp_path, "/[1]") == {"[1]/a.json"}
    assert listed(tmp_path, "/{b}") == {"{b}/b.json"}
    assert listed(tmp_path, "/[1-9]") == {"1/d.json"}


def test_files_with_any_characters_in_their_names_are_listed(tmp_path: Path) -> None:
    names = {
        f"d/{name}.json" for name in ("a b", "a%20b", "a#b", "a?b", "a\nb", "a:b", "a*b", "ü@1+2", "a\\b")
    }
    make(tmp_path, *names)
    assert listed(tmp_path) == listed(tmp_path, "/d*") == names


def test_question_marks_and_hashes_are_part_of_a_uri() -> None:
    """A question mark and a hash are parts of a glob or a name. They begin neither a query nor a
    fragment of a URI.
    """
    assert locate("s3://bucket/2026-0?/a", {}) == (Storage("s3://bucket"), "bucket/2026-0?/a")
    assert locate("file:///data/a#b%23", {}) == (Storage(), "/data/a#b#")


def test_a_name_that_is_not_utf8_is_an_error_that_says_so(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.json", "wb"):
        pass
    with pytest.raises(ConnectorError, match=r"not UTF-8 .*\\xff\.json"):
        listed(tmp_path)


def test_links_to_folders_are_followed_but_no_folder_is_visited_twice(tmp_path: Path) -> None:
    """Loops of links end. A folder below the listed one is listed under its own name, whatever
    names its links have.
    """
    make(tmp_path, "data/real/a", "elsewhere/b", "data/c")
    for name, target in {
        "data/loop": "data",
        "data/aaa": "data/real",
        "data/out": "elsewhere",
        "data/out2": "elsewhere",
        "elsewhere/back": "data",
        "data/file": "data/c",
    }.items():
        (tmp_path / name).symlink_to(tmp_path / target)
    (tmp_path / "data/itself").symlink_to("itself")
    (tmp_path / "data/broken").symlink_to("nowhere")
    assert listed(tmp_path, "/data") == {"data/real/a", "data/c", "data/file", "data/out/b"}


def test_globs_match_names_of_links(tmp_path: Path) -> None:
    """A folder that the glob matches only by the name of a link is listed under this name. Loops of links end."""
    make(tmp_path, "x/a", "2026-02/b")
    (tmp_path / "2026-01").symlink_to(tmp_path / "x")
    (tmp_path / "x/up").symlink_to(tmp_path)
    assert listed(tmp_path, "/2026-*") == {"2026-01/a", "2026-02/b"}


SPARKS = "hour=00%3A00"
"""A folder as Spark names the one of a partition whose value is ``00:00``."""


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize(
    "path", [f"/{SPARKS}", f"/{SPARKS}/", "/hour=*%3A00", f"/{SPARKS}/*", "/hour=0[0-1]%3A*"]
)
def test_folders_whose_names_spark_escaped(tmp_path: Path, scheme: str, path: str) -> None:
    make(tmp_path, f"{SPARKS}/a.json", "hour=10/b.json")
    storage, inside = locate(f"{scheme}{tmp_path}{path}", {})
    assert [file.path for file in FileListing(storage, (inside,))()] == [f"{tmp_path}/{SPARKS}/a.json"]


def test_only_partition_folders_keep_their_escapes() -> None:
    assert locate(f"s3://bucket/a%20b/{SPARKS}/c%23", {}) == (
        Storage("s3://bucket"),
        f"bucket/a b/{SPARKS}/c#",
    )


@pytest.mark.parametrize(
    ("uri", "storage", "path"),
    [
        ("hdfs:/x/y", "hdfs://", "/x/y"),
        ("hdfs:///x", "hdfs://", "/x"),
        ("viewfs:/x", "viewfs://", "/x"),
        ("hdfs://me@name:8020/x", "hdfs://me@name:8020", "/x"),
        ("S3://bucket/x", "s3://bucket", "bucket/x"),
        ("gs://anonymous@bucket/x", "gs://anonymous@bucket", "bucket/x"),
        ("abfss://c@a.dfs.core.windows.net/x", "abfss://c@a.dfs.core.windows.net", "c/x"),
        ("file://localhost/x", "", "/x"),
        ("dbfs:/data/a", "", "/dbfs/data/a"),
        ("DBFS:/data/a", "", "/dbfs/data/a"),
        ("dbfs:/Volumes/main/web/files", "", "/Volumes/main/web/files"),
    ],
)
def test_a_text_with_a_scheme_and_a_slash_is_a_uri(uri: str, storage: str, path: str) -> None:
    """A text with a scheme and a slash is a URI, as in Hadoop, and no path below the folder in which
    the query was started.
    """
    assert locate(uri, {}) == (Storage(storage), path)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("wasbs://c@a.blob.core.windows.net/x", r"no file system for 'wasbs:'"),
        ("uc://main.sales.orders", r"flip27_stream\.table_location\(spark, name\) returns"),
        ("s3:/bucket/a", "The URI has no bucket. Expected a local path, or a URI such as s3://bucket/folder"),
        ("s3://", "The URI has no host and no path"),
        ("hdfs://", "The URI has no host and no path"),
        ("file://elsewhere/a", "Expected a path on this machine"),
    ],
)
def test_uris_that_cannot_be_read_are_refused(uri: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        locate(uri, {})


def test_a_name_with_a_colon_is_not_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert locate("a:b", {}) == (Storage(), f"{tmp_path}/a:b")
    assert locate("./a:/b", {}) == (Storage(), f"{tmp_path}/a:/b")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://KEY:hush@bucket/a",
        "s3a://KEY:hush/hush@bucket/a",
        "s3n://hush@bucket/a",
        "s3:/KEY:hush@bucket/a",
        "gs://KEY:hush@bucket/a",
        "hdfs://me:hush@name:8020/a",
        "abfss://c:hush@account.dfs.core.windows.net/a",
        "wasbs://c:hush@account.blob.core.windows.net/a",
        "file://me:hush@localhost/a",
    ],
)
@pytest.mark.parametrize("format_", ["parquet", "delta"])
@pytest.mark.parametrize("several", [False, True])
def test_credentials_in_a_uri_are_refused_and_never_shown(uri: str, format_: str, several: bool) -> None:
    """Credentials in a URI would become part of the bucket's name, the fingerprint and the offset."""
    paths = {"paths": json.dumps(["s3://bucket/b", uri])} if several else {"path": uri}
    with pytest.raises(OptionError, match="'path'") as refused:
        FileSource({**paths, "files.format": format_})
    assert "hush" not in str(refused.value)
    assert "KEY" not in str(refused.value)


@pytest.mark.parametrize("glob", ["{a", "a}*", "[z-a]*", "x{a,b"])
def test_malformed_globs_are_named(tmp_path: Path, glob: str) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(OptionError, match=r"'path'.*not a valid glob: every { needs its }"):
        FileListing(Storage(), (str(tmp_path / glob),))()
    with pytest.raises(OptionError, match=r"'path'.*not a valid glob: every { needs its }"):
        list(FileListing(Storage("s3://b"), ())._matching(fs.LocalFileSystem(), str(tmp_path / glob), set()))
