"""``python -m benchmarks.soak --minutes 30``: the run and its table; the exit code is 1 if a target is missed."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from rich.console import Console

from benchmarks.soak.run import Soak, SoakError, SoakSettings
from benchmarks.support.results import table

_LEAST_WIDTH = 150


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30, help="how long")
    parser.add_argument("--kill-every", type=float, default=120, metavar="SECONDS", help="kill -9 of a query")
    parser.add_argument("--seed", type=int, default=1, help="of skew, silence and bursts")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops all processes
    try:
        results = Soak(SoakSettings(given.minutes * 60, given.kill_every, given.seed)).run()
    except SoakError as error:
        print(error, file=sys.stderr)
        return 1
    title = f"{given.minutes:g} minutes, a kill every {given.kill_every:g} s (beside: 2nd quarter, ours: last quarter)"
    console = Console(width=max(_LEAST_WIDTH, Console().width))
    console.print(table(results, title))
    return int(any(result.met is False for result in results))


if __name__ == "__main__":
    sys.exit(main())
