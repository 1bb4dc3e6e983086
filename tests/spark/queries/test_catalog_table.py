"""A split-watermark table of a catalog, which the session writes: restarts, kills, and queries that are refused."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import flip27_stream
from flip27_stream.errors import AlignmentError
from flip27_stream.testing import wait_until
from tests.spark.connectors.support.hourly_files import run, write_hour
from tests.spark.support.processes import planners
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment import CatalogTableWriter, catalog_writer, split_status
from watermark_alignment.formatting import duration
from watermark_alignment.table.catalog_spool import CatalogSpool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.jvm

SCHEMA = "split_watermark_test"
TABLE = f"spark_catalog.{SCHEMA}.splits"
OPTION = "scan.watermark.alignment.table"


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session with a schema in a catalog, and a folder of its own for rows that wait."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    session = spark.newSession()
    session.sql(f"CREATE SCHEMA {SCHEMA} LOCATION '{tmp_path / 'warehouse'}'")
    flip27_stream.register(session)
    yield session
    session.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


@pytest.fixture
def writer(session: SparkSession) -> Iterator[CatalogTableWriter]:
    writer = CatalogTableWriter(session, TABLE)
    session.streams.addListener(writer)
    yield writer
    session.streams.removeListener(writer)
    writer.close()


def aligned(session: SparkSession, folder: Path, table: str = TABLE, group: str = "web") -> DataFrame:
    reader = session.readStream.format("flip27_files").option("maxRowsPerTrigger", 100)
    reader = reader.option("scan.watermark.alignment.group", group).option(OPTION, table)
    reader = reader.option("scan.watermark.alignment.max-drift", "1 hour")
    return reader.option("scan.watermark.event-time", "time").load(str(folder))


def written(session: SparkSession) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = session.table(TABLE).orderBy("batch", "split").toArrow().to_pylist()
    return rows


def test_a_query_writes_its_catalog_table_over_restarts(
    session: SparkSession, writer: CatalogTableWriter, tmp_path: Path
) -> None:
    folder = tmp_path / "hours"
    for hour in range(4):
        write_hour(folder, hour, f"{hour}.parquet")
    ids = [row[1] for row in run(aligned(session, folder), tmp_path / "checkpoint")]
    assert writer.flush()
    for hour in range(4, 6):
        write_hour(folder, hour, f"{hour}.parquet")
    ids += [row[1] for row in run(aligned(session, folder), tmp_path / "checkpoint")]
    assert writer.flush()
    assert Counter(ids) == Counter(range(360))
    rows = written(session)
    assert sum(row["rows"] for row in rows) == 360
    assert len({(row["batch"], row["split"]) for row in rows}) == len(rows)
    assert {row["group"] for row in rows} == {"web"}
    newest = max(row["batch"] for row in rows)
    shown = split_status(session, TABLE).collect()
    assert {row.batch for row in shown} == {newest}
    note = session.sql(f"DESCRIBE HISTORY {TABLE}").where("operation = 'WRITE'").first()
    assert note is not None
    assert "flip27.batch" in note.userMetadata


def test_the_writer_warns_of_a_delay_that_is_too_short(
    session: SparkSession, writer: CatalogTableWriter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Max-drift is 1 hour."""
    for hour in range(8):
        write_hour(tmp_path / "hours", hour, f"{hour}.parquet")
    counts = aligned(session, tmp_path / "hours").withWatermark("time", "30 minutes").groupBy("time").count()
    run(counts, tmp_path / "checkpoint")
    wait_until(lambda: "The delay of withWatermark in query " in caplog.text, "the warning", 60)
    assert writer.flush()
    assert caplog.text.count("withWatermark in query ") == 1
    delay, max_drift = duration(1_800_000), duration(3_600_000)
    assert f"is {delay}. It must be longer than max-drift ({max_drift})" in caplog.text


def test_without_its_writer_or_with_a_second_source_a_query_fails_at_its_start(
    session: SparkSession, tmp_path: Path
) -> None:
    write_hour(tmp_path / "a", 0, "0.parquet")
    write_hour(tmp_path / "b", 0, "0.parquet")
    one, other = aligned(session, tmp_path / "a"), aligned(session, tmp_path / "b")
    with pytest.raises(StreamingQueryException, match="no session writes it"):
        run(one, tmp_path / "alone")
    writer = CatalogTableWriter(session, TABLE)
    session.streams.addListener(writer)
    try:
        with pytest.raises(StreamingQueryException, match="Group 'web' has another source"):
            run(one.union(other), tmp_path / "both")
        wait_until(lambda: not planners(), "the end of the planning processes", 60)
        assert len(run(one, tmp_path / "alone")) == 60
    finally:
        session.streams.removeListener(writer)
        writer.close()


