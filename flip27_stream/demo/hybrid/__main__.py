"""One windowed count over a Delta table of history and a live topic."""

from __future__ import annotations

import sys

from flip27_stream.demo.command import main
from flip27_stream.demo.hybrid.demo import run_demo

if __name__ == "__main__":
    sys.exit(main(__package__, __doc__, run_demo, "hybrid.png", records=320_000, rows_per_batch=30_000))
