"""``python -m flip27_stream.demo``: one job with Spark's own Kafka source, and with ``flip27_kafka``."""

from __future__ import annotations

import sys

from flip27_stream.demo.command import Demo
from flip27_stream.demo.comparison import PICTURE, compare

DEMO = Demo(
    module="flip27_stream.demo",
    description="One windowed count of a skewed backlog: Spark's own Kafka source beside flip27_kafka.",
    story=compare,
    picture=PICTURE,
    records=1_200_000,
    rows_per_batch=100_000,
    kafka_source=True,
)

if __name__ == "__main__":
    sys.exit(DEMO.main())
