"""The driver program of one query, which the soak kills: ``python -m benchmarks.soak.query OPTIONS OUTPUT``."""

from __future__ import annotations

import json
import sys

import flip27_stream
from flip27_stream.testing import local_session

_CONF = {"spark.sql.shuffle.partitions": "1", "spark.driver.memory": "512m"}


def main(options: str, output: str) -> None:
    """Runs a query that reads Kafka with ``options`` (JSON).

    It writes partition and number of each record to ``output``, a Delta table.
    """
    spark = local_session("flip27-soak", conf=_CONF)
    flip27_stream.register(spark)
    stream = spark.readStream.format("flip27_kafka").options(**json.loads(options)).load()
    numbers = stream.selectExpr("partition", "CAST(CAST(key AS STRING) AS LONG) AS number")
    writer = numbers.writeStream.format("delta").option("checkpointLocation", f"{output}-checkpoint")
    writer.trigger(processingTime="1 second").start(output).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
