"""Delta tables that Spark writes with the features that Databricks turns on. Their rows are compared
with Spark's own reading.
"""

from __future__ import annotations

from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flip27_stream.errors import ConnectorError, DataLossError, SchemaChangedError
from tests.connectors.files.support.delta_tables import fails, query, running
from tests.connectors.files.support.file_query import FileQuery
from tests.connectors.files.support.spark_tables import Rows, SparkTable, at, in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def followed(table: SparkTable, **options: str) -> FileQuery:
    """Returns a query that has read all rows of the table."""
    reading = query(table.path, **options)
    reading.run()
    return reading


def new_rows(reading: FileQuery) -> Rows:
    """Restarts a query, and returns the rows that it reads then."""
    before = len(reading.rows)
    reading.restart()
    reading.run()
    return reading.rows[before:]


def test_deletion_vectors_of_spark_are_applied(table: SparkTable) -> None:
    """The vectors come from DELETE, UPDATE, MERGE, RESTORE, OPTIMIZE and REORG. The table has partitions, checkpoints,
    and names to be escaped.
    """
    table(
        "create table {t} (id long, ts timestamp, p string) using delta partitioned by (p) tblproperties "
        "('delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='3')",
        f"insert into {{t}} select id, {at()}, if(id % 2 = 0, 'a b/é%', null) from range(40)",
    )
    whole = query(table.path, skipChangeCommits="true", maxRowsPerTrigger="7", drift="5 s")
    assert whole.step()
    table(
        "delete from {t} where id % 5 = 0",
        "update {t} set id = id + 100 where id in (1, 2)",
        "merge into {t} t using (select id from range(10, 14)) s on t.id = s.id "
        "when matched and t.id = 12 then delete when matched then update set id = t.id + 200 "
        f"when not matched then insert (id, ts, p) values (s.id, {at('s.id')}, 'new')",
    )
    table.agrees(drift="5 s")
    whole.restart()
    whole.run()
    assert sorted(row["id"] for row in whole.rows) == list(range(40))
    table("optimize {t}", "delete from {t} where id = 21", "reorg table {t} apply (purge)")
    table.agrees()
    table("restore table {t} to version as of 2")
    table.agrees()


def test_commits_with_deletion_vectors_follow_the_options(table: SparkTable) -> None:
    table(
        "create table {t} (id long) using delta tblproperties ('delta.enableDeletionVectors'='true')",
        "insert into {t} select id from range(10)",
    )
    refused, skipping, again = (
        followed(table),
        followed(table, skipChangeCommits="true"),
        followed(table, ignoreChanges="true"),
    )
    table("delete from {t} where id < 4", "insert into {t} values 100")
    refused.restart()
    with pytest.raises(DataLossError, match=r"Version 2 .* changes rows"):
        refused.run()
    assert [row["id"] for row in new_rows(skipping)] == [100]
    assert sorted(row["id"] for row in new_rows(again)) == [*range(4, 10), 100]


def test_columns_mapped_by_id_are_read(table: SparkTable) -> None:
    table(
        "create table {t} (id long, ts timestamp, s struct<a: int>, p int) using delta partitioned by (p) "
        "tblproperties ('delta.columnMapping.mode'='id')",
        f"insert into {{t}} select id, {at()}, named_struct('a', int(id)), id % 2 from range(10)",
        "alter table {t} rename column s.a to `b b`",
        "alter table {t} rename column id to n",
        f"insert into {{t}} select id, {at()}, named_struct('b b', int(id)), id % 2 from range(10, 20)",
    )
    table.agrees(drift="5 s")


def test_columns_mapped_by_name_are_read(table: SparkTable) -> None:
    """Nested columns, partitions, statistics and deletion vectors are read while columns are renamed and dropped."""
    values = (
        f"id, {at()}, named_struct('a', int(id), 'b', array(named_struct('c', string(id)))), "
        "map('x', named_struct('k', int(id))), concat('v ', id % 2)"
    )
    table(
        "create table {t} (id long, time timestamp, s struct<a: int, b: array<struct<c: string>>>, "
        "m map<string, struct<k: int>>, `p q` string) using delta partitioned by (`p q`) tblproperties "
        "('delta.columnMapping.mode'='name', 'delta.enableDeletionVectors'='true')",
        f"insert into {{t}} select {values} from range(20)",
        "alter table {t} rename column time to ts",
    )
    table.agrees(drift="5 s")
    begun = query(table.path, maxRowsPerTrigger="3", drift="5 s", skipChangeCommits="true")
    running_ = running(table.path)
    assert begun.step()
    table(
        "alter table {t} rename column s.a to `a, a`",
        "alter table {t} rename column s.b.element.c to d",
        "alter table {t} rename column m.value.k to `k k`",
        "alter table {t} rename column `p q` to p",
        "delete from {t} where id in (3, 18)",
        f"insert into {{t}} select {values} from range(20, 30)",
    )
    table.agrees(drift="5 s")
    with pytest.raises(SchemaChangedError, match=r"column 's\.a' is named 'a, a' now"):
        fails(running_)
    begun.restart()
    begun.run()
    assert sorted(row["id"] for row in begun.rows) == list(range(30))
    late = begun.rows[-1]
    assert late["s"]["a, a"] == late["id"]
    assert late["s"]["b"] == [{"d": str(late["id"])}]
    assert late["p"] == f"v {late['id'] % 2}"
    assert late["m"] == [("x", {"k k": late["id"]})]
    table(
        "alter table {t} drop column m",
        "alter table {t} add column m int",
        f"insert into {{t}} (id, ts, p, m) select id, {at()}, 'w', 5 from range(30, 33)",
    )
    table.agrees()


