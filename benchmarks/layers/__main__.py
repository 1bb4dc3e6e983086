"""The command ``python -m benchmarks.layers``."""

from __future__ import annotations

from benchmarks.layers import measure
from benchmarks.support.command import run

if __name__ == "__main__":
    run((measure,))
