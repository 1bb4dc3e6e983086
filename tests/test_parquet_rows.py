"""Rows of Parquet files whose pages are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_stream.parquet_rows import check_row_count, row_batches
from tests.support.parquet_pages import hide_page

ROWS = 1000


def write(path: Path, rows_of_group: int) -> pq.ParquetFile:
    """Writes two columns of the same numbers."""
    table = pa.table({"id": range(ROWS), "same": range(ROWS)})
    pq.write_table(table, path, row_group_size=rows_of_group, use_dictionary=False)
    return pq.ParquetFile(path)


def read_into(rows: list[dict[str, int]], path: Path, columns: Sequence[str]) -> None:
    parquet = pq.ParquetFile(path)
    for batch in row_batches(parquet, range(parquet.num_row_groups), 100, columns):
        rows += batch.to_pylist()


@pytest.mark.parametrize(("rows_of_group", "lengths"), [(30, [90] * 10 + [100]), (70, [70] * 13 + [90])])
def test_small_row_groups_are_read_together(tmp_path: Path, rows_of_group: int, lengths: list[int]) -> None:
    parquet = write(tmp_path / "f", rows_of_group)
    batches = list(row_batches(parquet, range(parquet.num_row_groups), 100))
    assert [batch.num_rows for batch in batches] == lengths
    assert pa.Table.from_batches(batches).column("id").to_pylist() == list(range(ROWS))


def test_large_row_groups_are_divided(tmp_path: Path) -> None:
    batches = list(row_batches(write(tmp_path / "f", 250), [1, 3], 100, ["same"]))
    assert [batch.num_rows for batch in batches] == [84, 84, 82] * 2
    assert pa.Table.from_batches(batches).to_pydict() == {"same": [*range(250, 500), *range(750, 1000)]}


@pytest.mark.parametrize(("rows_of_group", "before"), [(30, 90), (150, 750)])
@pytest.mark.parametrize("columns", [["id"], ["id", "same"]])
def test_a_page_of_an_unknown_kind_is_damage(
    tmp_path: Path, rows_of_group: int, before: int, columns: list[str]
) -> None:
    """Rows before the damaged row group are yielded, then an error is raised. No row has a value of another row."""
    path = tmp_path / "f"
    write(path, rows_of_group)
    hide_page(path, group=5, column="id")
    rows: list[dict[str, int]] = []
    with pytest.raises(pa.ArrowInvalid, match=r"rows, and its footer says|columns do not have the same size"):
        read_into(rows, path, columns)
    assert rows[:before] == [dict.fromkeys(columns, n) for n in range(before)]
    assert all(len(set(row.values())) == 1 for row in rows)


def test_damage_of_a_column_that_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write(path, 150)
    hide_page(path, group=5, column="id")
    rows: list[dict[str, int]] = []
    read_into(rows, path, ["same"])
    assert [row["same"] for row in rows] == list(range(ROWS))


def test_an_empty_row_group_has_no_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "f")
    parquet = pq.ParquetFile(tmp_path / "f")
    assert sum(len(batch) for batch in row_batches(parquet, range(parquet.num_row_groups), 100)) == 0


def test_no_row_groups_have_no_rows(tmp_path: Path) -> None:
    assert list(row_batches(write(tmp_path / "f", ROWS), [], 100)) == []


def test_the_error_has_both_numbers() -> None:
    check_row_count(3, 3)
    with pytest.raises(pa.ArrowInvalid, match="a part of it has 2 rows, and its footer says 3"):
        check_row_count(2, 3)
