"""A member of a group in a separate process, which a test kills.

``python -m tests.spark.support.programs.group_member OPTIONS OUTPUT``
"""

from __future__ import annotations

import json
import sys

import flip27_stream
from flip27_stream.testing import local_session


def main(options: str, output: str) -> None:
    """Runs a query of Kafka with ``options`` (JSON) that writes the Delta table ``output``."""
    spark = local_session("flip27-member", conf={"spark.sql.shuffle.partitions": "1"})
    flip27_stream.register(spark)
    stream = spark.readStream.format("flip27_kafka").options(**json.loads(options)).load()
    writer = stream.writeStream.format("delta").option("checkpointLocation", f"{output}-checkpoint")
    writer.start(output).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
