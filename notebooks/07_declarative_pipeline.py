# Databricks notebook source
# MAGIC %md
# MAGIC # A declarative pipeline
# MAGIC
# MAGIC This notebook is the source of a pipeline. It defines two streaming tables, which one alignment group keeps
# MAGIC together, and a view that counts both by the hour. Only a pipeline can run the notebook: if you run its cells
# MAGIC yourself, they fail.
# MAGIC
# MAGIC The pipeline's configuration has three entries:
# MAGIC
# MAGIC - `shop.folder` is a folder, such as a volume, with the folders `clicks` and `orders`, each with Parquet files
# MAGIC   of a column `time` and a column `number`.
# MAGIC - `shop.place_of_table` is a place for the split-watermark table. The two sources write to that table at the
# MAGIC   same time, which volumes do not support: so it is on the driver's disk, or in cloud storage (`s3://`,
# MAGIC   `abfss://`, `gs://`).
# MAGIC - The third one is the setting that `docs/pipelines.md` shows, by which Spark hides private keys when it prints
# MAGIC   options.

# COMMAND ----------

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, lit, window

import flip27_stream

spark = SparkSession.active()
flip27_stream.register(spark)
folder = spark.conf.get("shop.folder")
table = f"{spark.conf.get('shop.place_of_table')}/split_watermarks"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Two aligned tables
# MAGIC
# MAGIC Each table is a query of its own. Both name the same group and the same split-watermark table, so neither
# MAGIC reads more than ten minutes of event time ahead of the other.

# COMMAND ----------

ALIGNED = {
    "scan.watermark.alignment.group": "shop",
    "scan.watermark.alignment.max-drift": "10 minutes",
    "scan.watermark.alignment.table": table,
    "scan.watermark.event-time": "time",
}


def files(name: str) -> DataFrame:
    reader = spark.readStream.format("flip27_files").options(**ALIGNED).option("scan.source.id", name)
    return reader.schema("time timestamp, number long").load(f"{folder}/{name}")


@dp.table
def clicks() -> DataFrame:
    return files("clicks")


@dp.table
def orders() -> DataFrame:
    return files("orders")


# COMMAND ----------

# MAGIC %md
# MAGIC ## Counted by the hour

# COMMAND ----------


@dp.materialized_view
def by_hour() -> DataFrame:
    both = [spark.read.table(name).select("time", lit(name).alias("name")) for name in ("clicks", "orders")]
    counts = both[0].union(both[1]).groupBy(window("time", "1 hour"), "name").agg(count("*").alias("rows"))
    return counts.selectExpr("window.start as hour", "name", "rows")
