# Databricks notebook source
# MAGIC %md
# MAGIC # Kinesis: a stream whose shards are split while it is read
# MAGIC
# MAGIC `flip27_kinesis` takes the options of Databricks' Kinesis source. Shards are splits, aligned by the time at
# MAGIC which their records arrived. A shard is read to its end before the shards that replace it, so records of a key
# MAGIC stay in order.
# MAGIC
# MAGIC Fill in the widgets: the region, and a folder that Spark and the driver's Python both reach, such as a volume.
# MAGIC Leave the endpoint and the keys empty on AWS: the cluster's instance profile is used. The notebook creates a
# MAGIC stream with two shards, and its last cell deletes it. `flip27-stream[kinesis]` must be installed on the cluster.

# COMMAND ----------

from datetime import datetime


def parameter(name: str, default: str) -> str:
    """A widget on Databricks; elsewhere what was set before, or the default."""
    if "dbutils" not in globals():
        return str(globals().get(name, default))
    dbutils.widgets.text(name, default)
    return str(dbutils.widgets.get(name))


run = f"kinesis_{datetime.now():%Y%m%d_%H%M%S_%f}"
folder = f"{parameter('folder', '/tmp/flip27')}/{run}"
given = {
    "region": parameter("region", "us-east-1"),
    "endpoint": parameter("endpoint", ""),
    "awsAccessKey": parameter("awsAccessKey", ""),
    "awsSecretKey": parameter("awsSecretKey", ""),
}
connection = {name: value for name, value in given.items() if value}

# COMMAND ----------

# MAGIC %md
# MAGIC ## A stream with two shards
# MAGIC
# MAGIC If this cell is run again, the stream stays as it is. If it failed, run the last cell, which deletes the stream,
# MAGIC and begin with the cell above.

# COMMAND ----------

import json

import boto3

kinesis = boto3.client(
    "kinesis",
    region_name=connection["region"],
    endpoint_url=connection.get("endpoint"),
    aws_access_key_id=connection.get("awsAccessKey"),
    aws_secret_access_key=connection.get("awsSecretKey"),
)


def wait_until_active() -> None:
    """Waits until the stream can be written and its shards can be split, which AWS may need a minute for."""
    kinesis.get_waiter("stream_exists").wait(StreamName=run, WaiterConfig={"Delay": 1, "MaxAttempts": 600})


def put(first: int, count: int) -> None:
    """Writes clicks of 20 users, numbered from ``first`` on."""
    for start in range(first, first + count, 100):
        numbers = range(start, min(start + 100, first + count))
        records = [
            {"Data": json.dumps({"number": n}).encode(), "PartitionKey": f"user-{n % 20}"} for n in numbers
        ]
        assert kinesis.put_records(StreamName=run, Records=records)["FailedRecordCount"] == 0


try:
    kinesis.create_stream(StreamName=run, ShardCount=2)
except kinesis.exceptions.ResourceInUseException:
    pass  # A former run of this cell has made it.
else:
    wait_until_active()
    put(0, 500)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Read it, split a shard, read on
# MAGIC
# MAGIC Both runs have the same checkpoint. The second run goes on where the first one ended: it reads the rest of
# MAGIC the split shard, then its two children from their first records. With `consumerMode` `efo` and a
# MAGIC `consumerName`, tasks would subscribe to the shards (enhanced fan-out), which AWS bills.

# COMMAND ----------

import flip27_stream

flip27_stream.register(spark)
table = f"{folder}/split_watermarks"


def read_on() -> None:
    """Reads what there is now, and appends it to a Delta table."""
    clicks = (
        spark.readStream.format("flip27_kinesis")
        .options(**connection)
        .option("streamName", run)
        .option("initialPosition", "trim_horizon")
        .option("scan.watermark.alignment.group", "kinesis")
        .option("scan.watermark.alignment.max-drift", "5 minutes")
        .option("scan.watermark.alignment.table", table)
        .option("scan.source.id", "clicks")
        .load()
    )
    query = (
        clicks.writeStream.format("delta")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/clicks")
    )
    query.awaitTermination()


read_on()

# COMMAND ----------

shards = kinesis.list_shards(StreamName=run)["Shards"]
if len(shards) == 2:  # otherwise a former run of this cell has split one
    keys = shards[0]["HashKeyRange"]
    middle = (int(keys["StartingHashKey"]) + int(keys["EndingHashKey"])) // 2
    kinesis.split_shard(StreamName=run, ShardToSplit=shards[0]["ShardId"], NewStartingHashKey=str(middle))
    wait_until_active()
    put(500, 500)
read_on()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Every click once, and those of a user in order
# MAGIC
# MAGIC Sequence numbers rise along a shard, and those of its children are greater.

# COMMAND ----------

from pyspark.sql.functions import col, get_json_object

number = get_json_object(col("data").cast("string"), "$.number").cast("int").alias("number")
clicks = spark.read.format("delta").load(f"{folder}/clicks").select("shardId", "sequenceNumber", number)
by_shard = {row["shardId"]: row["count"] for row in clicks.groupBy("shardId").count().collect()}
distinct = clicks.select("number").distinct().count()
by_shard, distinct

# COMMAND ----------

# MAGIC %md
# MAGIC ## What each batch read

# COMMAND ----------

from watermark_alignment import plot

picture = plot(table, over="batch")
picture

# COMMAND ----------

# MAGIC %md
# MAGIC ## The end of the stream
# MAGIC
# MAGIC Run this cell also if you do not run all of the cells above: AWS bills the stream until it is deleted.

# COMMAND ----------

from contextlib import suppress

with suppress(kinesis.exceptions.ResourceInUseException, kinesis.exceptions.ResourceNotFoundException):
    kinesis.delete_stream(StreamName=run)
