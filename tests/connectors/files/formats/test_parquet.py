"""Parquet files: pieces by rows, and columns with Spark's types."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.formats import file_format, schemas
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.errors import CorruptRecordError, DataLossError, RecordFormatError
from tests.connectors.files.support.reading import (
    INSTANT,
    LOCAL_FS,
    pieces_of,
    read_rows,
    read_table,
    units_of,
)

PARQUET = ParquetFormat()
ROWS = 1000
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 1000 rows in row groups of 300."""
    path = tmp_path_factory.mktemp("parquet") / "numbers.parquet"
    table = pa.table({"id": np.arange(ROWS), "name": [f"n{i}" for i in range(ROWS)], "other": ["x"] * ROWS})
    pq.write_table(table, path, row_group_size=300)
    return path


@given(cuts=st.lists(st.integers(0, ROWS), max_size=5))
def test_every_row_once_wherever_it_is_cut(numbers: Path, cuts: list[int]) -> None:
    """I1: a piece has exactly the planned rows, also if it is not cut between row groups."""
    rows = read_rows(PARQUET, numbers, IDS, sorted(cuts))
    assert [row["id"] for row in rows] == list(range(ROWS))


def test_positions_are_the_numbers_of_rows(numbers: Path) -> None:
    ((batch, positions),) = pieces_of(PARQUET, numbers, 250, 290, IDS)
    assert positions == batch.column("id").to_pylist() == list(range(250, 290))


