"""ORC files that Spark writes, read by Spark and by the file source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from flip27_stream.connectors.files import FileSource
from flip27_stream.errors import ConnectorError, RecordFormatError
from tests.connectors.files.support.file_query import FileQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def test_dates_and_times_of_spark_at_every_depth(spark: SparkSession, tmp_path: Path) -> None:
    """Dates before 1582 are stored by the calendar of the time. In structs, lists and maps, too, times with a zone
    are instants, and those without are local.
    """
    days = ", ".join(
        f"date'{day}'" for day in ("0001-01-01", "0100-03-01", "1500-02-28", "1582-10-04", "1582-10-15")
    )
    rows = spark.sql(
        f"select d, t, n, struct(d, t, n) s, array(t, null) ts, array(n, null) ns, map(d, struct(n, t)) m "
        f"from (select explode(array({days}, date'2026-01-01', null)) d), "
        "(select explode(array(timestamp'2026-07-01 01:02:03.456789', timestamp'1950-01-01 00:00:00', null)) t), "
        "(select explode(array(timestamp_ntz'2026-01-01 01:02:03.000004', null)) n)"
    ).where("d is not null")
    rows.coalesce(1).write.orc(str(tmp_path / "orc"))
    builtin = spark.read.orc(str(tmp_path / "orc"))
    options = {"path": str(tmp_path / "orc"), "files.format": "orc", "maxRowsPerTrigger": "5"}
    reading = FileQuery(options)
    reading.run()
    assert str(from_arrow_schema(FileSource(options).schema)) == str(builtin.schema)
    assert sorted(map(repr, reading.rows)) == sorted(map(repr, builtin.toArrow().to_pylist()))


@contextmanager
def jvm_in(time_zone: str, spark: SparkSession) -> Iterator[None]:
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(time_zone))
    try:
        yield
    finally:
        zones.setDefault(before)


def test_times_after_2037_have_the_summer_time_of_the_writer(spark: SparkSession, tmp_path: Path) -> None:
    """Arrow knows no summer times after 2037. ORC stores the local times of the writer."""
    times = ", ".join(f"timestamp'{time} UTC'" for time in ("2026-07-01 00:00:00", "2038-07-01 12:00:00.5"))
    rows = spark.sql(f"select explode(array({times}, timestamp'2262-01-01 00:00:00 UTC', null)) t")
    with jvm_in("America/Los_Angeles", spark):
        rows.coalesce(1).write.orc(str(tmp_path / "orc"))
    reading = FileQuery({"path": str(tmp_path / "orc"), "files.format": "orc"})
    reading.run()
    assert [{**row} for row in reading.rows] == rows.toArrow().to_pylist()


@pytest.mark.parametrize(
    ("time_zone", "time", "message"),
    [
        ("GMT+08:00", "2026-07-01", r"GMT\+08:00 .* a writer whose time zone is unknown on this machine"),
        ("UTC", "9999-12-31", "Arrow counts nanoseconds there, from 1677-09-22 to 2262-04-11"),
    ],
)
def test_times_that_arrow_cannot_read_are_refused(
    spark: SparkSession, tmp_path: Path, time_zone: str, time: str, message: str
) -> None:
    """The file is not corrupt, so it is not left out either. Java knows names that the time zone database has not."""
    with jvm_in(time_zone, spark):
        spark.sql(f"select timestamp'{time} 00:00:00 UTC' t").write.orc(str(tmp_path / "orc"))
    options = {"path": str(tmp_path / "orc"), "files.format": "orc", "ignoreCorruptFiles": "true"}
    with pytest.raises(ConnectorError, match=rf"Times of the orc file .*\.orc cannot be read: .*{message}"):
        FileQuery(options).run()


def test_an_interval_that_spark_stores_as_a_number_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("select 1 id, array(interval '1' day) v").write.orc(str(tmp_path / "orc"))
    with pytest.raises(
        RecordFormatError, match=r"Column 'v' of .* is Spark's interval day, which is not read"
    ):
        _ = FileSource({"path": str(tmp_path / "orc"), "files.format": "orc"}).schema


@pytest.mark.parametrize("codec", ["lz4", "snappy", "zlib", "zstd", "none"])
def test_footers_of_every_codec_of_spark_are_read(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    """Spark also compresses footers and what is in them. The blocks of lz4 do not say how long they become."""
    more = ", ".join(f"id + {n} as more_{n}" for n in range(40))
    rows = spark.sql(f"select id, timestamp_seconds(id) at, {more} from range(1000)")
    rows.coalesce(1).write.option("compression", codec).orc(str(tmp_path / "orc"))
    reading = FileQuery({"path": str(tmp_path / "orc"), "files.format": "orc"})
    reading.run()
    assert [row["id"] for row in reading.rows] == list(range(1000))
