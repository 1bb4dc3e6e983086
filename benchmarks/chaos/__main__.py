"""The command ``python -m benchmarks.chaos --seed 1 --minutes 20``.

It prints what happens; the exit code is 1 after a finding.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.chaos.run import Chaos, ChaosError, ChaosSettings, Verdict


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.chaos", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--minutes", type=float, default=20, help="how long; the last fault period is not cut short"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all that happens")
    parser.add_argument("--folder", type=Path, help="a new one for data and logs, which is kept")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # stops all processes
    try:
        found = Chaos(ChaosSettings(given.minutes * 60, given.seed, folder=given.folder), say).run()
    except ChaosError as error:
        print(error, file=sys.stderr)
        return 1
    report(found)
    return int(bool(found.findings))


def report(found: Verdict) -> None:
    say("")
    for what, count in sorted(found.done.items()):
        say(f"{count:5} {what}")
    for how, count in sorted(found.endings.items()):
        say(f"{count:5} queries ended: {how}")
    say(
        f"{found.count('kill ')} kills, {found.count('fault ', 'stop ', 'hide ')} faults, {found.comparisons} "
        f"comparisons of {found.rows:,} rows in all, {len(found.findings)} findings"
    )
    for finding in found.findings:
        say(f"FINDING at {finding}")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
