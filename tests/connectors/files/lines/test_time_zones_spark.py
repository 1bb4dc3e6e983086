"""Times without an offset from UTC, in the time zone of an option, read by Spark and by the file source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType, TimestampNTZType, TimestampType

from tests.connectors.files.support.file_query import FileQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

LOCAL_TEXTS = [
    "2026-01-02",
    "2026-01-02 10:11",
    "2026-03-29T02:30:00",  # Clocks in Berlin skip this time.
    "2026-10-25T02:30:00.123456",  # They show this one twice.
    "2026-03-08 02:59:59",  # The same in New York.
    "2026-11-01 01:00:00",
    "1850-01-01 00:00:00",  # Local mean time was used.
    "2037-07-01 00:00:00",
    "2052-07-01 00:00:00",  # Arrow knows no summer times after 2037.
    "9999-12-31 00:00:00",
]
TEXTS = [*LOCAL_TEXTS, "2026-07-01T00:00:00Z", "2026-07-01 00:00:00+05:00"]
PATTERN = {"timestampFormat": "dd/MM/yyyy HH:mm"}


@pytest.mark.parametrize("time_zone", ["Europe/Berlin", "America/New_York", "+05:30", "UTC"])
@pytest.mark.parametrize(
    ("kind", "texts", "options"),
    [
        (TimestampType(), TEXTS, {}),
        (TimestampNTZType(), LOCAL_TEXTS, {}),
        (TimestampType(), ["29/03/2026 02:30", "01/07/2026 12:00"], PATTERN),
        (TimestampType(), ["2026-07-01 12:00+02:00"], {"timestampFormat": "yyyy-MM-dd HH:mmXXX"}),
    ],
)
def test_times_are_in_the_time_zone_of_the_option_as_in_spark(
    spark: SparkSession,
    tmp_path: Path,
    time_zone: str,
    kind: TimestampType | TimestampNTZType,
    texts: list[str],
    options: dict[str, str],
) -> None:
    given = {"timeZone": time_zone, **options}
    schema = StructType([StructField("n", LongType()), StructField("at", kind)])
    for form, lines in (
        ("csv", [f"{n},{text}" for n, text in enumerate(texts)]),
        ("json", [json.dumps({"n": n, "at": text}) for n, text in enumerate(texts)]),
        ("json", [json.dumps({"at": text, "n": n, "more": {}}) for n, text in enumerate(texts)]),
    ):
        path = tmp_path / f"a.{form}"
        path.write_text("".join(f"{line}\n" for line in lines))
        by_spark = spark.read.schema(schema).options(**given).format(form).load(str(path))
        columns = to_arrow_schema(schema, timezone="UTC")
        reading = FileQuery({"path": str(path), "files.format": form, **given}, schema=columns)
        reading.run()
        assert [row["at"] for row in reading.rows] == [row["at"] for row in by_spark.toArrow().to_pylist()]
        assert None not in [row["at"] for row in reading.rows]
