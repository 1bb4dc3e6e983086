"""A driver program of its own, to be killed: one aligned query from Kafka into a Delta table.

``python -m tests.spark.driver '{"options": {...}, "sink": "delta", "output": "...", ...}'``
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import flip27_stream
from flip27_stream.testing import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Assignment:
    """What the driver is to do.

    Attributes:
        options: of the source.
        sink: ``delta`` for the streaming sink, ``foreach_batch`` for an idempotent batch write.
        output: path of the table.
        checkpoint: path.
        to_the_end: read what is there and end, rather than go on for ever.
    """

    options: dict[str, str]
    sink: str
    output: str
    checkpoint: str
    to_the_end: bool

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main(assignment: Assignment) -> None:
    spark = local_session("flip27-driver", conf={"spark.sql.shuffle.partitions": "1"})
    flip27_stream.register(spark)
    stream = spark.readStream.format("flip27_kafka").options(**assignment.options).load()
    writer = stream.writeStream.option("checkpointLocation", assignment.checkpoint)
    writer = writer.trigger(availableNow=True) if assignment.to_the_end else writer
    if assignment.sink == "delta":
        query = writer.format("delta").start(assignment.output)
    else:

        def write(batch: DataFrame, number: int) -> None:
            once = {"txnAppId": "driver", "txnVersion": str(number)}
            batch.write.format("delta").mode("append").options(**once).save(assignment.output)

        query = writer.foreachBatch(write).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Assignment(**json.loads(sys.argv[1])))
