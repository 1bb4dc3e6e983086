# Databricks notebook source
# MAGIC %md
# MAGIC # Watching and debugging alignment
# MAGIC
# MAGIC If the slowest partition of an aligned query gets no records, the query reads no more of the other
# MAGIC partitions. Alignment is meant to do that, but users will ask you why the query stops. In this notebook a
# MAGIC partition gets no more records, and you see where the cause is shown.
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
run = f"watching_{datetime.now():%Y%m%d_%H%M%S_%f}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"
now = int(datetime.now().timestamp() * 1000)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A topic with a silent partition
# MAGIC
# MAGIC The topic has three partitions with a record each second. Partition 2 has had no record for 40 minutes. If this
# MAGIC cell is run again, the topic stays as it is. To begin with another topic, or if this cell failed, run the cell
# MAGIC above first.

# COMMAND ----------

import numpy as np
from kafka import KafkaAdminClient

from flip27_stream.testing import write_bulk

MINUTE = 60_000


def write(partition: int, minutes_ago: int, until: int = 0) -> None:
    times = np.arange(now - minutes_ago * MINUTE, now - until * MINUTE, 1000, dtype=np.int64)
    write_bulk(bootstrap_servers, run, partition, times, b"record")


admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
if run not in admin.list_topics():
    admin.create_topics({run: {"num_partitions": 3, "replication_factor": -1}}, wait_for_metadata=True)
    write(0, 60)
    write(1, 60)
    write(2, 60, until=40)
admin.close()

# COMMAND ----------

# MAGIC %md
# MAGIC ## A listener that says what is wrong
# MAGIC
# MAGIC `StatusListener` logs a line per batch. It warns once of each of these: rows that were dropped as late, a
# MAGIC split that stalls the others, too much drift, and missing reports. It warns of a stall after a minute, when
# MAGIC Spark tells it that the query is idle, which Spark does every 10 seconds. In this notebook both times are
# MAGIC shorter.

# COMMAND ----------

import logging

from watermark_alignment import StatusListener

table = f"{folder}/split_watermarks"
said: list[str] = []


class Keep(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        said.append(f"{record.levelname} {record.getMessage()}")


log = logging.getLogger("watermark_alignment")
if "listener" in globals():  # of a former run of this cell
    log.removeHandler(globals()["keep"])
    spark.streams.removeListener(globals()["listener"])

keep = Keep()
log.setLevel(logging.INFO)
log.addHandler(keep)

spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1s")
listener = StatusListener(table, stalled_after="1 s")
spark.streams.addListener(listener)

# COMMAND ----------

import flip27_stream

if "query" in globals():  # of a former run, which may have ended early
    globals()["query"].stop()

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
# MAGIC ## Why does the query not go on?
# MAGIC
# MAGIC The listener names the partition and the remedy.

# COMMAND ----------

from flip27_stream.testing import wait_until

wait_until(
    lambda: any("stalls" in line for line in said) or not query.isActive,
    "the warning of a stall",
    timeout=600,
)
print(*said, sep="\n")

# COMMAND ----------

# MAGIC %md
# MAGIC The table shows how far each split was read. `split_status` returns a DataFrame of it, for a dashboard.
# MAGIC `python -m watermark_alignment status TABLE --watch` shows the same on a terminal. Partitions 0 and 1 have
# MAGIC been read up to 10 minutes after the last record of partition 2. Their next records are later than that.

# COMMAND ----------

from watermark_alignment import split_status

stalled = split_status(spark, table).select(
    "split", "status", "batch", "watermark", "watermarkAlignmentDrift"
)
stalled.show(truncate=False)
stalled_at = {row["split"]: row["watermark"] for row in stalled.collect()}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Two remedies
# MAGIC
# MAGIC There are two remedies. You can let the partition become idle sooner: `scan.watermark.idle-timeout` is an
# MAGIC hour in this notebook, and a minute by default. Records that the partition gets after that can be late. Or
# MAGIC the producer of the partition writes again, as in the next cell: then the other partitions are read further,
# MAGIC too.

# COMMAND ----------

write(2, 40)

# COMMAND ----------


import time


def all_read() -> bool:
    time.sleep(1)  # each look is a job of Spark
    records = spark.read.format("delta").load(f"{folder}/records")
    return records.count() >= 3 * 3600 or not query.isActive


wait_until(all_read, "all records to be read", timeout=600)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The end of the query
# MAGIC
# MAGIC Run this cell also if you do not run all of the cells above: the query goes on until it is stopped.

# COMMAND ----------

query.stop()
spark.streams.removeListener(listener)
log.removeHandler(keep)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A picture of all batches
# MAGIC
# MAGIC The band is how far partitions may be read ahead of the slowest one.

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table)
picture
