"""Dates and times before 1582. Other time zones and INT96 are compared with Spark in the tests of Delta tables."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.errors import ConnectorError
from tests.connectors.files.support.reading import INSTANT, read_rows

JULIAN = {
    -682_946: date(100, 3, 1),
    -682_945: date(100, 3, 1),
    -141_428: date(1582, 10, 4),
    -141_427: date(1582, 10, 15),
    0: date(1970, 1, 1),
}
"""Days since 1970 by the calendar of the time, as the tables of Spark's ``RebaseDateTime`` have them."""
LEGACY = {"org.apache.spark.version": "4.2.0", "org.apache.spark.legacyDateTime": ""}
EPOCH = date(1970, 1, 1)
DAY_US = 86_400_000_000
KIND = pa.struct({"d": pa.date32(), "t": INSTANT, "l": pa.list_(pa.map_(pa.date32(), pa.timestamp("us")))})


def write(path: Path, metadata: dict[str, str]) -> pa.Schema:
    """Writes these days, and null, to a struct, a list and a map."""
    rows = [{"d": day, "t": day * DAY_US, "l": [[(day, day * DAY_US)], None]} for day in JULIAN]
    stored = pa.struct({"d": pa.int32(), "t": pa.int64(), "l": pa.list_(pa.map_(pa.int32(), pa.int64()))})
    table = pa.table({"s": pa.array([*rows, None], stored).cast(KIND)})
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=2)
    return table.schema


@pytest.mark.parametrize(
    "metadata", [LEGACY, {"org.apache.spark.version": "2.4.8"}], ids=["by option", "2.4"]
)
def test_dates_and_instants_keep_year_month_and_day(tmp_path: Path, metadata: dict[str, str]) -> None:
    """A timestamp without a time zone is in the Gregorian calendar in every file."""
    schema = write(tmp_path / "f", metadata)
    found = read_rows(ParquetFormat(), tmp_path / "f", schema, cuts=[1, 3])
    assert [row["s"] for row in found] == [
        *(
            {
                "d": day,
                "t": datetime(day.year, day.month, day.day, tzinfo=timezone.utc),
                "l": [[(day, datetime.combine(EPOCH + timedelta(number), time()))], None],
            }
            for number, day in JULIAN.items()
        ),
        None,
    ]


def test_other_files_are_read_as_they_are(tmp_path: Path) -> None:
    """Files of other writers, and those of Spark 3 and later that do not say otherwise, are Gregorian."""
    for metadata in ({}, {"org.apache.spark.version": "4.2.0"}):
        schema = write(tmp_path / "f", metadata)
        found = read_rows(ParquetFormat(), tmp_path / "f", schema)
        assert [row["s"]["d"] for row in found[:-1]] == [EPOCH + timedelta(number) for number in JULIAN]


def test_a_time_zone_that_is_unknown(tmp_path: Path) -> None:
    schema = write(tmp_path / "f", LEGACY | {"org.apache.spark.timeZone": "Nowhere/At_All"})
    with pytest.raises(ConnectorError, match=r"before 1900 were written in the time zone Nowhere/At_All"):
        read_rows(ParquetFormat(), tmp_path / "f", schema)