def test_only_row_groups_touched_and_columns_asked_for_are_read(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row groups outside a range and columns outside the schema are not read: damage in them is not seen."""
    damaged = bytearray(numbers.read_bytes())
    metadata = pq.read_metadata(numbers)
    for group, column in ((0, 0), (1, 1), (1, 2)):
        chunk = metadata.row_group(group).column(column)
        begin = chunk.dictionary_page_offset or chunk.data_page_offset
        damaged[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path = tmp_path / "damaged.parquet"
    path.write_bytes(damaged)
    pieces = pieces_of(PARQUET, path, 300, 600, IDS)
    assert [i for batch, _ in pieces for i in batch.column(0).to_pylist()] == list(range(300, 600))
    with pytest.raises(
        CorruptRecordError,
        match=r"parquet file .*damaged\.parquet does not decode: .* ignoreCorruptFiles .* position 0",
    ):
        list(PARQUET.read(LOCAL_FS, str(path), 0, 600, IDS))


def test_batches_have_a_greatest_number_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    pq.write_table(pa.table({"id": np.arange(150_000)}), path)
    lengths = [len(r) for r in PARQUET.read(LOCAL_FS, str(path), 0, 150_000, IDS)]
    assert sum(lengths) == 150_000
    assert max(lengths) <= file_format.MAX_BATCH_ROWS


def test_columns_by_name_in_any_case_and_order(numbers: Path) -> None:
    wanted = pa.schema([("NAME", pa.string()), ("Id", pa.int64())])
    assert read_rows(PARQUET, numbers, wanted)[7] == {"NAME": "n7", "Id": 7}


def test_fields_by_name_in_any_case_and_order(tmp_path: Path) -> None:
    """Fields within structs, lists and maps are found in any case, too. A name in the same case comes first."""
    path = tmp_path / "fields.parquet"
    inner = [{"InNer": 1, "b": "x"}, None]
    columns = {
        "s": inner,
        "l": [inner, None],
        "m": [[("k", {"InNer": 1})], None],
        "two": [{"A": 1, "a": 2}] * 2,
    }
    kind = pa.struct({"InNer": pa.int32(), "b": pa.string()})
    types = [kind, pa.list_(kind), pa.map_(pa.string(), pa.struct({"InNer": pa.int8()})), None]
    pq.write_table(
        pa.table({n: pa.array(v, t) for (n, v), t in zip(columns.items(), types, strict=True)}), path
    )
    wanted = pa.struct({"B": pa.string(), "inner": pa.int64()})
    schema = pa.schema(
        {
            "s": wanted,
            "l": pa.list_(wanted),
            "m": pa.map_(pa.string(), pa.struct({"INNER": pa.int64()})),
            "two": pa.struct({"a": pa.int64()}),
        }
    )
    found = {"B": "x", "inner": 1}
    assert read_rows(ParquetFormat(), path, schema, cuts=[1]) == [
        {"s": found, "l": [found, None], "m": [("k", {"INNER": 1})], "two": {"a": 2}},
        {"s": None, "l": None, "m": None, "two": {"a": 2}},
    ]


def test_rows_without_columns_are_counted(numbers: Path) -> None:
    """Without columns, as for a count or for partition columns only, batches have their number of rows."""
    assert sum(batch.num_rows for batch, _ in pieces_of(PARQUET, numbers, 10, 700, pa.schema([]))) == 690


def test_missing_column_is_null_and_said_once(
    numbers: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing column is null, as in Spark, and is warned of once: a file may be older than a column."""
    monkeypatch.setattr(schemas, "_warned", set())
    wanted = pa.schema([("id", pa.int64()), ("new", pa.string())])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert read_rows(PARQUET, numbers, wanted)[0] == {"id": 0, "new": None}
    assert [record.getMessage() for record in caplog.records] == [
        f"parquet file {numbers} has no column new, which is null in its rows. Other files may also lack it."
    ]


def test_columns_that_are_not_null_stay_so(tmp_path: Path) -> None:
    path = tmp_path / "nulls.parquet"
    pq.write_table(pa.table({"id": pa.array([1, None])}), path)
    for name in ("id", "new"):
        with pytest.raises(RecordFormatError, match=rf"Column '{name}' is NOT NULL"):
            read_rows(PARQUET, path, pa.schema([pa.field(name, pa.int64(), nullable=False)]))


NOON = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("stored", "wanted", "value"),
    [
        (pa.array([7], pa.int8()), pa.int64(), 7),
        (pa.array([7], pa.int32()), pa.float64(), 7.0),
        (pa.array([7], pa.int16()), pa.decimal128(9, 2), Decimal("7.00")),
        (pa.array([7], pa.uint32()), pa.int64(), 7),
        (pa.array([1.5], pa.float32()), pa.float64(), 1.5),
        (pa.array(["x"], pa.large_string()), pa.string(), "x"),
        (pa.array(["x"], pa.string_view()), pa.string(), "x"),
        (pa.array(["x"]).dictionary_encode(), pa.string(), "x"),
        (pa.array([b"x"]), pa.string(), "x"),
        (pa.array(["x"]), pa.binary(), b"x"),
        (pa.array([NOON], pa.timestamp("ns", "UTC")), INSTANT, NOON),
        (pa.array([NOON], pa.timestamp("ms", "Europe/Paris")), INSTANT, NOON),
        (pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")), INSTANT, NOON),
        (pa.array([NOON.date()]), pa.timestamp("us"), NOON.replace(hour=0, tzinfo=None)),
        (pa.array([Decimal("1.5")], pa.decimal128(5, 1)), pa.decimal128(10, 3), Decimal("1.500")),
        (pa.array([[1]], pa.large_list(pa.int32())), pa.list_(pa.field("element", pa.int64())), [1]),
        (
            pa.array([{"a": 1, "b": "x"}]),
            pa.struct([("b", pa.string()), ("c", pa.int64())]),
            {"b": "x", "c": None},
        ),
        (
            pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            pa.map_(pa.string(), pa.int64()),
            [("k", 1)],
        ),
        (pa.nulls(1), pa.string(), None),
    ],
)
def test_values_are_converted_to_the_types_of_the_schema(
    tmp_path: Path, stored: pa.Array, wanted: pa.DataType, value: object
) -> None:
    """Columns get exactly Spark's Arrow types, whatever types the writer of the file used."""
    path = tmp_path / "typed.parquet"
    pq.write_table(pa.table({"c": stored}), path)
    assert read_table(PARQUET, path, pa.schema([("c", wanted)])).column(0).to_pylist() == [value]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.string()),
        (pa.string(), pa.int64()),
        (pa.float64(), pa.int64()),
        (pa.int64(), INSTANT),
        (INSTANT, pa.timestamp("us")),
        (pa.decimal128(10, 4), pa.decimal128(10, 2)),
        (pa.list_(pa.int64()), pa.int64()),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.int64())])),
        (pa.time64("us"), pa.int64()),
    ],
)
def test_types_that_do_not_fit_are_refused(tmp_path: Path, stored: pa.DataType, wanted: pa.DataType) -> None:
    """A column of another type is an error with the file, the column and both types, also in a file without rows."""
    path = tmp_path / "typed.parquet"
    pq.write_table(pa.table({"c": pa.array([], stored)}), path)
    with pytest.raises(
        RecordFormatError, match=r"Column 'c' of parquet file .*typed\.parquet is .* and the schema has "
    ):
        list(PARQUET.read(LOCAL_FS, str(path), 0, 1, pa.schema([("c", wanted)])))


