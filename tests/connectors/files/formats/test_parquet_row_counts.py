"""Parquet files that have fewer rows than their footer or the plan says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.errors import CorruptRecordError, DataLossError
from tests.connectors.files.support.reading import LOCAL_FS, units_of
from tests.support.parquet_pages import hide_page

PARQUET = ParquetFormat()
ROWS = 1000
IDS = pa.schema([("id", pa.int64())])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 1000 rows in row groups of 300."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(ROWS)}), path, row_group_size=300)
    return path


def test_a_page_of_an_unknown_kind_is_damage(path: Path) -> None:
    """A wrong bit in the header of a page lets Arrow return fewer rows. It is an error, also of event times."""
    hide_page(path, group=2, column="id")
    with pytest.raises(
        CorruptRecordError, match=r"a\.parquet does not decode: .* ignoreCorruptFiles .* position"
    ):
        list(PARQUET.read(LOCAL_FS, str(path), 0, ROWS, IDS))
    pq.write_table(pa.table({"id": range(ROWS)}), path, write_statistics=False, use_dictionary=False)
    hide_page(path, group=0, column="id")
    message = r"a\.parquet does not decode: a part of it has 0 rows, and its footer says 1000"
    with pytest.raises(CorruptRecordError, match=message):
        units_of(PARQUET, path, "id")


def test_a_file_with_fewer_rows_than_planned_is_refused(path: Path) -> None:
    """A file can be overwritten by a file of the same size with fewer rows."""
    with pytest.raises(DataLossError, match=r"had at least 1001 rows when it was listed and has fewer now"):
        list(PARQUET.read(LOCAL_FS, str(path), ROWS - 1, ROWS + 1, IDS))
    with pytest.raises(DataLossError, match=r"had at least 1002 rows when it was listed and has fewer now"):
        list(PARQUET.read(LOCAL_FS, str(path), ROWS + 1, ROWS + 2, IDS))
