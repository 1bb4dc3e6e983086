"""More Delta tables that Spark writes: other column mappings, other writers' settings, and rewritten data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.connectors.files.support.delta_statements import (
    BY_NAME,
    CHANGES,
    COLUMNS,
    VECTORS,
    Step,
    rows,
    table_with,
)
from tests.connectors.files.support.following import Following, check_rows_of_each_step
from tests.connectors.files.support.spark_tables import SparkTable, at, small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

NESTED: Final = (
    "(id long, ts timestamp, x array<struct<a: int, b: string>>, m map<string, struct<k: int, l: date>>) "
    "using delta"
)
ONE: Final = (
    "array(named_struct('a', id, 'b', 'x'), null)",
    "map('k', named_struct('k', id, 'l', date'2026-01-01'), 'n', null)",
)

TABLES: Final[dict[str, Sequence[Step]]] = {
    "compatible with Iceberg": (
        (table_with(BY_NAME, "'delta.enableIcebergCompatV2'='true'"), rows(0, 10, "id % 2")),
        (CHANGES, "delete from {t} where id = 3", "alter table {t} rename column ts to time"),
        (rows(10, 14, "null"),),
    ),
    "a column with a collation": (
        (
            "set spark.databricks.delta.schema.typeCheck.enabled=false",
            "create table {t} (id long, ts timestamp, s string collate UTF8_LCASE) using delta",
            rows(0, 10, "concat('A', id)"),
        ),
        (rows(10, 12, "null"),),
    ),
    "mapping by id, with arrays and maps of structs": (
        (table_with("'delta.columnMapping.mode'='id'", columns=NESTED), rows(0, 5, *ONE)),
        (
            CHANGES,
            "alter table {t} rename column x.element.a to aa",
            "alter table {t} rename column m.value.l to ll",
            "alter table {t} rename column x to y",
        ),
        (rows(5, 9, *(one.replace("'a'", "'aa'").replace("'l'", "'ll'") for one in ONE)),),
    ),
    "old files without any column of today": (
        (
            table_with(BY_NAME, columns="(a int, b string) using delta"),
            "insert into {t} values (1, 'x'), (2, 'y')",
        ),
        (
            CHANGES,
            "alter table {t} add columns (id long, ts timestamp)",
            "alter table {t} drop columns (a, b)",
        ),
        (f"insert into {{t}} select id, {at()} from range(3)",),
    ),
    "vectors without statistics": (
        (table_with(VECTORS, "'delta.dataSkippingNumIndexedCols'='0'"), rows(0, 20, "1")),
        (CHANGES, "delete from {t} where id < 3"),
        (rows(20, 24, "1"),),
    ),
    "the older form of Parquet, then mapping by name": (
        (
            "set spark.sql.parquet.writeLegacyFormat=true",
            f"create table {{t}} {NESTED}",
            rows(0, 5, *ONE),
        ),
        (
            CHANGES,
            f"alter table {{t}} set tblproperties ({BY_NAME})",
            "alter table {t} rename column x.element.a to aa",
        ),
        (rows(5, 9, ONE[0].replace("'a'", "'aa'"), ONE[1]),),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_each_table_are_those_of_spark(session: SparkSession, tmp_path: Path, name: str) -> None:
    check_rows_of_each_step(SparkTable(small(session), tmp_path / "a table"), TABLES[name])


def test_data_that_is_written_again_without_a_change_is_not_read_again(
    session: SparkSession, tmp_path: Path
) -> None:
    """A writer says ``dataChange`` = false: it has made other files of the same rows."""
    spark = small(session)
    table = SparkTable(spark, tmp_path / "a table")
    following = Following(table)
    table(f"create table {{t}} {COLUMNS}", rows(0, 10, "1"), rows(10, 20, "2"))
    following.agrees(only_adds=True)
    frame = spark.read.format("delta").load(str(table.path)).repartition(1)
    frame.write.format("delta").option("dataChange", "false").mode("overwrite").save(str(table.path))
    following.agrees(only_adds=True)
    table(rows(20, 23, "1"))
    following.agrees(only_adds=True)
