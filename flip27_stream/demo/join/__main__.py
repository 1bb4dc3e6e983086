"""Two topics joined: Spark's own Kafka source on both sides beside flip27_kafka on both sides."""

from __future__ import annotations

import sys

from flip27_stream.demo.command import main
from flip27_stream.demo.join.demo import run_demo

if __name__ == "__main__":
    sys.exit(main(__package__, __doc__, run_demo, "join.png", records=1_000_000, rows_per_batch=20_000))
