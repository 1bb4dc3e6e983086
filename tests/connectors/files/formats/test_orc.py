"""ORC files: pieces by rows, and the rows and statistics of stripes, which Arrow's reader does not show."""

from __future__ import annotations

import contextlib
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc

from flip27_stream.connectors.files.formats.orc import OrcFormat
from flip27_stream.connectors.files.formats.orc_footer import read_orc_footer
from flip27_stream.errors import CorruptRecordError, DataLossError, RecordFormatError
from tests.connectors.files.support.reading import INSTANT, LOCAL_FS, read_rows, units_of

ORC = OrcFormat()
ROWS = 5000
IDS = pa.schema([("ID", pa.int64())])
BORDERS = [0, 1024, 2048, 3072, 4096, 5000]
SECOND = datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc)
CODECS = ["uncompressed", "zlib", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 5000 rows in five stripes. Its rows are a second apart."""
    return _written(tmp_path_factory.mktemp("orc") / "numbers.orc", "uncompressed")


def _written(path: Path, compression: str) -> Path:
    seconds = np.arange(ROWS) * 1000
    noise = np.random.default_rng(1).bytes(ROWS * 16)
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "noise": [noise[i * 16 : i * 16 + 16] for i in range(ROWS)],
            "at": pa.array(seconds, pa.timestamp("ms", "UTC")),
            "wall": pa.array(seconds, pa.timestamp("ms")),
            "none": pa.nulls(ROWS, pa.timestamp("ms", "UTC")),
        }
    )
    orc.write_table(table, path, stripe_size=16 << 10, compression=compression)
    return path


@given(cuts=st.lists(st.integers(0, ROWS), max_size=5))
def test_every_row_once_wherever_it_is_cut(numbers: Path, cuts: list[int]) -> None:
    """I1: a piece has exactly the planned rows, also if it is not cut between stripes."""
    assert [row["ID"] for row in read_rows(ORC, numbers, IDS, sorted(cuts))] == list(range(ROWS))


@pytest.mark.parametrize("compression", CODECS)
def test_footers_of_every_codec_are_read(tmp_path: Path, compression: str) -> None:
    """The footer has as many rows for a stripe as Arrow reads, and the least and greatest times of these rows."""
    path = _written(tmp_path / "a.orc", compression)
    opened = orc.ORCFile(path)
    units = units_of(ORC, path, "At")
    assert units.rows is not None
    assert units.rows.tolist() == [opened.read_stripe(i).num_rows for i in range(opened.nstripes)]
    assert units.sizes.sum() == path.stat().st_size
    assert units.least.tolist() == [start * 1000 for start in units.borders[:-1]]
    assert units.greatest.tolist() == [(end - 1) * 1000 for end in units.borders[1:]]


def test_event_times_are_found_in_statistics(numbers: Path) -> None:
    """Columns of instants, of wall-clock times (as UTC) and of integers (ms) have event times. Nulls and
    missing columns have none.
    """
    assert units_of(ORC, numbers).borders.tolist() == BORDERS
    for column, factor in (("at", 1000), ("WALL", 1000), ("id", 1)):
        units = units_of(ORC, numbers, column)
        assert (units.least_event_time, max(units.greatest.tolist())) == (0, (ROWS - 1) * factor)
    for column in ("none", "absent"):
        units = units_of(ORC, numbers, column)
        assert units.all_known
        assert units.least_event_time is None
    with pytest.raises(RecordFormatError, match=r"Column 'noise' of orc file .* is binary; event time is"):
        units_of(ORC, numbers, "noise")


def test_event_times_are_read_from_the_column_without_statistics(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without statistics the event times are read from the column."""
    footer = read_orc_footer(pa.OSFile(str(numbers)))
    for stripe in footer.stripes:
        stripe.times.clear()
    monkeypatch.setattr("flip27_stream.connectors.files.formats.orc.read_orc_footer", lambda file: footer)
    assert units_of(ORC, numbers, "at").greatest.tolist() == [(end - 1) * 1000 for end in BORDERS[1:]]


def test_timestamps_are_instants_as_in_spark(numbers: Path) -> None:
    """Timestamps of ORC with and without a zone are instants, as in Spark."""
    schema = ORC.schema(LOCAL_FS, str(numbers))
    assert [schema.field(name).type for name in ("id", "noise", "at", "wall")] == [
        pa.int64(),
        pa.binary(),
        INSTANT,
        INSTANT,
    ]
    row = read_rows(ORC, numbers, pa.schema([("wall", INSTANT), ("at", INSTANT), ("new", pa.string())]))[1]
    assert row == {"wall": datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), "at": row["wall"], "new": None}
    with pytest.raises(
        RecordFormatError, match=r"Column 'id' of orc file .* is int64, and the schema has string"
    ):
        read_rows(ORC, numbers, pa.schema([("id", pa.string())]))


