"""One windowed count of a skewed backlog: Spark's own Kafka source beside flip27_kafka."""

from __future__ import annotations

import sys

from flip27_stream.demo.command import main
from flip27_stream.demo.skew.demo import run_demo

if __name__ == "__main__":
    sys.exit(main(__package__, __doc__, run_demo, "alignment.png", records=1_200_000, rows_per_batch=100_000))