def test_files_from_before_a_type_change_are_read_with_the_wider_type(table: SparkTable) -> None:
    """Files and partition values from before a change of types are read with the wider type."""
    wider = {
        "a": "int",
        "i": "bigint",
        "f": "double",
        "d": "decimal(10, 3)",
        "i2": "double",
        "s": "decimal(10, 0)",
    }
    table(
        "create table {t} (ts timestamp, a byte, i int, f float, d decimal(5, 2), i2 int, s short, p short, "
        "n struct<x: byte>, l array<short>) using delta partitioned by (p) "
        "tblproperties ('delta.enableTypeWidening'='true')",
        f"insert into {{t}} values ({at('1')}, -1, 2, 1.5, 1.25, 7, 3, 9, named_struct('x', -4Y), array(1S, null))",
    )
    reading = followed(table)
    table(*(f"alter table {{t}} alter column {name} type {kind}" for name, kind in wider.items()))
    table(
        "alter table {t} alter column p type int",
        "alter table {t} alter column n.x type long",
        "alter table {t} alter column l.element type int",
        f"insert into {{t}} values ({at('2')}, 70000, 5000000000, 1e300, 12345.678, 0.5, 9999999999, 70000, "
        "named_struct('x', 5000000000), array(70000))",
    )
    table.agrees(drift="5 s")
    reading.restart()
    reading.run()
    assert in_order(reading.rows[1:]) == in_order([row for row in table.rows() if row["a"] == 70000])


def test_features_that_change_nothing_for_readers(table: SparkTable) -> None:
    """In-commit timestamps, liquid clustering, row tracking and v2 checkpoints change nothing for readers, also after
    older commits were removed.
    """
    table(
        "create table {t} (id long, ts timestamp) using delta cluster by (id) tblproperties "
        "('delta.enableInCommitTimestamps'='true', 'delta.enableRowTracking'='true', "
        "'delta.enableDeletionVectors'='true', 'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='3')",
        f"insert into {{t}} select id, {at()} from range(20)",
        "delete from {t} where id = 3",
        "optimize {t}",
        "update {t} set id = 77 where id = 7",
    )
    table.agrees(drift="5 s")
    history = table._spark.sql(f"describe history delta.`{table.path}`").collect()
    (written,) = [row.timestamp for row in history if row.version == 4]
    reading = query(table.path, startingTimestamp=written.isoformat(), ignoreChanges="true")
    reading.run()
    assert 77 in reading.ids()
    assert 3 not in reading.ids()
    log = table.path / "_delta_log"
    for version in range(3):
        (log / f"{version:020}.json").unlink()
    table.agrees()


def test_a_time_of_the_history_begins_at_its_version(
    table: SparkTable, session: SparkSession, tmp_path: Path
) -> None:
    """``startingTimestamp`` is compared with the time that ``DESCRIBE HISTORY`` shows, as in Delta's own source. The
    table has no in-commit timestamps, which is Delta's default.
    """
    table("create table {t} (id long) using delta", *(f"insert into {{t}} values {n}" for n in (1, 2, 3)))
    history = session.sql(f"describe history delta.`{table.path}`").collect()
    (at,) = [row.timestamp for row in history if row.version == 2]
    reader = session.readStream.format("delta").option("startingTimestamp", f"{at:%Y-%m-%d %H:%M:%S.%f}")
    writer = reader.load(str(table.path)).writeStream.format("memory").queryName("of_delta")
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert sorted(row.id for row in session.table("of_delta").collect()) == [2, 3]
    reading = query(table.path, startingTimestamp=at.astimezone(timezone.utc).isoformat())
    reading.run()
    assert sorted(reading.ids()) == [2, 3]


def test_unknown_features_of_a_table_are_refused_by_name(
    table: SparkTable, session: SparkSession, tmp_path: Path
) -> None:
    table("create table {t} (id long) using delta", "insert into {t} values 1")
    clone = SparkTable(session, tmp_path / "clone")
    clone(f"create table {{t}} shallow clone delta.`{table.path}`")
    with pytest.raises(ConnectorError, match="lies elsewhere: it is a shallow clone"):
        clone.read()
    reading = followed(table)
    table("alter table {t} add column v variant")
    with pytest.raises(ConnectorError, match="variantType: columns of type variant are not read"):
        query(table.path)
    reading.coordinator.close()
