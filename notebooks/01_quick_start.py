# Databricks notebook source
# MAGIC %md
# MAGIC # Quick start: a skewed topic, without alignment and with it
# MAGIC
# MAGIC Spark has one watermark per query: the greatest event time it has read, less a delay. If one partition of a
# MAGIC topic is hours behind, the rows of the other partitions raise the watermark, and Spark drops the rows of that
# MAGIC partition as late. This notebook writes such a topic and counts its records twice.
# MAGIC
# MAGIC Fill in the two widgets: the brokers, and a folder that Spark and the driver's Python both reach, such as a
# MAGIC volume. The wheel of `flip27-stream` must be installed on the cluster.

# COMMAND ----------

from datetime import datetime


def parameter(name: str, default: str) -> str:
    """A widget on Databricks; elsewhere what was set before, or the default."""
    if "dbutils" not in globals():
        return str(globals().get(name, default))
    dbutils.widgets.text(name, default)
    return str(dbutils.widgets.get(name))


bootstrap_servers = parameter("bootstrap_servers", "localhost:9092")
run = f"quick_start_{datetime.now():%Y%m%d_%H%M%S_%f}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"

# COMMAND ----------

# MAGIC %md
# MAGIC ## A skewed topic
# MAGIC
# MAGIC The topic has three partitions with 1,200 records each. Two of them begin an hour ago. The third one begins
# MAGIC six hours ago, as after an outage of its producer, and has a backlog. If this cell is run again, the topic stays
# MAGIC as it is. To begin with another topic, or if this cell failed, run the cell above first.

# COMMAND ----------

import numpy as np
from kafka import KafkaAdminClient

from flip27_stream.testing import write_bulk

HOUR = 3_600_000
begun_hours_ago = {0: 1, 1: 1, 2: 6}
now = int(datetime.now().timestamp() * 1000)

admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
if run not in admin.list_topics():
    admin.create_topics({run: {"num_partitions": 3, "replication_factor": -1}}, wait_for_metadata=True)
    for partition, hours in begun_hours_ago.items():
        times = np.linspace(now - hours * HOUR, now - 1000, 1200).astype(np.int64)
        write_bulk(bootstrap_servers, run, partition, times, b"click")
admin.close()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Count it, without alignment and with it
# MAGIC
# MAGIC The query is the same, a count per window and partition. Three options turn alignment on; the fourth names
# MAGIC the source for pictures. `max-drift` is how far in event time a partition may be read ahead of the slowest
# MAGIC one. The delay of `withWatermark` is longer than that, so no row is late.

# COMMAND ----------

from pyspark.sql.functions import window

import flip27_stream

flip27_stream.register(spark)
spark.conf.set("spark.sql.shuffle.partitions", "1")  # there is little to count

table = f"{folder}/split_watermarks"
alignment = {
    "scan.watermark.alignment.group": "quick-start",
    "scan.watermark.alignment.max-drift": "5 minutes",
    "scan.watermark.alignment.table": table,
    "scan.source.id": "clicks",
}


def count(name: str, options: dict[str, str]) -> dict[int, int]:
    """Rows counted, by partition."""
    records = (
        spark.readStream.format("flip27_kafka")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", run)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 900)
        .options(**options)
        .load()
    )
    counts = (
        records.withWatermark("timestamp", "10 minutes")
        .groupBy(window("timestamp", "5 minutes"), "partition")
        .count()
    )
    query = (
        counts.writeStream.format("delta")
        .option("checkpointLocation", f"{folder}/{name}_checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/{name}")
    )
    query.awaitTermination()
    totals = spark.read.format("delta").load(f"{folder}/{name}").groupBy("partition").sum("count")
    return {row["partition"]: row["sum(count)"] for row in totals.collect()}


without = count("without", {})
aligned = count("aligned", alignment)
without, aligned

# COMMAND ----------

# MAGIC %md
# MAGIC The newest windows of each partition are still open, so neither count has them. All other rows that the count
# MAGIC without alignment lacks were dropped.

# COMMAND ----------

from matplotlib.figure import Figure

comparison = Figure(figsize=(7, 3.5), layout="constrained")
bars = comparison.subplots()
for shift, counted, label, colour in (
    (-0.2, without, "without alignment", "#D55E00"),
    (0.2, aligned, "aligned", "#009E73"),
):
    rows = [counted.get(partition, 0) for partition in begun_hours_ago]
    bars.bar(np.arange(3) + shift, rows, 0.36, color=colour, label=label)
bars.set_xticks(range(3), [f"partition {p}\n{hours} h" for p, hours in begun_hours_ago.items()])
bars.set_ylabel("rows counted of 1,200")
bars.legend(frameon=False)
comparison

# COMMAND ----------

# MAGIC %md
# MAGIC ## What each batch read
# MAGIC
# MAGIC The split-watermark table has a row for each partition and each batch. The partition with the backlog was read
# MAGIC first. The others were paused until its event times were near theirs.

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table, over="batch")
picture
