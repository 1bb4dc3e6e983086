"""Columns of text in Parquet files that are read by means of their dictionaries."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.formats import parquet_dictionaries
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.connectors.files.formats.parquet_dictionaries import columns_with_small_dictionaries
from tests.connectors.files.support.reading import read_table

PARQUET = ParquetFormat()
ROWS = 6000
FEW = [None if i % 7 == 0 else f"{i % 5}-ä" for i in range(ROWS)]
MANY = [f"{i}{'x' * (i % 90)}" for i in range(ROWS)]


def write(path: Path, columns: dict[str, Any], **how: Any) -> pq.ParquetFile:
    pq.write_table(pa.table(columns), path, row_group_size=ROWS // 3, compression="none", **how)
    return pq.ParquetFile(path)


def chosen(file: pq.ParquetFile, *columns: str) -> list[str]:
    return columns_with_small_dictionaries(file, columns, range(file.num_row_groups))


def test_columns_of_text_or_bytes_with_small_dictionaries(tmp_path: Path) -> None:
    columns = {
        "few": FEW,
        "many": MANY,
        "bytes": pa.array(FEW, pa.string()).cast(pa.binary()),
        "number": [0] * ROWS,
        "plain": FEW,
        "nested": [{"a": "x", "b": "y"}] * ROWS,
        "after": FEW,
    }
    names = [name for name in columns if name != "plain"]
    file = write(tmp_path / "f.parquet", columns, use_dictionary=[*names, "nested.a"])
    assert chosen(file, *columns) == ["few", "bytes"]
    assert chosen(file, "number", "few") == ["few"]
    assert chosen(file, "absent") == []


def test_a_large_dictionary_in_one_row_group(tmp_path: Path) -> None:
    file = write(tmp_path / "f.parquet", {"text": FEW[: ROWS // 3 * 2] + MANY[-ROWS // 3 :]})
    assert chosen(file, "text") == []
    assert columns_with_small_dictionaries(file, ["text"], [0, 1]) == ["text"]


TEXTS = st.sampled_from([None, "", "a", "ä", "a" * 40]) | st.text(max_size=3)


@given(
    st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 9)), min_size=1, max_size=60),
    st.integers(1, 40),
    st.lists(st.integers(0, 60), max_size=3),
)
def test_the_values_are_those_that_were_written(
    rows: list[tuple[str | None, str | None, int]], group: int, cuts: list[int]
) -> None:
    """Also if row groups have different dictionaries, and if a piece begins or ends within a batch."""
    first, second, numbers = (list(column) for column in zip(*rows, strict=True))
    table = pa.table(
        {
            "first": pa.array(first, pa.string()),
            "number": numbers,
            "second": pa.array(second, pa.string()).cast(pa.binary()),
        }
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f.parquet"
        pq.write_table(table, path, row_group_size=group)
        places = sorted(min(cut, len(rows)) for cut in cuts)
        assert read_table(PARQUET, path, table.schema, places) == table


def test_a_file_that_is_read_by_dictionaries_is_decoded_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches are the same with and without dictionaries, and only with them is anything looked up."""
    path = tmp_path / "f.parquet"
    write(path, {"few": FEW, "many": MANY})
    schema = pa.schema([("many", pa.string()), ("few", pa.string())])
    looked_up: list[pa.Schema] = []
    expanded = parquet_dictionaries.expanded

    def noted(batch: pa.RecordBatch, columns: Collection[str]) -> pa.RecordBatch:
        looked_up.append(batch.schema)
        return expanded(batch, columns)

    monkeypatch.setattr("flip27_stream.connectors.files.formats.parquet.expanded", noted)
    by_dictionary = read_table(PARQUET, path, schema)
    assert {str(each.field("few").type) for each in looked_up} == {
        "dictionary<values=string, indices=int32, ordered=0>"
    }
    assert {each.field("many").type for each in looked_up} == {pa.string()}
    looked_up.clear()
    monkeypatch.setattr(parquet_dictionaries, "_LARGEST_PAGE", 0)
    assert read_table(PARQUET, path, schema) == by_dictionary
    assert looked_up == []
