"""Partitioned folders that Spark writes. Columns, types and rows are compared with Spark's own reading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from flip27_stream.connectors.files import FileSource
from tests.connectors.files.support.file_query import FileQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

VALUES = {
    "whole": ["1", "-2", "007"],
    "large": ["1", "3000000000"],
    "huge": ["99999999999999999999", "1"],
    "fraction": ["1", "1.5", "-2.25"],
    "exponent": ["1e3", "1.5"],
    "suffix": ["7f", "1D", "-2.5e1d"],
    "blanks": [" 1", "2 "],
    "hexadecimal": ["7f", "7e"],
    "infinite": ["1e5555", "-Infinity", "NaN"],
    "mixed": ["3000000000", "1.5"],
    "day": ["2026-11-01", "2026-12-24"],
    "time": ["2026-11-01", "2026-11-01 10:00:00"],
    "no_day": ["2026-02-30"],
    "text": ["a b", "é/ü", "x=y", "50%", "100%25"],
    "some": ["1", "__HIVE_DEFAULT_PARTITION__"],
    "flag": ["true", "false"],
}


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_partition_columns_are_those_of_spark(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    for name, values in VALUES.items():
        folder = tmp_path / name
        rows = spark.range(len(values)).selectExpr(
            "id", f"array({', '.join(map(repr, values))})[int(id)] as `p {name}`"
        )
        nulls = rows.replace({"__HIVE_DEFAULT_PARTITION__": None}, subset=[f"p {name}"])
        nulls.coalesce(1).write.format(format_).partitionBy(f"p {name}").save(str(folder))
        options = {"path": str(folder), "files.format": format_}
        builtin = spark.read.format(format_).load(str(folder))
        reading = FileQuery(options)
        reading.run()
        assert [str(from_arrow_schema(FileSource(options).schema)), *sorted(map(repr, reading.rows))] == [
            str(builtin.schema),
            *sorted(map(repr, builtin.toArrow().to_pylist())),
        ]
