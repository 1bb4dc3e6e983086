"""Two topics joined: Spark's own Kafka source on both sides beside flip27_kafka on both sides."""

from __future__ import annotations

import sys

from flip27_stream.demo.join.story import tell
from flip27_stream.demo.story import main

if __name__ == "__main__":
    sys.exit(main(__package__, __doc__, tell, "join.png", records=1_000_000, rows_per_batch=20_000))
