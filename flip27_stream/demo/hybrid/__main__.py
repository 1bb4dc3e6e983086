"""``python -m flip27_stream.demo.hybrid``: one query over a Delta table of history and a live topic."""

from __future__ import annotations

import sys

from flip27_stream.demo.command import Demo
from flip27_stream.demo.hybrid.story import PICTURE, tell

DEMO = Demo(
    module="flip27_stream.demo.hybrid",
    description="One windowed count over a Delta table of history and a live topic.",
    story=tell,
    picture=PICTURE,
    records=320_000,
    rows_per_batch=30_000,
)

if __name__ == "__main__":
    sys.exit(DEMO.main())
