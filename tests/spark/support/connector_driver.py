"""A driver program that tests start and kill. Its query reads a format of this project and writes Parquet files.

``python -m tests.spark.support.connector_driver '{"source": "flip27_pulsar", "options": {...}, "folder": "..."}'``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import flip27_stream
from flip27_stream.testing import local_session
from tests.spark.support.kafka_queries import start_files
from tests.spark.support.processes import QUICK_CONF


def main(source: str, options: Mapping[str, str], folder: str) -> None:
    """Runs the query whose output is ``KafkaQueries.output()`` of a test with this folder."""
    spark = local_session("flip27-driver", conf=QUICK_CONF)
    flip27_stream.register(spark)
    stream = spark.readStream.format(source).options(**options).load()
    writer = stream.writeStream.option("checkpointLocation", f"{folder}/out-checkpoint")
    start_files(spark, writer, f"{folder}/out").awaitTermination()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
