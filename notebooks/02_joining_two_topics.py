# Databricks notebook source
# MAGIC %md
# MAGIC # Joining two topics
# MAGIC
# MAGIC A stream-stream join keeps the rows of one side until the watermark shows that the other side has no more
# MAGIC matching rows. Spark's watermark of a join is that of the slower side. So while one topic has a long
# MAGIC backlog, the rows of the other topic accumulate in the state. Two sources with the same group and table are
# MAGIC aligned with each other: the records of the fast topic stay in Kafka until the other topic is near, and need
# MAGIC no state.
# MAGIC
# MAGIC Fill in the widgets: the brokers, a folder that Spark and the driver's Python both reach, such as a volume,
# MAGIC and a place for the split-watermark table. The two sources write to that table at the same time, which
# MAGIC volumes do not support: so it is on the driver's disk, or in cloud storage (`s3://`, `abfss://`, `gs://`).

# COMMAND ----------

from datetime import datetime


def parameter(name: str, default: str) -> str:
    """A widget on Databricks; elsewhere what was set before, or the default."""
    if "dbutils" not in globals():
        return str(globals().get(name, default))
    dbutils.widgets.text(name, default)
    return str(dbutils.widgets.get(name))


bootstrap_servers = parameter("bootstrap_servers", "localhost:9092")
run = f"join_{datetime.now():%Y%m%d_%H%M%S_%f}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"
table = f"{parameter('place_of_table', '/tmp/flip27')}/{run}/split_watermarks"
rows_in_state: dict[str, list[int]] = {"without": [], "aligned": []}  # after each batch of a query

# COMMAND ----------

# MAGIC %md
# MAGIC ## Views and clicks
# MAGIC
# MAGIC Each topic has an hour of records: a view every two seconds, and a click on every sixth view. There are few
# MAGIC clicks, so with the same number of rows per batch all clicks are read long before all views are. If this cell is
# MAGIC run again, the topics stay as they are. To begin with other topics, or if this cell failed, run the cell above
# MAGIC first.

# COMMAND ----------

import numpy as np
import pyarrow as pa
from kafka import KafkaAdminClient

from flip27_stream.testing import write_bulk

VIEWS, EVERY = 1800, 6
end = int(datetime.now().timestamp() * 1000)
view_times = end - np.arange(VIEWS, 0, -1, dtype=np.int64) * 2000
numbers = np.arange(VIEWS)


def values(of: np.ndarray) -> pa.BinaryArray:
    return pa.array([str(n).encode() for n in of], pa.binary())


admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
if f"{run}_views" not in admin.list_topics():
    topics = {
        f"{run}_{name}": {"num_partitions": 1, "replication_factor": -1} for name in ("views", "clicks")
    }
    admin.create_topics(topics, wait_for_metadata=True)
    write_bulk(bootstrap_servers, f"{run}_views", 0, view_times, values(numbers))
    write_bulk(bootstrap_servers, f"{run}_clicks", 0, view_times[::EVERY] + 500, values(numbers[::EVERY]))
admin.close()

# COMMAND ----------

# MAGIC %md
# MAGIC ## The join
# MAGIC
# MAGIC A click belongs to the view with the same number, which is at most a minute older. No row is lost, with
# MAGIC alignment or without it. The difference is the number of rows in the state.

# COMMAND ----------

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr

import flip27_stream

flip27_stream.register(spark)
spark.conf.set("spark.sql.shuffle.partitions", "1")  # there is little to join


def records(name: str, aligned: bool) -> DataFrame:
    reader = (
        spark.readStream.format("flip27_kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", f"{run}_{name}")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 300)
    )
    if aligned:
        reader = (
            reader.option("scan.watermark.alignment.group", "views-and-clicks")
            .option("scan.watermark.alignment.max-drift", "10 minutes")
            .option("scan.watermark.alignment.table", table)
            .option("scan.source.id", name)
        )
    number = expr("CAST(CAST(value AS STRING) AS INT)")
    return reader.load().select(number.alias(f"{name}_number"), expr("timestamp").alias(f"{name}_time"))


def join(name: str, aligned: bool) -> list[int]:
    """Return the number of rows in the state after each batch. A query that is run again adds no batch."""
    views = records("views", aligned).withWatermark("views_time", "15 minutes")
    clicks = records("clicks", aligned).withWatermark("clicks_time", "15 minutes")
    pairs = views.join(
        clicks,
        expr(
            "views_number = clicks_number AND clicks_time BETWEEN views_time AND views_time + INTERVAL 1 MINUTE"
        ),
    )
    query = (
        pairs.writeStream.format("delta")
        .option("checkpointLocation", f"{folder}/{name}_checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/{name}")
    )
    query.awaitTermination()
    states = [progress["stateOperators"] for progress in query.recentProgress]
    rows_in_state[name] += [state[0]["numRowsTotal"] for state in states if state]
    return rows_in_state[name]


without = join("without", aligned=False)
aligned = join("aligned", aligned=True)
pairs = [spark.read.format("delta").load(f"{folder}/{name}").count() for name in ("without", "aligned")]
pairs, max(without), max(aligned)

# COMMAND ----------

from matplotlib.figure import Figure

state = Figure(figsize=(7, 3.5), layout="constrained")
lines = state.subplots()
lines.plot(np.linspace(0, 100, len(without)), without, color="#D55E00", label="without alignment")
lines.plot(np.linspace(0, 100, len(aligned)), aligned, color="#009E73", label="aligned")
lines.set_xlabel("% of the batches")
lines.set_ylabel("rows in the state")
lines.set_ylim(0)
lines.legend(frameon=False)
state

# COMMAND ----------

# MAGIC %md
# MAGIC ## What each batch read
# MAGIC
# MAGIC The picture shows both sources on one axis of event time. The shaded band is as wide as the allowed drift.

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table, sources=["views", "clicks"])
picture
