"""JSON is decoded as by Spark's ``from_json`` and by Spark's source of JSON files, but for the differences listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt
import pytest
from pyspark.sql.functions import col, from_json
from pyspark.sql.pandas.types import to_arrow_schema

from flip27_stream.decoding.json_columns import JsonColumns
from tests.decoding.support.json_cases import DOCUMENTS, TYPES, damaged, single_values, with_several
from tests.decoding.support.json_differences import ARRAYS_AT_THE_TOP, FROM_JSON, JSON_FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Row = dict[str, Any]

ROOT = Path(__file__).parents[2]
KNOWN = list(dict.fromkeys([*single_values(), *DOCUMENTS]))
SEVERAL = list(with_several(800, [text for texts in FROM_JSON.values() for text in texts]))
DAMAGED = list(damaged(SEVERAL))


@pytest.fixture(scope="module")
def utc(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def schema_of(session: SparkSession) -> StructType:
    columns = ", ".join(f"`{name}` {kind}" for name, kind in TYPES.items())
    return session.createDataFrame([], f"{columns}, b int, bad string").schema


def comparable(column: pa.Array) -> pa.Array:
    """Returns ``column`` in types of which Python has all values: times as numbers, text as bytes, maps as lists of
    entries.
    """
    kind, null = column.type, column.is_null()
    if pt.is_string(kind):
        return column.view(pa.binary())
    if pt.is_date32(kind) or pt.is_timestamp(kind):
        return column.view(pa.int32() if pt.is_date32(kind) else pa.int64())
    if pt.is_map(kind):
        entries = pa.StructArray.from_arrays(
            [comparable(column.keys), comparable(column.items)], ["key", "value"]
        )
        return pa.ListArray.from_arrays(column.offsets, entries, mask=null)
    if pt.is_list(kind):
        return pa.ListArray.from_arrays(column.offsets, comparable(column.values), mask=null)
    if pt.is_struct(kind):
        return pa.StructArray.from_arrays(
            [comparable(c) for c in column.flatten()], [f.name for f in kind], mask=null
        )
    return column


def rows_of(columns: Iterable[pa.Array], bad: Sequence[bool]) -> list[Row]:
    cells = [comparable(column).to_pylist() for column in columns]
    rows = zip(*cells, strict=True)
    return [
        dict(zip((*TYPES, "b"), row, strict=True)) | {"bad": wrong}
        for row, wrong in zip(rows, bad, strict=True)
    ]


def by_spark(table: pa.StructArray) -> list[Row]:
    *columns, bad = table.flatten()
    return rows_of(columns, bad.is_valid().to_pylist())


def by_us(session: SparkSession, documents: Sequence[bytes], *, strict_utf8: bool = False) -> list[Row]:
    fields = to_arrow_schema(schema_of(session), timezone="UTC")
    fields = fields.remove(fields.get_field_index("bad"))
    found = JsonColumns(fields, strict_utf8=strict_utf8).decode(pa.array(documents, pa.binary()))
    return rows_of(found.columns, found.bad.to_pylist())


def assert_differences(
    ours: Mapping[bytes, Row], theirs: Mapping[bytes, Row], listed: Mapping[str, Sequence[bytes]]
) -> None:
    """Asserts that the documents with different rows are exactly those that are listed."""
    expected = {text for texts in listed.values() for text in texts}
    differ = {text: (ours[text], theirs[text]) for text in theirs if repr(ours[text]) != repr(theirs[text])}
    assert {text: differ[text] for text in differ if text not in expected} == {}
    assert [text for text in expected if text not in differ] == []


@pytest.mark.jvm
def test_documents_are_decoded_as_by_from_json(utc: SparkSession) -> None:
    """Documents are decoded as by ``from_json``: values of all types in all columns, objects with several of them,
    and these objects with a few characters changed.
    """
    documents = list(dict.fromkeys([*KNOWN, *SEVERAL, *DAMAGED]))
    frame = utc.createDataFrame(list(enumerate(documents)), "i int, v binary")
    row = from_json(col("v").cast("string"), schema_of(utc), {"columnNameOfCorruptRecord": "bad"})
    table = frame.select("i", row.alias("row")).toArrow().combine_chunks()
    order = table["i"].to_pylist()
    theirs = dict(zip((documents[i] for i in order), by_spark(table["row"].chunk(0)), strict=True))
    ours = dict(zip(documents, by_us(utc, documents), strict=True))

    whole = [*KNOWN, *SEVERAL]
    assert_differences(
        {text: ours[text] for text in whole}, {text: theirs[text] for text in whole}, FROM_JSON
    )
    good = [text for text in DAMAGED if not ours[text]["bad"]]
    assert [text for text in good if repr(ours[text]) != repr(theirs[text])] == []
    # Of bad documents Spark may keep some fields, and it does not see text behind an object.
    assert [
        text
        for text in DAMAGED
        if ours[text]["bad"] and not theirs[text]["bad"] and b"}" not in text.rstrip(b"} ")
    ] == []


@pytest.mark.jvm
def test_lines_are_decoded_as_by_spark_s_json_source(utc: SparkSession, tmp_path: Path) -> None:
    """Lines are decoded as by Spark's source of JSON files.

    Rows are in the order of the lines; arrays, of which Spark makes any number of rows, are the last lines.
    """
    lines = [
        text for text in KNOWN if text.strip(b" \t\r") and b"\n" not in text and not text.startswith(b"[")
    ]
    path = tmp_path / "lines.json"
    path.write_bytes(b"".join(text + b"\n" for text in [*lines, *ARRAYS_AT_THE_TOP]))
    reader = utc.read.schema(schema_of(utc)).option("columnNameOfCorruptRecord", "bad")
    found = by_spark(reader.json(str(path)).coalesce(1).toArrow().combine_chunks().to_struct_array().chunk(0))
    assert len(found) == len(lines) + sum(ARRAYS_AT_THE_TOP.values())
    assert not any(row["bad"] for row in found[len(lines) :])
    assert all(row["bad"] for row in by_us(utc, list(ARRAYS_AT_THE_TOP), strict_utf8=True))
    ours = dict(zip(lines, by_us(utc, lines, strict_utf8=True), strict=True))
    assert_differences(ours, dict(zip(lines, found, strict=False)), JSON_FILES)


def test_the_page_on_columns_has_a_row_for_each_difference() -> None:
    page = (ROOT / "docs" / "columns.md").read_text()
    assert [title for title in [*FROM_JSON, *JSON_FILES] if f"\n| {title} |" not in page] == []
