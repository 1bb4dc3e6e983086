"""Partition columns from the names of folders, as in Spark's file source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.files.formats.partition_types import partition_types
from flip27_stream.connectors.files.formats.schemas import constants
from flip27_stream.connectors.files.storage.partition_folders import PartitionFolders
from flip27_stream.errors import OptionError, RecordFormatError
from tests.connectors.files.support.file_query import SECOND, FileQuery, write


@pytest.mark.parametrize(
    ("bases", "path", "found"),
    [
        (("/data",), "/data/dt=2026-11-01/h=3/a", (("dt", "2026-11-01"), ("h", "3"))),
        (("/data/",), "/data/a", ()),
        (("/data",), "/data/dt=1/deeper/a", (("dt", "1"),)),
        (("/data",), "/data/out=0/plain/dt=1/a", (("dt", "1"),)),
        (("/data/dt=1",), "/data/dt=1/h=3/a", (("h", "3"),)),
        (("/data", "/data/dt=1"), "/data/dt=1/h=3/a", (("h", "3"),)),
        (("/data/dt=1/a",), "/data/dt=1/a", ()),
        (("/data/dt=*",), "/data/dt=1/h=3/a", (("h", "3"),)),
        (("/data/*/*.json",), "/data/dt=1/a.json", ()),
        (("/data",), "/data/n=__HIVE_DEFAULT_PARTITION__/a", (("n", None),)),
        (("/data",), "/data/a%3Db=x%2Fy=%zz é/a", (("a=b", "x/y=%zz é"),)),
        (("/data",), "/data/=1/x=/a", ()),
        (("/",), "/dt=1/a", (("dt", "1"),)),
        (("bucket/x",), "bucket/x/dt=1/a", (("dt", "1"),)),
        (("/data",), "/database/dt=1/a", ()),
    ],
)
def test_partition_values_are_read_from_a_path(
    bases: tuple[str, ...], path: str, found: tuple[tuple[str, str | None], ...]
) -> None:
    assert PartitionFolders(bases)(path) == found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", "+3", "007", None], pa.int32()),
        (["1", "3000000000"], pa.int64()),
        (["1", "1.5", "-.5e-3", "Infinity"], pa.float64()),
        (["1e3"], pa.decimal128(4, 0)),
        (["1e3", "1.5"], pa.string()),
        (["3000000000", "1.5"], pa.string()),
        (["99999999999999999999", "1"], pa.decimal128(20, 0)),
        (["99999999999999999999999", "3000000000"], pa.decimal128(23, 0)),
        (["2026-11-01", "0001-01-01"], pa.date32()),
        (["2026-11-01", "2026-11-01 10:00:00"], pa.timestamp("us", "UTC")),
        (["2026-02-30"], pa.string()),
        (["2026-1-3"], pa.string()),
        (["1", "2026-11-01"], pa.string()),
        (["true"], pa.string()),
        (["1_000"], pa.string()),
        ([" 1"], pa.float64()),
        (["7f"], pa.float64()),
        (["1", "1.5D"], pa.float64()),
        (["7f", "7e"], pa.string()),
        (["1e5555"], pa.float64()),
        (["7\x01"], pa.float64()),
        ([None], pa.string()),
    ],
)
def test_types_of_partition_columns_follow_from_their_values(
    values: list[str | None], kind: pa.DataType
) -> None:
    assert partition_types({str(n): (("a", value),) for n, value in enumerate(values)}) == {"a": kind}


def test_different_columns_are_refused_where_types_are_found_out() -> None:
    with pytest.raises(RecordFormatError, match=r"a, b \(x\); a \(y\).*basePath"):
        partition_types({"x": (("a", "1"), ("b", "2")), "y": (("a", "1"),), "z": ()})


def put(folder: Path, format_: str, rows: dict[str, list[Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path, table = folder / f"rows.{format_}", pa.table(rows)
    match format_:
        case "parquet":
            pq.write_table(table, path)
        case "orc":
            pyarrow.orc.write_table(table, path)
        case "csv":
            pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(include_header=False))
        case "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
def test_rows_have_the_columns_of_their_folders(tmp_path: Path, format_: str) -> None:
    """The user's types win over inferred types. A partition column replaces a file's column of the same name, and is
    null for the default partition.
    """
    put(tmp_path / "dt=2026-11-01" / "h=05", format_, {"id": [1, 2]})
    put(tmp_path / "dt=2026-11-01" / "h=__HIVE_DEFAULT_PARTITION__", format_, {"id": [3]})
    put(tmp_path / "dt=2026-11-02" / "h=a%3Ab", format_, {"id": [4]})
    schema = pa.schema([("h", pa.string()), ("id", pa.int64()), ("DT", pa.string())])
    reading = FileQuery({"path": str(tmp_path), "files.format": format_}, schema=schema)
    reading.run()
    assert sorted(map(str, reading.rows)) == sorted(
        str({"h": h, "id": n, "DT": f"2026-11-0{day}"})
        for h, n, day in [("05", 1, 1), ("05", 2, 1), (None, 3, 1), ("a:b", 4, 2)]
    )


def test_partition_columns_without_a_schema_are_inferred(tmp_path: Path) -> None:
    """A partition column without a schema has the place of a file's column of its name, or comes last. All its
    values decide its type.
    """
    put(tmp_path / "a=1" / "b=x", "parquet", {"a": ["of the file"], "id": [1]})
    put(tmp_path / "a=2" / "b=7", "parquet", {"a": ["of the file"], "id": [2]})
    options = {"path": str(tmp_path)}
    assert FileSource(options).schema == pa.schema(
        [("a", pa.int32()), ("id", pa.int64()), ("b", pa.string())]
    )
    reading = FileQuery(options)
    reading.run()
    assert sorted(reading.rows, key=str) == [{"a": 1, "id": 1, "b": "x"}, {"a": 2, "id": 2, "b": "7"}]


def test_a_partition_value_of_another_type_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "a=1", "parquet", {"id": [1]})
    reading = FileQuery({"path": str(tmp_path)})
    put(tmp_path / "a=x", "parquet", {"id": [2]})
    with pytest.raises(
        RecordFormatError,
        match=r"Column 'a' of the partition of .*a=x.* is 'x', which is not a value of int32",
    ):
        reading.run()


def test_base_path_sets_where_partition_columns_begin(tmp_path: Path) -> None:
    put(tmp_path / "a=1" / "b=2", "parquet", {"id": [1]})
    below = str(tmp_path / "a=1")
    assert FileSource({"path": below}).schema.names == ["id", "b"]
    assert FileSource({"path": below, "basePath": str(tmp_path)}).schema.names == ["id", "a", "b"]
    glob = {"path": str(tmp_path / "a=*" / "b=*")}
    assert FileSource(glob).schema.names == ["id"]
    assert FileSource({**glob, "basePath": f"file://{tmp_path}"}).schema.names == ["id", "a", "b"]
    with pytest.raises(OptionError, match=r"'basePath'.*Expected a folder that has all of"):
        FileSource({"path": str(tmp_path), "basePath": below})
    with pytest.raises(OptionError, match=r"option 'basePath': 'http://nowhere'. There is no file system"):
        FileSource({"path": below, "basePath": "http://nowhere"})


@pytest.mark.parametrize("knows_strategy", [True, False])
def test_event_time_is_a_column_of_folders(tmp_path: Path, knows_strategy: bool) -> None:
    """I3: files are read in the order of a partition column that is the event time, with restarts in between."""
    for n, ts in enumerate([900, 5, 70, 100_000]):
        put(tmp_path / f"ts={ts}", "parquet", {"id": [n]})
    schema = pa.schema([("ts", pa.int64()), ("id", pa.int64())])
    options = {"path": str(tmp_path), "maxFilesPerTrigger": "1"}
    reading = FileQuery(options, max_drift="1 ms", schema=schema, knows_strategy=knows_strategy)
    while reading.step() is not None:
        if len(reading.rows) < 3:
            reading.restart()
    assert [row["ts"] for row in reading.rows] == [5, 70, 900, 100_000]


def test_a_checkpoint_from_before_folders_were_columns(tmp_path: Path) -> None:
    """Splits of an older checkpoint have no values of partitions. The rest of a begun file has its partition
    columns nevertheless.
    """
    write(tmp_path / "day=3" / "a.parquet", 1 * SECOND, 60, group=20)
    schema = pa.schema([("id", pa.int64()), ("day", pa.int32())])
    reading = FileQuery({"path": str(tmp_path), "maxRowsPerTrigger": "20"}, schema=schema)
    reading.step()
    ((name, split),) = reading.offset["splits"].items()
    reading.offset = {**reading.offset, "splits": {name: [*split[:-1], split[-1][:2]]}, "split_version": 1}
    reading.restart()
    reading.run()
    assert [row["day"] for row in reading.rows] == [3] * 60


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7f", 7.0),
        ("1.D", 1.0),
        (" 1\x01", 1.0),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("Infinity", float("inf")),
        ("-2.5e1d", -25.0),
    ],
)
def test_numbers_of_partitions_are_read_in_all_forms(text: str, number: float, kind: pa.DataType) -> None:
    """Java's forms are those of Spark; delta-rs writes ``inf``."""
    found = constants({"x": text}, pa.schema([("x", kind)]), "the file")
    assert found["x"] == pa.scalar(number, kind)
