"""Parquet files: event times of row groups."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_stream.connectors.files.formats.file_units import NEVER
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.errors import RecordFormatError
from tests.connectors.files.support.reading import LOCAL_FS, units_of

PARQUET = ParquetFormat()
NOON = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)
TIMES = [5000, 1000, 9000, -3000, None, None, -7000, -8000, 20_000, 30_000]
"""In groups of two: descending, one before the epoch, both ``None``, both before the epoch, ascending."""


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    "kind", [pa.int64(), *(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns"))]
)
def test_event_times_of_row_groups_are_found(tmp_path: Path, kind: pa.DataType, statistics: bool) -> None:
    """Event times (ms) come from statistics, or else from the column. A negative time is no event time, but the
    statistics of a row group with one have 0 as its least time.
    """
    stored = pa.array(TIMES, pa.int64() if pa.types.is_int64(kind) else pa.timestamp("ms", "UTC")).cast(kind)
    path = tmp_path / "times.parquet"
    pq.write_table(
        pa.table({"x": range(10), "at": stored}), path, row_group_size=2, write_statistics=statistics
    )
    units = units_of(PARQUET, path, "AT")
    least = [1000, 0, NEVER, NEVER, 20_000] if statistics else [1000, 9000, NEVER, NEVER, 20_000]
    assert units.least.tolist() == least
    assert units.greatest.tolist() == [5000, 9000, -1, -1, 30_000]
    assert units.all_known
    assert units.least_event_time == min(least)
    assert PARQUET.least_event_time(LOCAL_FS, str(path), "at") == units.least_event_time
    assert units.borders.tolist() == [0, 2, 4, 6, 8, 10]
    assert units.rows is not None
    assert units.rows.tolist() == [2] * 5
    assert units.sizes.sum() == path.stat().st_size


def test_event_times_are_read_from_the_column_without_statistics(tmp_path: Path) -> None:
    """Spark writes INT96 without statistics, so the event times are read from the column."""
    path = tmp_path / "times.parquet"
    at = pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us"))
    pq.write_table(pa.table({"at": at}), path, use_deprecated_int96_timestamps=True)
    assert units_of(PARQUET, path, "at").least_event_time == int(NOON.timestamp() * 1000)
    assert not units_of(PARQUET, path).all_known


def test_a_nested_column_of_the_same_name_is_not_the_event_time(tmp_path: Path) -> None:
    """A field of a struct is not the column of the same name."""
    path = tmp_path / "nested.parquet"
    pq.write_table(pa.table({"s": [{"at": 5}], "at": [7]}), path)
    assert units_of(PARQUET, path, "at").least_event_time == 7


@pytest.mark.parametrize("statistics", [True, False])
def test_a_nested_column_whose_path_is_the_name_is_not_the_event_time(
    tmp_path: Path, statistics: bool
) -> None:
    path = tmp_path / "nested.parquet"
    table = pa.table({"e": [{"x": 3, "ts": 5}], "e.ts": [7]})
    pq.write_table(table, path, write_statistics=statistics)
    assert units_of(PARQUET, path, "e.ts").least_event_time == 7


def test_a_file_without_the_event_time_column_has_no_event_times(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    units = units_of(PARQUET, path, "at")
    assert units.all_known
    assert units.least_event_time is None
    assert PARQUET.least_event_time(LOCAL_FS, str(path), "at") is None
    pq.write_table(pa.table({"x": ["1"]}), path)
    with pytest.raises(RecordFormatError, match=r"Column 'X' of parquet file .* is string; event time is"):
        units_of(PARQUET, path, "X")
