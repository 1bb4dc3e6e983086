"""``python -m benchmarks [name]``: all of them, or the one named."""

from __future__ import annotations

import importlib
import sys

NAMES = ("read_speed", "offsets", "planning", "decode", "table")


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        print(f"--- {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