def test_a_column_whose_name_is_the_path_of_a_field(tmp_path: Path) -> None:
    """Arrow would read the field of the struct, and not the column."""
    rows = [{"a.b": SECOND, "a": {"b": 1, "c": 2}, "x.y": 3}]
    kinds = pa.schema(
        [("a.b", INSTANT), ("a", pa.struct([("b", pa.int64()), ("c", pa.int64())])), ("x.y", pa.int64())]
    )
    orc.write_table(pa.Table.from_pylist(rows, kinds), tmp_path / "f")
    assert read_rows(ORC, tmp_path / "f", kinds) == rows
    assert read_rows(ORC, tmp_path / "f", pa.schema([kinds.field("a.b")])) == [{"a.b": SECOND}]
    assert units_of(ORC, tmp_path / "f", "a.b").least_event_time == 1000


def test_large_stripes_come_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "large.orc"
    orc.write_table(pa.table({"id": np.arange(50_000)}), path, compression="zstd")
    lengths = [len(r) for r in ORC.read(LOCAL_FS, str(path), 10, 50_000, IDS)]
    assert lengths == [20_000, 20_000, 9_990]


def test_rows_without_columns_are_counted(numbers: Path) -> None:
    """A file may have none of the columns that a query reads, like a file from before they were added."""
    pieces = ORC.read(LOCAL_FS, str(numbers), 1000, 1100, pa.schema([]))
    assert [len(records) for records in pieces] == [24, 76]
    added = read_rows(ORC, numbers, pa.schema([("added", pa.string())]), cuts=[1000])
    assert added == [{"added": None}] * ROWS


def test_columns_that_hive_did_not_name_are_refused(tmp_path: Path) -> None:
    """Spark takes such columns by their order. A null in each row would lose them silently."""
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"_col0": [1], "_col1": ["x"]}), path)
    with pytest.raises(
        RecordFormatError, match=r"has the columns _col0, _col1 and none of the query's: Hive"
    ):
        read_rows(ORC, path, IDS)
    assert read_rows(ORC, path, pa.schema([("_col0", pa.int64())])) == [{"_col0": 1}]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "empty.orc"
    orc.write_table(pa.table({"id": pa.array([], pa.int64())}), path)
    assert units_of(ORC, path, "id").end == 0
    assert read_rows(ORC, path, IDS) == []


@pytest.mark.parametrize("size", [0, 3, 50, -1, -30, -400])
def test_truncated_files_are_named(numbers: Path, tmp_path: Path, size: int) -> None:
    """A truncated file is an error with its name and format, whatever part of the footer is left."""
    path = tmp_path / "damaged.orc"
    path.write_bytes(numbers.read_bytes()[:size])
    with pytest.raises(CorruptRecordError, match=r"The orc file .*damaged\.orc does not decode"):
        units_of(ORC, path, "at")
    with pytest.raises(CorruptRecordError, match=r"The orc file .*damaged\.orc does not decode.*position 7"):
        list(ORC.read(LOCAL_FS, str(path), 7, 10, IDS))


@given(at=st.integers(1, 600), value=st.integers(0, 255))
def test_a_damaged_footer_is_read_or_refused(
    numbers: Path, tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    """A footer with any wrong byte in the tail of a file is read or refused as damaged."""
    data = bytearray(numbers.read_bytes())
    data[-at] = value
    with contextlib.suppress(pa.ArrowInvalid):
        read_orc_footer(pa.BufferReader(bytes(data)))


def test_a_footer_with_bytes_in_place_of_a_number_is_refused() -> None:
    postscript = b"\x0a\x02no" + b"\x82\xf4\x03\x03ORC"
    with pytest.raises(pa.ArrowInvalid, match="field 1 of a message is not a number"):
        read_orc_footer(pa.BufferReader(b"ORC" + postscript + bytes([len(postscript)])))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataLossError, match=r"The orc file .* is gone"):
        units_of(ORC, tmp_path / "absent.orc")


def test_times_that_spark_wrote_in_another_zone_are_the_same_instants() -> None:
    """A file that Spark 4.2 wrote in the zone America/Los_Angeles has the same instants. Its local times stay
    as they were written.
    """
    path = Path(__file__).with_name("written_by_spark_in_los_angeles.orc")
    first = datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
    schema = ORC.schema(LOCAL_FS, str(path))
    assert schema == pa.schema([("id", pa.int64()), ("at", INSTANT), ("local", pa.timestamp("us"))])
    assert read_rows(ORC, path, schema)[0] == {"id": 0, "at": first, "local": first.replace(tzinfo=None)}
    for column in ("at", "local"):
        units = units_of(ORC, path, column)
        assert (units.least_event_time, max(units.greatest.tolist())) == (1700000000000, 1700007200000)
