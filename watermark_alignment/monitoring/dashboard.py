"""The status of splits as a DataFrame for dashboards. Spark computes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from flip27_stream.errors import AlignmentError
from watermark_alignment.formatting import HYBRID, NUMBER
from watermark_alignment.options import DERIVED_ID
from watermark_alignment.table_location import shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IN_FORMAT: Final = DERIVED_ID.replace("{", "{{").replace("}", "}}")  # SPLIT_STATUS is formatted once more.

SPLIT_STATUS: Final = f"""\
WITH newest AS (
  SELECT `group`, source, max(struct(recorded_at, batch)) AS last
  FROM {{table}}
  GROUP BY `group`, source
), recent AS (
  SELECT
    rows_of.*, last, struct(recorded_at, batch) AS this,
    lag(recorded_at) OVER per_split AS before, lag(batch) OVER per_split AS batch_before
  FROM {{table}} AS rows_of JOIN newest USING (`group`, source)
  WHERE batch BETWEEN last.batch - 10 AND last.batch
  WINDOW per_split AS (PARTITION BY `group`, source, split ORDER BY recorded_at, batch)
), runs AS (
  SELECT *, max(IF(batch < batch_before, this, NULL)) OVER (PARTITION BY `group`, source, split) AS begin
  FROM recent
), timed AS (
  SELECT *, IF(begin IS NULL OR this > begin, unix_micros(recorded_at) - unix_micros(before), NULL) AS took
  FROM runs
  WHERE begin IS NULL OR this >= begin
), summed AS (
  SELECT
    `group`, source, split, last, max(this) AS newest,
    max_by(status, this) AS status, max_by(watermark, this) AS watermark, max_by(drift_ms, this) AS drift_ms,
    sum(IF(took IS NULL, 0, rows)) AS read, nullif(sum(took), 0) AS took,
    sum(IF(status = 'ACTIVE', took, 0)) AS active,
    sum(IF(status = 'PAUSED', took, 0)) AS paused,
    sum(IF(status = 'IDLE', took, 0)) AS idle
  FROM timed
  GROUP BY `group`, source, split, last
), spans AS (
  SELECT `group`, source, min(id) AS low, max(id) AS high
  FROM (SELECT *, regexp_replace(split, '{HYBRID}', '') AS id FROM summed WHERE newest = last)
  GROUP BY `group`, source
), same AS (
  SELECT
    `group`, source, low, source RLIKE '^{_IN_FORMAT}$' AS is_derived,
    left(low, size(filter(sequence(1, length(low)), n -> left(low, n) = left(high, n)))) AS begin
  FROM spans
), called AS (
  SELECT
    `group`, source, is_derived,
    IF(is_derived, coalesce(
      nullif(regexp_replace(regexp_replace(begin, '{NUMBER}', ''), '[-_./:]+$', ''), ''),
      concat(coalesce(nullif(regexp_replace(low, '{NUMBER}', ''), ''), low), ' and others')
    ), source) AS called
  FROM same
), named AS (
  SELECT
    `group`, source, is_derived, called,
    row_number() OVER (PARTITION BY called ORDER BY is_derived, `group`, source) AS number
  FROM called
)
SELECT
  `group`, source, split, status, newest.batch, newest.recorded_at, watermark,
  unix_millis(watermark) AS currentWatermark,
  unix_millis(current_timestamp()) - unix_millis(watermark) AS watermarkLag,
  drift_ms AS watermarkAlignmentDrift,
  read * 1e6 / took AS numRecordsInPerSecond,
  coalesce(active, 0) * 1000 DIV took AS activeTimeMsPerSecond,
  coalesce(paused, 0) * 1000 DIV took AS pausedTimeMsPerSecond,
  coalesce(idle, 0) * 1000 DIV took AS idleTimeMsPerSecond,
  IF(is_derived AND number > 1, concat(called, ' (', number, ')'), called) AS name
