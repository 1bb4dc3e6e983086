"""``python -m flip27_stream.demo.join``: two topics joined, with Spark's own Kafka source and with ``flip27_kafka``."""

from __future__ import annotations

import sys

from flip27_stream.demo.command import Demo
from flip27_stream.demo.join.story import PICTURE, tell

DEMO = Demo(
    module="flip27_stream.demo.join",
    description="Two topics joined: Spark's own Kafka source on both sides beside flip27_kafka on both sides.",
    story=tell,
    picture=PICTURE,
    records=1_000_000,
    rows_per_batch=20_000,
    kafka_source=True,
)

if __name__ == "__main__":
    sys.exit(DEMO.main())
