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
    builtin = spark.read.schema(schema).options(**options).csv(str(tmp_path))
    wanted = StructType.fromDDL(schema)
    assert isinstance(wanted, StructType)
    given = {"path": str(tmp_path), "files.format": "csv", **options}
    reading = FileQuery(given, schema=to_arrow_schema(wanted, timezone="UTC"))
    reading.run()
    expected = builtin.select(*wanted.names).toArrow().to_pylist()
    assert [{**row} for row in reading.rows] == expected
