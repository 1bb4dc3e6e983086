"""The status that Spark computes as a DataFrame is the one that is read without Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import unix_millis

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from tests.watermark_alignment.support.writer_clocks import shift_clock
from watermark_alignment import split_status
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.monitoring.status import SplitMetrics, StatusReader
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

pytestmark = pytest.mark.jvm

PAGE = Path(__file__).parents[3] / "docs" / "watching.md"


def told(split: SplitMetrics) -> tuple[object, ...]:
    rates = tuple(split.per_second.values())
    who = (split.group, split.source, split.split, str(split.status), split.batch)
    return *who, split.recorded_at, split.watermark, split.drift, split.rows_per_second, *rates


def test_the_status_is_the_same_with_and_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The status is the same with and without Spark, also for a second run, removed splits, unknown watermarks, a
    single batch, and two batches at one time.
    """
    table = SplitWatermarkTable(str(tmp_path / "a `table` #1? 5%"), {})
    words = ("ACTIVE", "PAUSED", "IDLE", "FINISHED")
    for batch in range(14):
        rows = [replace(row, status=words[(batch // (n + 1)) % 4]) for n, row in enumerate(split_rows(batch))]
        rows[0] = replace(rows[0], watermark=None, drift_ms=None)
        table.append("clicks/1", batch, rows[: 4 - (batch == 13)], {})
    for run in (1, 2):
        for batch in range(4):
            later = 3_600_000 * run + 777 * batch * batch
            rows = [
                replace(row, recorded_at=row.recorded_at + later) for row in split_rows(batch, source="views")
            ]
            table.append(f"views/{run}", batch, rows, {})
    table.append("one/1", 0, split_rows(0, source="one", group="mobile"), {})
    for batch in (0, 1):
        table.append(
            "once/1", batch, [replace(split_rows(batch)[0], source="once", recorded_at=START_MS)], {}
        )

    found = split_status(spark, table.uri).withColumn("ms", unix_millis("recorded_at")).collect()
    expected = StatusReader(table).read(START_MS).splits
    assert len(expected) == 3 + 4 + 4 + 1
    names = (
        "group",
        "source",
        "split",
        "status",
        "batch",
        "ms",
        "currentWatermark",
        "watermarkAlignmentDrift",
    )
    rates = ("numRecordsInPerSecond", *(f"{state}TimeMsPerSecond" for state in ("active", "paused", "idle")))
    shown = [tuple(row[name] for name in (*names, *rates)) for row in found]
    assert sorted(shown, key=str) == sorted(map(told, expected), key=str)
    assert all((row.watermarkLag is None) == (row.currentWatermark is None) for row in found)


def test_the_view_on_the_page_runs(spark: SparkSession, tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 0, split_rows(0), {})
    [view] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    session = spark.newSession()
    session.sql(view.replace("/delta/split_watermarks", table.uri))
    assert session.table("split_status").count() == 4


def test_splits_that_wait_by_the_last_plan_are_paused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads from the table's log which splits wait by the last plan, and shows them as PAUSED."""
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 0, split_rows(0), {})
    assert {row.status for row in split_status(spark, table.uri).collect()} == {"ACTIVE"}
    told = entry("clicks", group="web", waiting=3, held_by="clicks-2", timeout_ms=10**12)
    waits = replace(told, waits=("clicks-2",), waits_all_but=True)
    for news, paused in ((told, set()), (waits, {0, 1, 3}), (waits.leaving(), set())):
        table.note({MEMBER: news.to_text()})
        found = {row.split: row.status for row in split_status(spark, table.uri).collect()}
        assert {split for split, status in found.items() if status == "PAUSED"} == {
            f"clicks-{n}" for n in paused
        }


def test_the_newest_entry_is_that_of_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    """A former run left with a clock an hour ahead; the clock of the present run is an hour behind."""
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 0, split_rows(0), {})
    told = entry("clicks", group="web", waiting=1, held_by="clicks-2", timeout_ms=60_000, waits=("clicks-1",))
    for news, ahead in ((told.leaving(), 3_600_000), (told, -3_600_000)):
        table.note({MEMBER: news.to_text()})
        shift_clock(table, ahead)
    found = {row.split: row.status for row in split_status(spark, table.uri).collect()}
    assert [split for split, status in found.items() if status == "PAUSED"] == ["clicks-1"]


def test_spark_names_sources_as_the_command_does(spark: SparkSession, tmp_path: Path) -> None:
    """Sources without an id of a user have the same names with and without Spark."""
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    ids = [f"0123456{n}-0123456789abcde{n}" for n in range(7)]
    splits = {
        ids[0]: ["clicks-0", "clicks-1", "clicks-10"],
        ids[1]: ["clicks-0", "clicks-2"],
        ids[2]: ["a-0", "b-0"],
        ids[3]: ["1:/data/history/part-1", "1:/data/history/part-2"],
        ids[4]: ["persistent://public/default/views-partition-0"],
        ids[5]: ["stream/shardId-000000000001", "stream/shardId-000000000002"],
        ids[6]: ["/a", "/b"],
        "clicks": ["clicks-0"],
    }
    for source, held in splits.items():
        row = split_rows(0, source=source)[0]
        table.append(source, 0, [replace(row, split=split) for split in held], {})

    def agree() -> dict[str, str]:
        found = {row.source: row["name"] for row in split_status(spark, table.uri).collect()}
        status = StatusReader(table).read(START_MS)
        assert found == {member.source: name for member, name in status.names.items()}
        return found

    assert agree() == {
        ids[0]: "clicks (2)",
        ids[1]: "clicks (3)",
        ids[2]: "a and others",
        ids[3]: "/data/history",
        ids[4]: "persistent://public/default/views",
        ids[5]: "stream",
        ids[6]: "/a and others",
        "clicks": "clicks",
    }
    for n, reads in ((0, "orders"), (2, "a, b"), (1, "orders")):
        table.note({MEMBER: entry(ids[n], group="web", reads=reads, began=9 - n).to_text()})
    named = agree()
    assert (named[ids[0]], named[ids[1]], named[ids[2]]) == ("orders (2)", "orders", "a, b")


def test_a_path_that_spark_does_not_find_is_explained(spark: SparkSession, tmp_path: Path) -> None:
    """The error begins with a sentence about the table, and not with Spark's text."""
    said = rf"^Spark cannot read the split-watermark table '{tmp_path}/no'.*The cause: "
    with pytest.raises(AlignmentError, match=said):
        split_status(spark, str(tmp_path / "no"))


@pytest.mark.parametrize("table", ["./table", "a table"])
def test_a_text_that_is_neither_a_path_nor_a_name_is_explained(spark: SparkSession, table: str) -> None:
    with pytest.raises(AlignmentError, match=r"Write an absolute path, .*The cause: \[\w+]"):
        split_status(spark, table)


def test_settings_of_the_session_do_not_change_the_status(spark: SparkSession, tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    for batch in (0, 1):
        table.append("clicks/1", batch, split_rows(batch), {})
    odd = spark.newSession()
    for name, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.session.timeZone": "+05:30",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }.items():
        odd.conf.set(name, value)
    columns = ["split", "status", "currentWatermark", "numRecordsInPerSecond", "name"]
    found, plain = (split_status(s, table.uri).select(columns).orderBy("split") for s in (odd, spark))
    assert found.collect() == plain.collect()
    assert len(found.collect()) == 4