def test_rows_that_were_written_before_a_kill_are_not_written_again(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is written once, although the writer's process is killed before and after a commit. The next writer
    goes on.
    """
    writer = CatalogTableWriter(session, TABLE)
    spool = CatalogSpool(str(writer.spool.folder.parent), TABLE)
    for batch in range(3):
        spool.append("a", batch, split_rows(batch), {})
    writer.write_pending()

    class Killed(BaseException):
        """An exception that stands for the end of the process."""

    def killed(*_: object, **__: object) -> None:
        raise Killed

    moments = ((CatalogTableWriter, "_write", 3), (Path, "unlink", 5))  # before and after a commit
    for owner, method, first in moments:
        for batch in range(first, first + 2):
            spool.append("a", batch, split_rows(batch), {})
        with monkeypatch.context() as patch:
            patch.setattr(owner, method, killed)
            with pytest.raises(Killed):
                writer.write_pending()
        spool.append("a", first + 1, split_rows(first + 1), {})  # recorded again by a restarted query
        spool.append("a", first + 2, split_rows(first + 2), {})
        writer.close()
        writer = CatalogTableWriter(session, TABLE)
        writer.write_pending()
        assert spool.pending() == {}
        found = Counter(row["batch"] for row in written(session))
        assert found == dict.fromkeys(range(first + 3), 4)


def test_the_folder_of_another_driver_does_not_know_what_was_written(
    session: SparkSession, tmp_path: Path
) -> None:
    writer = CatalogTableWriter(session, TABLE)
    for batch in range(3):
        writer.spool.append("a", batch, split_rows(batch), {})
    writer.write_pending()
    shutil.rmtree(writer.spool.folder)
    writer.close()
    writer = CatalogTableWriter(session, TABLE)
    for batch in (2, 3, 4):  # a restarted query records its last batch again
        writer.spool.append("a", batch, split_rows(batch), {})
    writer.write_pending()
    assert Counter(row["batch"] for row in written(session)) == dict.fromkeys(range(5), 4)


def test_a_table_that_cannot_be_written_keeps_its_rows_waiting(
    session: SparkSession, writer: CatalogTableWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_writer, "_LAST_RETRY_S", 0.5)
    session.sql(f"ALTER TABLE {TABLE} ADD CONSTRAINT closed CHECK (batch < 0)")
    write_hour(tmp_path / "a", 0, "0.parquet")
    assert len(run(aligned(session, tmp_path / "a"), tmp_path / "checkpoint")) == 60
    assert not writer.flush(1)
    session.sql(f"ALTER TABLE {TABLE} DROP CONSTRAINT closed")
    wait_until(writer.flush, "the rows in the table")
    assert sum(row["rows"] for row in written(session)) == 60


def test_times_are_those_of_utc_whatever_the_session_calls_a_timestamp(session: SparkSession) -> None:
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    CatalogTableWriter(session, TABLE).close()
    CatalogTableWriter(session, TABLE).close()
    kinds = dict(session.table(TABLE).dtypes)
    assert {kinds[name] for name in ("watermark", "max_event_time", "recorded_at")} == {"timestamp"}


def test_tables_of_other_columns_are_refused(session: SparkSession) -> None:
    with pytest.raises(AlignmentError, match="'/delta/t' is not the name of a table in a catalog"):
        CatalogTableWriter(session, "/delta/t")
    session.sql(f"CREATE TABLE {SCHEMA}.others (`group` string, n int) USING delta")
    with pytest.raises(
        AlignmentError, match=f"'{SCHEMA}.others' does not have the columns .*; column 'batch' differs"
    ):
        CatalogTableWriter(session, f"{SCHEMA}.others")
    with pytest.raises(
        AlignmentError,
        match=r"'nowhere\.splits' cannot be created or read. Check that the catalog and the schema exist.* Spark says",
    ):
        CatalogTableWriter(session, "nowhere.splits")
