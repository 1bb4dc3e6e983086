"""Locations of tables of catalogs. Spark answers for its own tables, and a fake answers for Databricks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flip27_stream
from flip27_stream.errors import ConnectorError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.jvm
def test_the_location_of_a_table_of_spark_is_found(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"create table a_table (id long) using delta location '{tmp_path}/delta'")
    spark.sql(
        f"create table files_ (id long, p int) using parquet partitioned by (p) location '{tmp_path}/parquet'"
    )
    spark.sql(f"create table lines using csv location '{tmp_path}/csv' as select 1")
    spark.sql(f"create table newer (id long, v variant) using delta location '{tmp_path}/variant'")
    spark.sql("create or replace temporary view seen as select 1")
    try:
        spark.sql("insert into a_table values 1")
        spark.sql("insert into files_ values (1, 2)")
        for name, row in {"spark_catalog.default.a_table": (1,), "default.files_": (1, 2)}.items():
            location = flip27_stream.table_location(spark, name)
            assert location.needs == ()
            flip27_stream.register(spark)
            read = spark.read.format("flip27_files").options(**location.options).load(location.path)
            assert [tuple(one) for one in read.collect()] == [row]
        for name, why in {
            "lines": r"table of format 'csv'.*its location \(file:",
            "newer": "variantType: columns of type variant are not read",
            "seen": "not a table of files",
            "default.not_there": "Table default.not_there",
            "/a/path": "Table /a/path does not exist",
        }.items():
            with pytest.raises(ConnectorError, match=why):
                flip27_stream.table_location(spark, name)
    finally:
        for table in ("a_table", "files_", "lines", "newer"):
            spark.sql(f"drop table if exists {table}")
        spark.catalog.dropTempView("seen")


class TupleRow(tuple[Any, ...]):
    def asDict(self) -> dict[str, Any]:
        return dict(self)


class Databricks:
    """A fake session that answers as Databricks documents it."""

    def __init__(self, features: list[str] | None = None, **details: str) -> None:
        self._features = features
        self._details = {
            "Type": "MANAGED",
            "Provider": "delta",
            **{k.replace("_", " "): v for k, v in details.items()},
        }

    @property
    def catalog(self) -> Databricks:
        return self

    def tableExists(self, name: str) -> bool:
        return True

    def sql(self, statement: str) -> Databricks:
        assert statement.endswith("`main`.`a b`.`t.u`")
        columns = [("id", "bigint", None), ("", "", ""), ("# Detailed Table Information", "", "")]
        self._rows: list[Any] = [*columns, *self._details.items()]
        if statement.startswith("DESCRIBE DETAIL"):
            self._rows = [TupleRow({"format": "delta", "tableFeatures": self._features}.items())]
        return self

    def collect(self) -> list[Any]:
        return self._rows


NAME = "main.a b.`t.u`"


@pytest.mark.parametrize(
    ("location", "path", "needs"),
    [
        ("s3://bucket/a", "s3://bucket/a", "files.storage.option.aws_access_key_id"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t", "account_key"),
        ("gs://bucket/a", "gs://bucket/a", "by the machine's own identity"),
        ("hdfs://name/a", "hdfs://name/a", "a client of hdfs:"),
        ("dbfs:/user/hive/warehouse/a", "/dbfs/user/hive/warehouse/a", None),
    ],
)
def test_needs_of_a_location_are_named(location: str, path: str, needs: str | None) -> None:
    session: Any = Databricks(["deletionVectors", "clustering"], Location=location)
    found = flip27_stream.table_location(session, NAME)
    assert (found.path, found.options) == (path, {"files.format": "delta"})
    assert found.needs == () if needs is None else needs in found.needs[0]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"features": ["catalogManaged"], "Location": "s3://b/a"},
            "catalogManaged: the newest commits are in its catalog",
        ),
        ({"Type": "VIEW"}, r"not a table of files \(view\)"),
        ({"Type": "MATERIALIZED_VIEW", "Location": "s3://b/a"}, "materialized view"),
        ({"Type": "FOREIGN", "Provider": "postgresql"}, "foreign"),
        ({"Provider": "iceberg", "Location": "s3://b/a"}, r"format 'iceberg'.*\(s3://b/a\)"),
        (
            {"Location": "s3://b/a", "Row_Filter": "main.f ON (id)"},
            "a row filter, which only its catalog applies",
        ),
        ({"Location": ""}, "does not have its location"),
        (
            {"Location": "wasbs://c@a/b"},
            "its location is wasbs://c@a/b: .*There is no file system for 'wasbs:'",
        ),
    ],
)
def test_the_reason_why_a_table_cannot_be_read_is_named(given: dict[str, Any], why: str) -> None:
    session: Any = Databricks(**given)
    with pytest.raises(ConnectorError, match=why):
        flip27_stream.table_location(session, NAME)
