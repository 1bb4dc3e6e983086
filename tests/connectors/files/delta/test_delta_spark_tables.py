"""Many small Delta tables that Spark writes. The snapshot, and the rows of each step, are compared
with Spark's own reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.connectors.files.support.delta_statements import (
    BY_NAME,
    CHANGES,
    COLUMNS,
    VECTORS,
    WIDENING,
    Step,
    rows,
    table_with,
)
from tests.connectors.files.support.following import Following, check_rows_of_each_step
from tests.connectors.files.support.spark_tables import SparkTable, at, small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def old_dates(calendar: str, kind: str, zone: str) -> Step:
    """Returns statements that add days of several centuries, in a calendar, a Parquet type and a time zone."""
    days = ", ".join(
        f"'{day}'" for day in ("0002-01-01", "0100-03-01", "1582-10-04", "1582-10-15", "1883-11-17")
    )
    return (
        f"set spark.sql.session.timeZone={zone}",
        f"set spark.sql.parquet.datetimeRebaseModeInWrite={calendar}",
        f"set spark.sql.parquet.int96RebaseModeInWrite={calendar}",
        f"set spark.sql.parquet.outputTimestampType={kind}",
        "insert into {t} select 1, d, cast(d as timestamp) + interval '1' second, cast(d as timestamp_ntz), "
        "array(d, null), map(d, named_struct('at', cast(d as timestamp), 'there', cast(d as timestamp_ntz))) "
        f"from (select explode(cast(array({days}) as array<date>)) d)",
        "set spark.sql.session.timeZone=UTC",
    )


TABLES: Final[dict[str, Sequence[Step]]] = {
    "generated, identity and default columns, and constraints": (
        (
            "create table {t} (id long, ts timestamp, d date generated always as (cast(ts as date)), "
            "i bigint generated always as identity (start with 5 increment by 3), y int default 7, c long not null) "
            "using delta partitioned by (d) tblproperties ('delta.feature.allowColumnDefaults'='supported')",
            "alter table {t} add constraint q check (c > -1)",
            "insert into {t} (id, ts, c) select id, timestamp_seconds(1700000000 + id * 20000), id from range(9)",
        ),
        (f"insert into {{t}} (id, ts, c) select id, {at()}, id from range(3)",),
        (CHANGES, "update {t} set c = 100 where id = 2"),
    ),
    "clustering that changes": (
        ("create table {t} (id long, ts timestamp, k int) using delta cluster by (id)", rows(0, 9, "1")),
        ("alter table {t} cluster by (k)", rows(9, 12, "2"), "optimize {t} full"),
        ("alter table {t} cluster by none", rows(12, 15, "3")),
    ),
    "files that VACUUM removes": (
        (table_with(VECTORS), rows(0, 20, "1")),
        (
            CHANGES,
            "delete from {t} where id < 3",
            "reorg table {t} apply (purge)",
            "vacuum {t} lite retain 0 hours",
        ),
        (rows(30, 33, "1"),),
    ),
    "v2 checkpoints in JSON with sidecars": (
        (
            "set spark.databricks.delta.checkpointV2.topLevelFileFormat=json",
            "set spark.databricks.delta.checkpoint.partSize=3",
            table_with(VECTORS, BY_NAME, "'delta.checkpointPolicy'='v2'", "'delta.checkpointInterval'='2'"),
            rows(0, 50, "id % 5"),
        ),
        (CHANGES, "delete from {t} where id % 7 = 0"),
        (rows(60, 70, "id % 5"),),
    ),
    "checkpoints of several parts, with statistics as structs": (
        (
            "set spark.databricks.delta.checkpoint.partSize=3",
            table_with(
                VECTORS,
                "'delta.checkpoint.writeStatsAsStruct'='true'",
                "'delta.checkpoint.writeStatsAsJson'='false'",
                "'delta.checkpointInterval'='2'",
            ),
            rows(0, 50, "id % 5"),
        ),
        (CHANGES, "delete from {t} where id % 7 = 0"),
        (rows(60, 70, "null"),),
    ),
    "vectors, renamed columns and wider types": (
        (
            table_with(
                VECTORS,
                BY_NAME,
                WIDENING,
                columns="(id int, ts timestamp, s struct<a: short, b: string>, p byte) using delta partitioned by (p)",
            ),
            rows(0, 20, "named_struct('a', id, 'b', 'x')", "id % 2"),
        ),
        (
            CHANGES,
            "delete from {t} where id = 4",
            "alter table {t} alter column id type long",
            "alter table {t} rename column s.a to aa",
            "alter table {t} alter column s.aa type int",
            "alter table {t} alter column p type int",
            "alter table {t} rename column p to part",
            "update {t} set id = id + 5000000000, s.aa = 100000 where id = 7",
        ),
        (
            CHANGES,
            f"merge into {{t}} t using (select id, {at()} ts from range(15, 25)) u on t.id = u.id "
            "when matched and t.id % 2 = 0 then delete when matched then update set id = -t.id "
            "when not matched then insert (id, ts, part) values (u.id, u.ts, 100000)",
        ),
        (CHANGES, "reorg table {t} apply (purge)"),
        (rows(100, 104, "null", "3"),),
    ),
    "names that are dropped and used again": (
        (
            table_with(
                BY_NAME, columns="(id long, ts timestamp, a int, s struct<x: int, y: int>) using delta"
            ),
            rows(0, 10, "1", "named_struct('x', 2, 'y', 3)"),
        ),
        (
            CHANGES,
            "alter table {t} drop columns (a, s.x)",
            "alter table {t} add columns (a string, s.x string)",
        ),
        (
            f"insert into {{t}} (id, ts, a, s) select id, {at()}, 'q', named_struct('y', 5, 'x', 'tt') "
            "from range(10, 20)",
        ),
        (CHANGES, "alter table {t} rename column a to b", "alter table {t} add column a date"),
        (f"insert into {{t}} (id, ts, a, b) select id, {at()}, date'2020-01-01', 'bb' from range(30, 34)",),
    ),
    "partition columns of every type": (
        (
            "create table {t} (id long, ts timestamp, b boolean, y byte, i int, l long, f float, d double, "
            "e decimal(20, 5), a date, t timestamp, n timestamp_ntz, s string) using delta "
            "partitioned by (b, y, i, l, f, d, e, a, t, n, s)",
            "insert into {t} values (1, timestamp'2026-01-01 00:00:00Z', true, 1, 3, 4, 1.5, 2.25, "
            "123456789012345.12345, date'2026-02-03', timestamp'2026-01-01 01:02:03.123456Z', "
            "timestamp_ntz'2026-01-01 01:02:03.000001', 'a/b%c:d=e+f g?h#i&j\"k\\\\l'), "
            "(2, null, null, null, null, null, null, null, null, null, null, null, null), "
            "(3, null, false, -128, -2147483648, -9223372036854775808, float('NaN'), double('-Infinity'), "
            "-99999.00001, date'0001-01-01', timestamp'0001-01-01 00:00:00Z', "
            "timestamp_ntz'9999-12-31 23:59:59.999999', ''), "
            "(4, null, false, 127, 2147483647, 9223372036854775807, float('Infinity'), 1e-300, 0, "
            "date'9999-12-31', timestamp'1969-12-31 23:59:59.5Z', timestamp_ntz'1500-01-01 00:00:00', 'é 日本 😀'), "
            "(5, null, false, 0, 0, 0, -0.0, -0.0, 1, date'1582-10-04', timestamp'1900-01-01 00:00:00Z', "
            "timestamp_ntz'1970-01-01 00:00:00', 'new\\nline\\ttab')",
        ),
        ("insert into {t} select 100 + id, ts, b, y, i, l, f, d, e, a, t, n, s from {t}",),
        (CHANGES, "delete from {t} where id = 103"),
    ),
    "names to be escaped, in a zone of its own": (
        (
            "set spark.sql.session.timeZone=America/New_York",
            table_with(
                BY_NAME,
                VECTORS,
                columns="(id long, ts timestamp, `p.q` timestamp, `x y` string) using delta "
                "partitioned by (`p.q`, `x y`)",
            ),
            rows(0, 10, "timestamp'2026-07-01 01:02:03.5'", "concat('%20', id % 2)"),
        ),
        (CHANGES, "delete from {t} where id = 4", "alter table {t} rename column `p.q` to `p q`"),
        (rows(20, 22, "null", "'a,b;{}()='"),),
    ),
    "nested columns": (
        (
            table_with(
                BY_NAME,
                columns="(id long, ts timestamp_ntz, x array<struct<a: map<string, array<struct<b: decimal(38, 18), "
                "c: binary, d: array<array<int>>>>>>>, m map<struct<k: int, l: date>, map<int, struct<z: timestamp, "
                "e: boolean>>>) using delta",
            ),
            "insert into {t} select id, timestamp_ntz'2026-01-01 00:00:00', array(named_struct('a', map('k', "
            "array(named_struct('b', 1.5, 'c', x'00ff', 'd', array(array(1, null), null, array()))))), null, "
            "named_struct('a', null)), map(named_struct('k', 1, 'l', date'2020-01-01'), map(1, named_struct('z', "
            f"{at()}, 'e', true), 2, null)) from range(3)",
        ),
        (
            CHANGES,
            "alter table {t} rename column x.element.a.value.element.b to bb",
            "alter table {t} add column x.element.a.value.element.e string",
            "alter table {t} rename column m.value.value.z to zz",
        ),
        (
            "insert into {t} (id, x) select id, array(named_struct('a', map('k', array(named_struct('bb', -1.5, "
            "'c', null, 'd', null, 'e', 'new'))))) from range(10, 13)",
        ),
        (CHANGES, "alter table {t} drop column x.element.a.value.element.c"),
    ),
    "greatest and least values": (
        (
            "create table {t} (id long, a decimal(38, 0), b decimal(38, 38), c decimal(9, 2), d decimal(18, 9), "
            "e binary, f float, g double, h date, i string, j boolean, k byte, l short, t timestamp) "
            "using delta",
            f"insert into {{t}} values (1, {'9' * 38}, 0.{'9' * 38}, -1.5, 123456789.123456789, x'', float('NaN'), "
            "double('NaN'), date'0001-01-01', '', true, -128, -32768, timestamp'1500-01-01 00:00:00Z'), "
            f"(2, -{'9' * 38}, -0.{'9' * 38}, 0, 0, x'00ff', -0.0, double('-Infinity'), date'9999-12-31', 'é😀', null, "
            "127, 32767, timestamp'9999-12-31 23:59:59.999999Z')",
        ),
        ("set spark.sql.parquet.outputTimestampType=TIMESTAMP_MILLIS", "insert into {t} select * from {t}"),
        ("set spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS", "insert into {t} select * from {t}"),
    ),
    "the calendar before 1582": (
        (
            "create table {t} (id long, d date, ts timestamp, n timestamp_ntz, a array<date>, "
            "m map<date, struct<at: timestamp, there: timestamp_ntz>>) using delta",
        ),
        old_dates("LEGACY", "TIMESTAMP_MICROS", "UTC"),
        old_dates("CORRECTED", "TIMESTAMP_MICROS", "UTC"),
        old_dates("LEGACY", "INT96", "UTC"),
        old_dates("LEGACY", "TIMESTAMP_MILLIS", "America/Los_Angeles"),
        old_dates("LEGACY", "INT96", "Asia/Kolkata"),
    ),
    "no rows": (
        (table_with(VECTORS),),
        (rows(0, 0, "1"),),
        (rows(0, 3, "1"),),
        (CHANGES, "delete from {t}"),
        (rows(0, 3, "1"),),
    ),
    "RESTORE and ZORDER": (
        (table_with(VECTORS), rows(0, 20, "id % 2"), rows(20, 40, "id % 2")),
        (CHANGES, "delete from {t} where id = 1"),
        ("optimize {t} zorder by (id)",),
        (CHANGES, "restore table {t} to version as of 2"),
        (rows(40, 44, "0"),),
    ),
    "features that are dropped": (
        (table_with(VECTORS, WIDENING, "'delta.checkpointPolicy'='v2'"), rows(0, 10, "1")),
        (CHANGES, "delete from {t} where id = 1", "alter table {t} drop feature deletionVectors"),
        ("alter table {t} drop feature v2Checkpoint", rows(10, 20, "1")),
        (CHANGES, "alter table {t} alter column p type long"),
        (rows(20, 23, "5000000000"),),
        (
            CHANGES,
            "alter table {t} set tblproperties ('delta.enableTypeWidening'='false')",
            "alter table {t} drop feature typeWidening",
        ),
        (rows(23, 25, "5000000000"),),
    ),
    "in-commit timestamps and row tracking in mid-life": (
        (f"create table {{t}} {COLUMNS}", rows(0, 10, "1")),
        ("alter table {t} set tblproperties ('delta.enableInCommitTimestamps'='true')", rows(10, 12, "1")),
        ("alter table {t} set tblproperties ('delta.enableRowTracking'='true')", rows(12, 14, "1")),
        (CHANGES, "update {t} set id = id + 100 where id = 3"),
        ("alter table {t} drop feature inCommitTimestamp", rows(14, 17, "1")),
    ),
    "column mapping in mid-life": (
        (f"create table {{t}} {COLUMNS}", rows(0, 10, "id % 2")),
        (f"alter table {{t}} set tblproperties ({BY_NAME})", rows(10, 14, "id % 2")),
        (CHANGES, "alter table {t} rename column p to q"),
        (
            "alter table {t} add columns (`x.y` int after id, `a,b;{}()=` string)",
            f"insert into {{t}} (id, ts, q, `x.y`, `a,b;{{}}()=`) select id, {at()}, 5, 6, 'u' from range(30, 32)",
        ),
    ),
    "data that is replaced": (
        (f"create table {{t}} {COLUMNS}", rows(0, 10, "id % 2")),
        (CHANGES, f"insert overwrite {{t}} select id, {at()}, id % 2 from range(5)"),
        (CHANGES, f"insert into {{t}} replace where p = 1 select id, {at()}, 1 from range(40, 43)"),
        (rows(0, 4, "3"),),
    ),
    "a change data feed": (
        (table_with("'delta.enableChangeDataFeed'='true'"), rows(0, 10, "1")),
        (CHANGES, "delete from {t} where id = 1"),
        (
            CHANGES,
            f"merge with schema evolution into {{t}} t using (select id, {at()} ts, 2 p, 'n' extra from "
            "range(8, 12)) u on t.id = u.id when matched then delete when not matched then insert *",
        ),
        (rows(30, 33, "1", "null"),),
    ),
    "prefixes in place of folders": (
        (
            table_with(
                VECTORS, "'delta.randomizeFilePrefixes'='true'", columns=COLUMNS.replace("p int", "p string")
            ),
            rows(0, 10, "'a%b'"),
        ),
        (CHANGES, "delete from {t} where id = 2"),
        ("set spark.databricks.delta.write.dataFilesToSubdir=true", rows(10, 20, "'a b'")),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_each_table_are_those_of_spark(session: SparkSession, tmp_path: Path, name: str) -> None:
    check_rows_of_each_step(SparkTable(small(session), tmp_path / "a table"), TABLES[name])


def test_a_converted_table_is_followed_while_two_writers_write_it(
    session: SparkSession, tmp_path: Path
) -> None:
    """A Parquet table is converted to Delta. Then Spark and delta-rs add, delete, compact and make
    checkpoints in turn.
    """
    table = SparkTable(session, tmp_path / "a table")
    values = f"id, {at()} ts, concat('v%/ ', id % 2) p, if(id = 0, null, date'2026-01-01') d"
    session.sql(f"select {values} from range(10)").write.partitionBy("p", "d").parquet(str(table.path))
    session.sql(f"convert to delta parquet.`{table.path}` partitioned by (p string, d date)")
    following = Following(table)
    following.agrees(only_adds=True)
    data = {
        "id": pa.array([100, 101], pa.int64()),
        "ts": pa.array([1, 2], pa.timestamp("us", "UTC")),
        "p": ["x=%/y", None],
        "d": pa.array([None, 20_000], pa.date32()),
    }
    write_deltalake(table.path, pa.table(data), mode="append")
    DeltaTable(table.path).create_checkpoint()
    following.agrees(only_adds=True)
    table(f"insert into {{t}} select id, {at()}, 'c', null from range(10, 20)")
    following.agrees(only_adds=True)
    DeltaTable(table.path).delete("id = 100")
    table("delete from {t} where id = 2")
    DeltaTable(table.path).optimize.compact()
    DeltaTable(table.path).create_checkpoint()
    following.agrees(only_adds=False)
