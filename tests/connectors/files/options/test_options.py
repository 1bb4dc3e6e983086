"""Options of files: their names, their values, and errors that name both."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, StructType, VariantType

from flip27_stream.api import Boundedness, ReadLimits
from flip27_stream.connectors.files.backlog.digest import Bucket, FileSetDigest
from flip27_stream.connectors.files.backlog.processed_files import Frontier, ProcessedFilesState
from flip27_stream.connectors.files.delta.delta_state import DeltaStart, DeltaState
from flip27_stream.connectors.files.options.source_options import parse_file_options
from flip27_stream.connectors.files.planning.enumerator_state import FilesState, FilesStateSerializer
from flip27_stream.connectors.files.source import FileSource
from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError, OptionError
from flip27_stream.spark.session.spark_features import arrow_schema

LEAST = {"path": "/data"}


def test_format_and_path_are_enough() -> None:
    options = parse_file_options(LEAST)
    assert options.format == "parquet"
    assert options.listing is not None
    assert options.listing.paths == ("/data",)
    assert options.limits == ReadLimits(max_files=1000, divide=True)
    assert options.monitor_interval_ms == 1000


def test_names_are_in_any_case_and_paths_may_be_several() -> None:
    options = parse_file_options(
        {
            "PATHS": '["/a", "/b"]',
            "Files.Format": "JSON",
            "maxbytespertrigger": "10G",
            "recursivefilelookup": "false",
        }
    )
    assert options.listing is not None
    assert options.listing.paths == ("/a", "/b")
    assert options.limits.max_bytes == 10 << 30
    assert not options.listing.recursive


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": ""}, "'path' must be set"),
        ({"paths": "[1]"}, r"'paths'.*JSON array"),
        ({"paths": "[" * 100_000}, r"'paths'.*JSON array"),
        ({"paths": '["/a", "s3://b/c"]'}, "several file systems"),
        ({"files.format": "avro"}, r"'files.format'.*'avro'.*parquet"),
        ({"maxFilesPerTrigger": "0"}, r"'maxFilesPerTrigger'.*'0'.*from 1"),
        ({"maxBytesPerTrigger": "ten"}, r"'maxBytesPerTrigger'.*64m"),
        ({"maxFilePerTrigger": "1"}, "Did you mean 'maxFilesPerTrigger'"),
        ({"source.path.regex-pattern": "("}, r"'source.path.regex-pattern'.*regular expression"),
        ({"source.path.regex-pattern": ""}, "'source.path.regex-pattern': ''. It must not be empty"),
        ({"pathGlobFilter": " "}, "'pathGlobFilter': ' '. It must not be empty"),
        (
            {"pathGlobFilter": "{a,b"},
            "'pathGlobFilter': '{a,b'. Expected a glob such as .*: every { needs its }",
        ),
        ({"source.monitor-interval": "5"}, r"'source.monitor-interval'.*duration"),
        ({"files.modified": "maybe"}, r"'files.modified'.*ignore, read, fail"),
        ({"maxFileAge": "7d"}, r"'maxFileAge' is not supported.*no age limit"),
        ({"files.format": "delta", "readChangeFeed": "true"}, "'readChangeFeed' is not supported.*data feed"),
        (
            {"files.format": "delta", "schemaTrackingLocation": "/x"},
            "not supported: a changed schema ends the query",
        ),
        ({"startingVersion": "1"}, "'startingVersion' goes with files.format delta"),
        (
            {"files.format": "JSON", "header": "true"},
            "'header' is for 'files.format' csv, but option 'files.format' is json",
        ),
        (
            {"mode": "FAILFAST"},
            "'mode' is for 'files.format' json or csv, but option 'files.format' is parquet",
        ),
        (
            {"files.format": "delta", "sep": ";"},
            "'sep' is for 'files.format' csv, but option 'files.format' is delta",
        ),
        ({"files.format": "delta", "pathGlobFilter": "*"}, "'pathGlobFilter' goes with files of folders"),
        ({"files.format": "delta", "startingVersion": "-1"}, r"'startingVersion'.*latest"),
        ({"files.format": "delta", "startingTimestamp": "soon"}, r"'startingTimestamp'.*2026-01-31"),
        (
            {"files.format": "delta", "startingVersion": "1", "startingTimestamp": "2026-01-01"},
            "Only one of",
        ),
    ],
)
def test_an_error_names_the_wrong_option(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_file_options({**LEAST, **given} if "path" not in given else given)


def test_a_filter_that_matches_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    filters = {"pathGlobFilter": "*.prquet", "source.path.regex-pattern": ".*"}
    said = r"matches option 'pathGlobFilter' \('\*.prquet'\) and matches option 'source.path.regex-pattern'"
    with pytest.raises(OptionError, match=said):
        _ = FileSource({"path": str(tmp_path), **filters}).schema


def test_a_variant_among_the_wanted_columns_is_refused() -> None:
    """Otherwise the fields of a struct with the names ``value`` and ``metadata`` would become one."""
    wanted = arrow_schema(StructType().add("a", ArrayType(VariantType())))
    with pytest.raises(OptionError, match="Column 'a' of the schema has type variant, which cannot be read"):
        FileSource(LEAST, schema=wanted)


def test_options_say_where_a_delta_table_begins() -> None:
    delta = {**LEAST, "files.format": "delta"}
    assert parse_file_options(delta).start == DeltaStart()
    assert parse_file_options({**delta, "startingVersion": "LATEST"}).start == DeltaStart(latest=True)
    assert parse_file_options({**delta, "startingVersion": "3"}).start == DeltaStart(version=3)
    parsed = parse_file_options({**delta, "startingTimestamp": "2026-01-31"}).start
    assert parsed == DeltaStart(timestamp="2026-01-31T00:00:00+00:00")


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"path": "s3://bucket/data"}, "s3://bucket/data"),
        ({"path": "gs://bucket"}, "gs://bucket"),
        ({"paths": '["s3://bucket/a", "s3://bucket/b"]'}, "s3://bucket/a, s3://bucket/b"),
        (
            {"path": "abfss://c@account.dfs.core.windows.net/a/b"},
            "abfss://c@account.dfs.core.windows.net/a/b",
        ),
        ({"path": "hdfs://host/data"}, "hdfs://host/data"),
        ({"path": "/data"}, "/data"),
    ],
)
def test_status_and_errors_show_the_path_as_the_user_gave_it(options: dict[str, str], shown: str) -> None:
    """The fingerprint, which checkpoints have, is another text and stays as it is."""
    source = FileSource(options, schema=pa.schema([("id", pa.int64())]))
    assert source.reads == shown


def test_the_source_is_configuration_only() -> None:
    schema = pa.schema([("id", pa.int64())])
    stored = {"path": "s3://bucket/data", "files.storage.option.key": "hush"}
    source = FileSource(stored, schema=schema)
    assert pickle.loads(pickle.dumps(source)).fingerprint == "parquet files of s3://bucketbucket/data"
    source = FileSource(LEAST, schema=schema)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert FileSource(LEAST, bounded=True).boundedness is Boundedness.BOUNDED
    assert FileSource({**LEAST, "source.monitor-interval": "0"}).boundedness is Boundedness.BOUNDED
    assert FileSource({"path": "/t", "files.format": "delta"}).fingerprint == "Delta table /t"


MARK = bytes(range(12))
STATES: list[FilesState] = [
    ProcessedFilesState(),
    ProcessedFilesState(
        5,
        9,
        (Frontier(None, (3, "a")), Frontier("ts")),
        (Bucket(5, 2, 2**64 - 1),),
        (MARK,),
        (MARK,),
        7,
        FileSetDigest(3, 2**64 - 1),
        (MARK,),
    ),
    DeltaState(),
    DeltaState(3, 5, (Frontier("ts", (9, "b")),), "an id"),
]


@pytest.mark.parametrize("state", STATES)
def test_states_come_back_equal(state: FilesState) -> None:
    """FI-12: every state of files comes back equal from its serialized form."""
    serializer = FilesStateSerializer()
    assert serializer.deserialize(serializer.version, serializer.serialize(state)) == state


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"delta": [1]},
        {"delta": [1, None, [[3]], None]},
        {"delta": [1, None, [], 3]},
        {"seen": [0, None, [], [], "AAAA", "", None]},
        {"seen": [0, None, [], [[1, 2, "x"]], "", "", None]},
        {"seen": [0, None, [], [], "?", "", None]},
        {"seen": [0, None, [], [], ""]},
        {"seen": [0, None, [], [], "", "", None, None, ""]},
    ],
)
def test_a_malformed_state_is_refused(data: Any) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"enumerator of files \(version 1\)"):
        FilesStateSerializer().deserialize(1, data)


def test_a_newer_state_is_refused() -> None:
    with pytest.raises(NewerCheckpointError, match="version 4"):
        FilesStateSerializer().deserialize(4, {})


def test_the_first_version_of_the_state_stays_readable() -> None:
    """States of the first version have neither a rest nor files that are gone. The state of a Delta
    table did not change.
    """
    stored: Any = {
        "seen": [5, 9, [[None, 3, "a"], ["ts"]], [[5, 2, "ffffffffffffffff"]], "AAECAwQFBgcICQoL", "", None]
    }
    expected = ProcessedFilesState(
        5, 9, (Frontier(None, (3, "a")), Frontier("ts")), (Bucket(5, 2, 2**64 - 1),), (MARK,)
    )
    assert FilesStateSerializer().deserialize(1, stored) == expected
    table: Any = {"delta": [3, 5, [["ts", 9, "b"]], "an id"]}
    assert FilesStateSerializer().deserialize(1, table) == STATES[-1]


@pytest.mark.parametrize("rest", [(), ([1], ""), ([1, "x"], ""), (3, ""), (None, 3), (None, "AA==")])
def test_a_malformed_state_of_the_second_version_is_refused(rest: Any) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"enumerator of files \(version 2\)"):
        FilesStateSerializer().deserialize(2, {"seen": [0, None, [], [], "", "", None, *rest]})


@pytest.mark.parametrize("format_", ["json", "delta"])
def test_parameters_of_a_store_are_refused_for_local_paths(format_: str) -> None:
    """A local path takes no options of a store, which would be ignored in silence."""
    options = {"path": "/data", "files.format": format_, "files.storage.option.region": "eu-west-1"}
    with pytest.raises(OptionError, match=r"files\.storage\.option\.region.* local file system.*'/data'"):
        parse_file_options(options)


@pytest.mark.parametrize("name", ["main.sales.orders", "sales.orders", "`my-catalog`.sales.orders"])
def test_the_name_of_a_table_in_a_catalog_is_no_path(name: str) -> None:
    with pytest.raises(OptionError, match=r"table_location\(spark, "):
        parse_file_options({"path": name, "files.format": "delta"})


def test_a_delta_table_under_a_path_that_delta_rs_would_read_otherwise() -> None:
    """delta-rs decodes escapes in local paths. The log of one table would be read with the metadata of another."""
    with pytest.raises(OptionError, match="must have no escape such as %20: delta-rs decodes it"):
        parse_file_options({"path": "/data/t%41", "files.format": "delta"})
    assert parse_file_options({"path": "/data/100%", "files.format": "delta"}).delta
