"""The command ``python -m benchmarks.mutated_bytes --responses 10000000 --seed S``.

Two decoders read damaged responses.

It runs on one core without a broker, and reads some 6,000 responses a second. The exit code is 1 if a response was
read wrongly, made something fail, or took too long. The memory of the process is limited, so that a decoder that
takes more than the bytes justify fails.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import time
from types import FrameType

from benchmarks.mutated_bytes.damage import bombs
from benchmarks.mutated_bytes.run import PLACES, Findings, compare
from flip27_stream.connectors.kafka.records.compression import LARGEST_BATCH
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.errors import CorruptRecordError

_MOST_CPU_S = 60  # not wall time: a process that is stopped, or gets no core, does not hang
_MORE_MEMORY = 512 << 20
_NEWS_S = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutated_bytes",
        description="Damages fetch responses, and compares what two decoders read from them.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--responses", type=int, default=100_000, help="how many are read")
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same responses")
    given = parser.parse_args()
    packed = bombs(2 * LARGEST_BATCH)
    _limit_memory()
    signal.signal(signal.SIGPROF, _too_long)
    refused = sum(_is_refused(bomb) for bomb in packed.values())
    print(f"{refused} of {len(packed)} decompression bombs are refused: {', '.join(packed)}", flush=True)
    watch, began = _Watch(), time.monotonic()
    findings = compare(given.responses, given.seed, watch.look)
    watch.look(findings)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _report(findings, time.monotonic() - began)
    return 1 if findings.wrong or refused < len(packed) else 0


class _Watch:
    """Prints the progress of a run every minute, and each finding at once. It ends a run that makes no progress."""

    def __init__(self) -> None:
        self._told = time.monotonic()
        self._wrong = 0

    def look(self, findings: Findings) -> None:
        signal.setitimer(signal.ITIMER_PROF, _MOST_CPU_S)
        for wrong in findings.wrong[self._wrong :]:
            print(wrong, flush=True)
        self._wrong = len(findings.wrong)
        if time.monotonic() - self._told > _NEWS_S:
            self._told = time.monotonic()
            print(f"{findings.responses:,} responses, {len(findings.wrong)} wrong", flush=True)


def _is_refused(bomb: bytes) -> bool:
    signal.setitimer(signal.ITIMER_PROF, _MOST_CPU_S)
    try:
        decode(bomb, 0, 1, source="a bomb")
    except CorruptRecordError:
        return True
    return False


def _limit_memory() -> None:
    """Limits the memory of this process, so that a decoder that needs far more than small responses justify fails."""
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    now = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + _MORE_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _too_long(_: int, frame: FrameType | None) -> None:
    raise TimeoutError(
        f"A thousand responses, or a bomb, took more than {_MOST_CPU_S} s of CPU time, at {frame}"
    )


def _report(findings: Findings, seconds: float) -> None:
    kinds = sorted({outcome for _, outcome in findings.outcomes})
    print(f"{'damage in':<12}" + "".join(f"{kind:>32}" for kind in kinds))
    for place in PLACES:
        print(f"{place:<12}" + "".join(f"{findings.outcomes[place, kind]:>32,}" for kind in kinds))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{findings.responses:,} responses and {findings.rows:,} rows in {seconds:.0f} s "
        f"({findings.responses / seconds:,.0f}/s), {len(findings.wrong)} wrong, peak of memory {peak} MiB"
    )


if __name__ == "__main__":
    sys.exit(main())
