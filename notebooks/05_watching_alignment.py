# Databricks notebook source
# MAGIC %md
# MAGIC # Watching and debugging alignment
# MAGIC
# MAGIC A query that is aligned stops where its slowest partition stops. That is what it is for, and also what you
# MAGIC will be asked about: why does it not go on? This notebook lets a partition fall silent, and shows where to
# MAGIC look.
# MAGIC
# MAGIC Fill in the two widgets: the brokers, and a folder that Spark and the driver's Python both reach, such as a
# MAGIC volume.

# COMMAND ----------

from datetime import datetime


def parameter(name: str, default: str) -> str:
    """A widget on Databricks; elsewhere what was set before, or the default."""
    if "dbutils" not in globals():
        return str(globals().get(name, default))
    dbutils.widgets.text(name, default)
    return str(dbutils.widgets.get(name))


bootstrap_servers = parameter("bootstrap_servers", "localhost:9092")
run = f"watching_{datetime.now():%Y%m%d_%H%M%S}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"

# COMMAND ----------

# MAGIC %md
# MAGIC ## A topic with a silent partition
# MAGIC
# MAGIC Three partitions, a record a second. Partition 2 has fallen silent 40 minutes ago.

# COMMAND ----------

import numpy as np
from kafka import KafkaAdminClient

from flip27_stream.testing import write_bulk

MINUTE = 60_000
now = int(datetime.now().timestamp() * 1000)


def write(partition: int, minutes_ago: int, until: int = 0) -> None:
    times = np.arange(now - minutes_ago * MINUTE, now - until * MINUTE, 1000, dtype=np.int64)
    write_bulk(bootstrap_servers, run, partition, times, b"record")


admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
admin.create_topics({run: {"num_partitions": 3, "replication_factor": -1}}, wait_for_metadata=True)
admin.close()
write(0, 60)
write(1, 60)
write(2, 60, until=40)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A listener that says what is wrong
# MAGIC
# MAGIC `StatusListener` logs a line per batch, and warns once each of rows that were dropped as late, of a split
# MAGIC that stalls the others, of too much drift, and of reports that do not come. It warns of a stall after a
# MAGIC minute, while Spark finds the query idle, which it says every 10 seconds; here both are sooner.

# COMMAND ----------

import logging

from watermark_alignment import StatusListener

table = f"{folder}/split_watermarks"
said: list[str] = []


class Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        said.append(f"{record.levelname} {record.getMessage()}")


log, keep = logging.getLogger("watermark_alignment"), Keep()
log.setLevel(logging.INFO)
log.addHandler(keep)

spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1s")
listener = StatusListener(table, stalled_after="1 s")
spark.streams.addListener(listener)

# COMMAND ----------

import flip27_stream

flip27_stream.register(spark)
records = (
    spark.readStream.format("flip27_kafka")
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option("subscribe", run)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 3000)
    .option("scan.watermark.alignment.group", "watched")
    .option("scan.watermark.alignment.max-drift", "10 minutes")
    .option("scan.watermark.alignment.table", table)
    .option("scan.watermark.idle-timeout", "1 hour")
    .load()
)
query = (
    records.writeStream.format("delta")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .start(f"{folder}/records")
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why does it not go on?
# MAGIC
# MAGIC The listener names the partition, and what to do.

# COMMAND ----------

from flip27_stream.testing import wait_until

wait_until(lambda: any("stalls" in line for line in said) or not query.isActive, "the warning of a stall")
print(*said, sep="\n")

# COMMAND ----------

# MAGIC %md
# MAGIC The table has where each split stands. `split_status` is a DataFrame of it, for a dashboard. `python -m
# MAGIC watermark_alignment status TABLE --watch` shows the same on a terminal. Partitions 0 and 1 have been read to
# MAGIC 10 minutes beyond the silent one, and their next records lie above that.

# COMMAND ----------

from watermark_alignment import split_status

stalled = split_status(spark, table).select(
    "split", "status", "batch", "watermark", "watermarkAlignmentDrift"
)
stalled.show(truncate=False)
stalled_at = {row["split"]: row["watermark"] for row in stalled.collect()}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Two cures
# MAGIC
# MAGIC Either the partition counts as idle sooner: here `scan.watermark.idle-timeout` is an hour, by default it is
# MAGIC a minute. What it brings later can be late then. Or the producer comes back, as now: the others go on with
# MAGIC it.

# COMMAND ----------

write(2, 40)


def rows_read() -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)


wait_until(lambda: rows_read() == 3 * 3600 or not query.isActive, "all records to be read")
query.stop()
spark.streams.removeListener(listener)
log.removeHandler(keep)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The whole story in a picture
# MAGIC
# MAGIC The band is how far partitions may be read ahead of the slowest one.

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table)
picture