FROM summed JOIN named USING (`group`, source)
WHERE newest = last
"""
"""The SQL text of the view. ``{table}`` is replaced by the split-watermark table."""


_ENTRY: Final = (
    "`group` string, source string, timeout_ms bigint, `left` boolean, waits array<string>, "
    "waits_all_but boolean, reads string, began bigint"
)


def split_status(spark: SparkSession, table: str | os.PathLike[str]) -> DataFrame:
    """Returns the status of every split: a row for each split of the newest batch of every source.

    Columns: ``group``, ``source``, ``split``, ``status``, ``batch``, ``recorded_at``, ``watermark``, and with Flink's
    names (FLIP-513, FLIP-33, FLIP-182) ``currentWatermark``, ``watermarkLag``, ``watermarkAlignmentDrift`` (ms),
    ``numRecordsInPerSecond``, ``activeTimeMsPerSecond``, ``pausedTimeMsPerSecond``, ``idleTimeMsPerSecond``. These
    four are computed over the newest 10 batches. Unknown values are null. The last column is ``name``, the name of the
    source: ``scan.source.id``, or the common part of the ids of the splits, with a number if several sources have the
    same name.

    If the table is given by its path, ``status`` is ``PAUSED`` also for splits that wait after a plan that read
    nothing, and ``name`` is the topic or path that the source reads. This information is only in the table's log,
    which is not read for a table of the catalog.

    Args:
        spark: The session.
        table: The path or URI of the split-watermark table, or its name in the catalog.

    Raises:
        AlignmentError: Spark finds no such table.
    """
    from pyspark.errors import AnalysisException

    table = os.fspath(table)
    try:
        status = spark.sql(SPLIT_STATUS.format(table=_identifier(table)))
        status.schema  # noqa: B018 - with Spark Connect the text is analyzed here
    except AnalysisException as error:
        raise AlignmentError(
            f"Spark cannot read the split-watermark table '{shown(table)}'. An aligned query creates the table when it "
            "starts. Write an absolute path, a URI, or the name of a table in a catalog. On Databricks, Spark takes a "
            "path such as /delta/t for dbfs:/delta/t; write file:/delta/t for the driver's disk. The cause: "
            f"{str(error).strip().splitlines()[0]}"
        ) from error
    return _as_last_planned(spark, status, table) if "/" in table else status


def _as_last_planned(spark: SparkSession, status: DataFrame, table: str) -> DataFrame:
    """Applies the newest entries in the log of the table.

    Splits that wait according to these entries become ``PAUSED``, and sources are named by their topic or path.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    from watermark_alignment.group.group_log import KEY as MEMBER_KEY

    log = spark.read.option("pathGlobFilter", "*.json").option("ignoreMissingFiles", True)
    lines = log.text(f"{table.rstrip('/')}/_delta_log").select(
        "value", "_metadata.file_name", "_metadata.file_modification_time"
    )
    text = sf.get_json_object("value", f"$.commitInfo['{MEMBER_KEY}']")
    entries = lines.where(sf.col("value").contains(MEMBER_KEY)).withColumn(
        "entry", sf.from_json(text, _ENTRY)
    )
    newest = (
        entries.where("entry.source is not null")
        .groupBy(
            "entry.group", "entry.source"
        )  # The name of the file has the version, so the newest one is last.
        .agg(
            *(sf.max_by(column, "file_name").alias(column) for column in ("entry", "file_modification_time"))
        )
    )
    age = "unix_millis(current_timestamp()) - unix_millis(file_modification_time)"
    is_there = sf.expr(f"not entry.left and {age} <= entry.timeout_ms")
    waits = sf.expr("size(entry.waits) > 0 and array_contains(entry.waits, split) != entry.waits_all_but")
    paused = (sf.col("status") == "ACTIVE") & is_there & waits
    joined = status.join(newest, ["group", "source"], "left")
    is_derived = sf.col("source").rlike(f"^{DERIVED_ID}$")
    reads = sf.nullif(sf.col("entry.reads"), sf.lit(""))
    called = sf.when(is_derived, sf.coalesce(reads, "name")).otherwise(sf.col("name"))
    began = sf.coalesce(sf.col("entry.began"), sf.lit(0))
    same = Window.partitionBy("called").orderBy(is_derived, began, "group", "source")
    number = sf.when(is_derived, sf.dense_rank().over(same)).otherwise(1)
    numbered = sf.when(number > 1, sf.format_string("%s (%d)", "called", number)).otherwise(sf.col("called"))
    return (
        joined.withColumn("status", sf.when(paused, "PAUSED").otherwise(sf.col("status")))
        .withColumn("called", called)
        .withColumn("name", numbered)
        .select(status.columns)
    )


def _identifier(table: str) -> str:
    """Returns the table in SQL. A text with a slash is a path, any other text is a name."""
    return f"delta.`{table.replace('`', '``')}`" if "/" in table else table