def test_schema_is_inferred(tmp_path: Path) -> None:
    """The inferred schema is Spark's: all columns are nullable, instants have the zone UTC, and
    INT96 is an instant.
    """
    table = pa.table(
        {
            "small": pa.array([1], pa.uint8()),
            "text": pa.array(["x"], pa.large_string()),
            "at": pa.array([NOON], pa.timestamp("ms", "UTC")),
            "local": pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")),
            "tags": pa.array([["x"]], pa.large_list(pa.large_string())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert PARQUET.schema(LOCAL_FS, str(tmp_path / "a.parquet")) == pa.schema(
        [
            ("small", pa.int16()),
            ("text", pa.string()),
            ("at", INSTANT),
            ("local", pa.timestamp("us")),
            ("tags", pa.list_(pa.string())),
        ]
    )
    pq.write_table(table.select(["local"]), tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    assert PARQUET.schema(LOCAL_FS, str(tmp_path / "b.parquet")) == pa.schema([("local", INSTANT)])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"t": pa.array([], pa.time64("us"))},
            r"Column 't' of parquet file .* is time64\[us\], for which Spark",
        ),
        ({"a": [1], "A": [2]}, "Columns 'a' and 'A' of parquet file .* differ only in upper and lower case"),
    ],
)
def test_a_schema_that_spark_does_not_have_is_refused(
    tmp_path: Path, table: dict[str, object], message: str
) -> None:
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(RecordFormatError, match=message):
        PARQUET.schema(LOCAL_FS, str(tmp_path / "a.parquet"))


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("long", None),
        ("variant", "variant"),
        ("interval day to second", "interval day to second"),
        (
            {
                "type": "array",
                "elementType": {"type": "struct", "fields": [{"name": "x", "type": "variant"}]},
            },
            "variant",
        ),
        ({"type": "map", "keyType": "string", "valueType": "interval year"}, "interval year"),
        ({"type": "struct", "fields": [{"name": "variant", "type": "long"}]}, None),
        ({"type": 3}, None),
    ],
)
def test_types_that_spark_stores_as_other_types_are_refused(
    tmp_path: Path, kind: object, refused: str | None
) -> None:
    """A variant would be read as a struct of bytes and an interval as a number. They are read as such only if the
    user says so.
    """
    path = tmp_path / "a.parquet"
    noted = json.dumps({"type": "struct", "fields": [{"name": "v", "type": kind}]})
    table = pa.table({"v": [1]}).replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": noted})
    pq.write_table(table, path)
    if refused is None:
        assert PARQUET.schema(LOCAL_FS, str(path)).names == ["v"]
    else:
        with pytest.raises(
            RecordFormatError, match=f"Column 'v' of .* is Spark's {refused}, which is not read"
        ):
            PARQUET.schema(LOCAL_FS, str(path))
    assert read_table(PARQUET, path, pa.schema([("v", pa.int64())])).column("v").to_pylist() == [1]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), path)
    units = units_of(PARQUET, path, "id")
    assert (units.end, units.all_known, units.least_event_time) == (0, True, None)
    assert read_rows(PARQUET, path, IDS) == []


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (Path.unlink, DataLossError, "The parquet file .* is gone.* ignoreMissingFiles"),
        (_truncate, CorruptRecordError, "The parquet file .* does not decode: .* ignoreCorruptFiles"),
        (lambda path: path.write_bytes(b""), CorruptRecordError, "The parquet file .* does not decode"),
        (
            lambda path: path.write_bytes(b"no" * 99),
            CorruptRecordError,
            "The parquet file .* does not decode",
        ),
    ],
)
def test_damaged_and_missing_files_are_named(
    numbers: Path, tmp_path: Path, damage: Callable[[Path], object], error: type[Exception], message: str
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(numbers.read_bytes())
    damage(path)
    with pytest.raises(error, match=message):
        units_of(PARQUET, path, "id")
    with pytest.raises(error, match=message):
        list(PARQUET.read(LOCAL_FS, str(path), 0, 10, IDS))
    with pytest.raises(error, match=message):
        PARQUET.schema(LOCAL_FS, str(path))


def test_a_footer_that_has_two_types_for_a_column(numbers: Path, tmp_path: Path) -> None:
    """A footer with one wrong bit has two types for a column. It is refused: Arrow's function for statistics
    would end the process.
    """
    data = numbers.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    damaged = data[footer:].replace(b"\x15\x04\x19", b"\x15\x00\x19")
    assert damaged != data[footer:]
    path = tmp_path / "a.parquet"
    path.write_bytes(data[:footer] + damaged)
    with pytest.raises(CorruptRecordError, match=r"two types of a column: INT64, and BOOLEAN"):
        units_of(PARQUET, path, "id")


def test_a_file_that_was_overwritten_is_refused(numbers: Path) -> None:
    """A file with another size than when it was listed is lost: positions of one version mean nothing in another."""
    size = numbers.stat().st_size
    assert len(list(PARQUET.read(LOCAL_FS, str(numbers), 0, 1, IDS, size=size))) == 1
    with pytest.raises(DataLossError, match=rf"had {size - 1} bytes when it was listed and has {size} now"):
        list(PARQUET.read(LOCAL_FS, str(numbers), 0, 1, IDS, size=size - 1))


def test_footers_leave_no_cycles_of_references(tmp_path: Path) -> None:
    """Footers leave no cycles of references. Plans run without garbage collection, and 100,000 footers would keep
    some hundred megabytes.
    """
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ms"))}), path)
    units_of(PARQUET, path, "at")
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            units_of(PARQUET, path, "at")
            PARQUET.least_event_time(LOCAL_FS, str(path), "at")
        assert gc.collect() < 20
    finally:
        gc.enable()
