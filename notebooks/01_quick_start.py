# Databricks notebook source
# MAGIC %md
# MAGIC # Quick start: a skewed topic, read in step
# MAGIC
# MAGIC Reads a topic of your own with split-level watermark alignment, counts its records in windows of five
# MAGIC minutes, and shows how the partitions moved together in event time. Fill in the three names below; the wheel
# MAGIC of `flip27-stream` must be installed on the cluster.

# COMMAND ----------


def parameter(name: str, default: str) -> str:
    """A widget on Databricks; elsewhere what was set before, or the default."""
    if "dbutils" not in globals():
        return str(globals().get(name, default))
    dbutils.widgets.text(name, default)  # noqa: F821
    return str(dbutils.widgets.get(name))  # noqa: F821


bootstrap_servers = parameter("bootstrap_servers", "localhost:9092")
topic = parameter("topic", "clicks")
folder = parameter("folder", "/tmp/flip27_quick_start")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Read the topic aligned
# MAGIC
# MAGIC No partition is read more than five minutes of event time ahead of one that has run dry. While all have a
# MAGIC backlog, they are read to the same event time, as fast as `maxOffsetsPerTrigger` allows.

# COMMAND ----------

import flip27_stream

flip27_stream.register(spark)  # noqa: F821

records = (
    spark.readStream.format("flip27_kafka")  # noqa: F821
    .option("kafka.bootstrap.servers", bootstrap_servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 100_000)
    .option("scan.watermark.alignment.group", "quick-start")
    .option("scan.watermark.alignment.max-drift", "5 minutes")
    .option("scan.watermark.alignment.table", f"{folder}/split_watermarks")
    .load()
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Count
# MAGIC
# MAGIC The delay of `withWatermark` is longer than the drift, so no record is dropped as late.

# COMMAND ----------

from pyspark.sql.functions import window

counts = records.withWatermark("timestamp", "10 minutes").groupBy(window("timestamp", "5 minutes")).count()
query = (
    counts.writeStream.format("delta")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/counts")
)
query.awaitTermination()
spark.read.format("delta").load(f"{folder}/counts").orderBy("window").show(truncate=False)  # noqa: F821

# COMMAND ----------

# MAGIC %md
# MAGIC ## See it
# MAGIC
# MAGIC Every batch left a row per partition in the split-watermark table.

# COMMAND ----------

from watermark_alignment.plot import plot

picture = plot(f"{folder}/split_watermarks")
picture
