# Databricks notebook source
# MAGIC %md
# MAGIC # History from a Delta table, then Kafka
# MAGIC
# MAGIC The history of a topic is in a Delta table, and Kafka has only the last hours. A `HybridSource` is both as
# MAGIC one stream: it reads the table to its end, then goes on with the topic where the table ends. This is one query
# MAGIC with one checkpoint. No record is left out or read twice, although some records are in both.
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
run = f"history_{datetime.now():%Y%m%d_%H%M%S_%f}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Six hours of clicks
# MAGIC
# MAGIC Each of two partitions has one click a second. The table has the first four hours, and the topic has the last
# MAGIC three, so one hour is in both. The table's files are in random order, as after compactions. If this cell is run
# MAGIC again, the table and the topic stay as they are. To begin with others, or if this cell failed, run the cell
# MAGIC above first.

# COMMAND ----------

import random

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from kafka import KafkaAdminClient

from flip27_stream.testing import write_bulk

HOUR, PARTITIONS = 3_600_000, 2
begin = int(datetime.now().timestamp() * 1000) // HOUR * HOUR - 6 * HOUR
clicks = begin + np.arange(6 * 3600, dtype=np.int64) * 1000
in_table = clicks[clicks < begin + 4 * HOUR]
in_topic = clicks[clicks >= begin + 3 * HOUR]

columns = pa.schema(
    [("value", pa.binary()), ("partition", pa.int32()), ("timestamp", pa.timestamp("us", tz="UTC"))]
)
files = [(partition, part) for partition in range(PARTITIONS) for part in np.array_split(in_table, 4)]
random.Random(27).shuffle(files)


def write_history(partition: int, times: np.ndarray) -> None:
    """Appends a file to the table."""
    rows = [
        pa.repeat(pa.scalar(b"click"), len(times)),
        pa.repeat(pa.scalar(partition, pa.int32()), len(times)),
        pa.array(times * 1000, columns.field("timestamp").type),
    ]
    write_deltalake(
        f"{folder}/history",
        pa.table(rows, schema=columns),
        mode="append",
        storage_options={"allow_unsafe_rename": "true"},  # volumes have no hard links; safe for one writer
    )


admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
if run not in admin.list_topics():
    admin.create_topics(
        {run: {"num_partitions": PARTITIONS, "replication_factor": -1}}, wait_for_metadata=True
    )
    for partition in range(PARTITIONS):
        write_bulk(bootstrap_servers, run, partition, in_topic, b"click")
    for partition, times in files:
        write_history(partition, times)
admin.close()

# COMMAND ----------

# MAGIC %md
# MAGIC ## One stream of both
# MAGIC
# MAGIC The source of the topic is created when the table has been read: `switch.start_time_ms` is the first
# MAGIC millisecond that the table does not have. The converter keeps only the columns that the table has.

# COMMAND ----------

import flip27_stream
from flip27_stream import FileSource, HybridSource, KafkaSource
from flip27_stream.api import ReadLimits

history = FileSource({"path": f"{folder}/history", "files.format": "delta"}, bounded=True)


def live(switch):
    return KafkaSource(
        {
            "kafka.bootstrap.servers": bootstrap_servers,
            "subscribe": run,
            "startingTimestamp": str(switch.start_time_ms),
            "startingOffsetsByTimestampStrategy": "latest",
        }
    )


def as_in_the_table(records):
    return records.select(["value", "partition", "timestamp"])


source = (
    HybridSource.builder(history, event_time="timestamp", limits=ReadLimits(max_rows=8000))
    .add_source(live, converter=as_in_the_table, event_time="timestamp")
    .build()
)
spark.dataSource.register(flip27_stream.data_source(source, name="history_then_topic"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Count it
# MAGIC
# MAGIC The query is aligned, so the files are read in the order of event time and a short delay is enough. A query
# MAGIC that runs without end would have no trigger; this one ends at the end of the topic.

# COMMAND ----------

from pyspark.sql.functions import window

spark.conf.set("spark.sql.shuffle.partitions", "1")  # there is little to count
table = f"{folder}/split_watermarks"
stream = (
    spark.readStream.format("history_then_topic")
    .option("scan.watermark.alignment.group", "history")
    .option("scan.watermark.alignment.max-drift", "5 minutes")
    .option("scan.watermark.alignment.table", table)
    .load()
)
counts = stream.withWatermark("timestamp", "10 minutes").groupBy(window("timestamp", "30 minutes")).count()
query = (
    counts.writeStream.format("delta")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/counts")
)
query.awaitTermination()
counted = spark.read.format("delta").load(f"{folder}/counts").orderBy("window")
counted.show(truncate=False)

# COMMAND ----------

# MAGIC %md
# MAGIC Every window has 2 × 1,800 clicks, also the windows where the topic follows the table (after four hours). The
# MAGIC last window is still open.
# MAGIC
# MAGIC ## What each batch read
# MAGIC
# MAGIC Splits that begin with `0:` are files of the table, those with `1:` are partitions of the topic.

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table, over="batch")
picture
