"""CSV files, read by Spark and by the file source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tests.connectors.files.support.file_query import FileQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize(
    ("schema", "text", "options"),
    [
        ("n int, s string", '"",""\n,\n"1","a"\n', {}),
        ("n int, d date, t timestamp, b boolean, x double", '"","","","",""\n', {}),
        ("s string, n int", '"NA",1\nNA,NA\n,3\n"x",\n', {"nullValue": "NA"}),
        ("dt date", "1,a\n2,b\n3,c\n", {}),
        ("dt date", "n,s\n1,a\n2,b\n", {"header": "true"}),
    ],
)
def test_nulls_and_partition_columns_are_those_of_spark(
    spark: SparkSession, tmp_path: Path, schema: str, text: str, options: dict[str, str]
) -> None:
    """An empty value in quotes is null. A query that reads only a partition column gets a row for each line."""
    (tmp_path / "dt=2026-11-01").mkdir()
    (tmp_path / "dt=2026-11-01" / "a.csv").write_text(text)
    assert _read(tmp_path, schema, options) == _read_by_spark(spark, tmp_path, schema, options)


SIGNS = ["a", "\\", '"', ",", " ", "b", '\\"', '""']


@pytest.mark.parametrize(
    "options", [{}, {"escape": "\\"}, {"quoteAll": "true"}, {"escape": "'"}, {"escape": '"'}]
)
def test_what_spark_has_written_is_read_as_spark_reads_it(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    """The texts have quotes, escape characters and separators at all places."""
    texts = [first + second + third for first in SIGNS for second in ["", *SIGNS] for third in ["", *SIGNS]]
    rows = [(number, text, text[::-1]) for number, text in enumerate(texts)]
    schema = "n int, s string, t string"
    spark.createDataFrame(rows, schema).coalesce(1).write.options(**options).csv(str(tmp_path / "written"))
    read = _read(tmp_path / "written", schema, options)
    assert read == _read_by_spark(spark, tmp_path / "written", schema, options)
    assert len(read) == len(rows)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("n int, s string", '0,a\\"b\n1,c\\d\n2,"e\\f \\"g\\""\n3,"h\\\\"\n4,"i\\\\j"\n'),
        ("n int, d decimal(6,2)", '0,7.972\n1,-7.975\n2,12.5\n3,19663\n4,x\n5,"1,000.5"\n6,1e3\n7,\n'),
        ("n int, d decimal(38,10)", f"0,{34 * '9'}\n1,{28 * '9'}\n2,1e-12\n"),
        ("n int, b boolean", "0,1\n1,0\n2,TRUE\n3,False\n4,yes\n5,\n"),
    ],
)
def test_values_are_those_of_spark(spark: SparkSession, tmp_path: Path, schema: str, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    options = {"mode": "DROPMALFORMED"}
    assert _read(tmp_path, schema, options) == _read_by_spark(spark, tmp_path, schema, options)


def _read(folder: Path, schema: str, options: dict[str, str]) -> list[dict[str, object]]:
    given = {"path": str(folder), "files.format": "csv", **options}
    given.pop("quoteAll", None)  # an option of Spark's writer
    reading = FileQuery(given, schema=to_arrow_schema(_struct(schema), timezone="UTC"))
    reading.run()
    return [{**row} for row in reading.rows]


def _read_by_spark(
    spark: SparkSession, folder: Path, schema: str, options: dict[str, str]
) -> list[dict[str, object]]:
    rows = spark.read.schema(schema).options(**options).csv(str(folder))
    found: list[dict[str, object]] = rows.select(*_struct(schema).names).toArrow().to_pylist()
    return found


def _struct(schema: str) -> StructType:
    wanted = StructType.fromDDL(schema)
    assert isinstance(wanted, StructType)
    return wanted
