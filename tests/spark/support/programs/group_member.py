"""A member of a group in a separate process, which a test kills.

``python -m tests.spark.support.programs.group_member OPTIONS OUTPUT``
"""

from __future__ import annotations

import json
import sys

import flip27_stream
from flip27_stream.testing import local_session
from tests.spark.support.kafka_queries import start_files
from tests.spark.support.processes import QUICK_CONF


def main(options: str, output: str) -> None:
    """Runs a query of Kafka with ``options`` (JSON) that writes Parquet files to the folder ``output``."""
    spark = local_session("flip27-member", conf=QUICK_CONF)
    flip27_stream.register(spark)
    stream = spark.readStream.format("flip27_kafka").options(**json.loads(options)).load()
    writer = stream.writeStream.option("checkpointLocation", f"{output}-checkpoint")
    start_files(spark, writer, output).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
