"""Columns of text in Parquet files that are read by means of their dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.formats import parquet, parquet_dictionaries
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.connectors.files.formats.parquet_dictionaries import RepeatedTexts
from tests.connectors.files.support.reading import read_table

PARQUET = ParquetFormat()
ROWS = 20_000
FEW = [None if i % 7 == 0 else f"{i % 5}-ä" for i in range(ROWS)]
MANY = [f"{i}{'x' * (i % 90)}" for i in range(ROWS)]


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> RepeatedTexts:
    """What is known about files, which is nothing at first."""
    known = RepeatedTexts()
    monkeypatch.setattr(parquet, "_repeated_texts", known)
    return known


def known(repeated: RepeatedTexts, columns: dict[str, Any]) -> list[str]:
    return repeated.among(columns, pa.table(columns).schema)


def test_columns_of_text_or_bytes_that_are_often_repeated(repeated: RepeatedTexts) -> None:
    columns = {
        "few": FEW,
        "many": MANY,
        "bytes": pa.array(FEW, pa.string()).cast(pa.binary()),
        "number": [0] * ROWS,
        "large": pa.array(FEW, pa.large_string()),
        "nulls": pa.nulls(ROWS, pa.string()),
        "with.dot": FEW,
        "nested": [{"few": "x"}] * ROWS,
    }
    assert known(repeated, columns) == []
    repeated.learn(pa.RecordBatch.from_pydict(columns))
    assert known(repeated, columns) == ["few", "bytes", "nulls"]
    assert known(repeated, {"few": [1], "nulls": ["x"]}) == ["nulls"]


def test_a_batch_with_few_rows_teaches_nothing(repeated: RepeatedTexts) -> None:
    repeated.learn(pa.RecordBatch.from_pydict({"few": FEW[:100]}))
    assert known(repeated, {"few": FEW}) == []


@pytest.mark.parametrize("by_dictionary", [False, True])
def test_values_that_are_not_repeated_any_more(repeated: RepeatedTexts, by_dictionary: bool) -> None:
    repeated.learn(pa.RecordBatch.from_pydict({"text": FEW}))
    assert known(repeated, {"text": FEW}) == ["text"]
    many = pa.array(MANY)
    repeated.learn(pa.RecordBatch.from_pydict({"text": many.dictionary_encode() if by_dictionary else many}))
    assert known(repeated, {"text": FEW}) == []


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
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        repeated = RepeatedTexts()
        repeated.learn(pa.RecordBatch.from_pydict({"first": FEW, "second": FEW}))
        patch.setattr(repeated, "learn", lambda batch: None)
        patch.setattr(parquet, "_repeated_texts", repeated)
        path = Path(folder) / "f.parquet"
        pq.write_table(table, path, row_group_size=group)
        assert repeated.among(table.column_names, table.schema) == ["first", "second"]
        places = sorted(min(cut, len(rows)) for cut in cuts)
        assert read_table(PARQUET, path, table.schema, places) == table


@pytest.mark.usefixtures("repeated")
def test_the_second_file_is_read_by_dictionaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.parquet"
    written = pa.table({"few": FEW, "many": MANY})
    pq.write_table(written, path, row_group_size=ROWS // 3)
    schema = pa.schema([("many", pa.string()), ("few", pa.string())])
    looked_up: list[pa.Schema] = []
    expanded = parquet_dictionaries.expanded

    def noted(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
        looked_up.append(batch.schema)
        return expanded(batch, columns)

    monkeypatch.setattr(parquet, "expanded", noted)
    assert read_table(PARQUET, path, schema) == written.select(["many", "few"])
    assert looked_up == []
    assert read_table(PARQUET, path, schema) == written.select(["many", "few"])
    assert {each.field("few").type for each in looked_up} == {pa.dictionary(pa.int32(), pa.string())}
    assert {each.field("many").type for each in looked_up} == {pa.string()}
