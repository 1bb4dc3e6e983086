"""Rows a second of ``flip27_kafka`` beside Spark's built-in Kafka source: whole rows into the noop sink.

``python -m benchmarks.read_speed``
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.backlog import Backlog
from benchmarks.command import run
from benchmarks.marks import Mark, Result, at_least
from benchmarks.stage import Stage
from benchmarks.streams import BUILTIN, OURS, drain, stream
from benchmarks.turns import pairs, throughput


def measure(stage: Stage) -> Iterator[Result]:
    small = Backlog(stage.sizes.records)
    large = Backlog(max(small.records // 4, small.partitions), value_bytes=1000)
    yield _whole_rows(stage, small, "100-byte values", at_least(3))
    yield _whole_rows(stage, replace(small, compression="lz4"), "100-byte values, lz4", at_least(3))
    yield _whole_rows(stage, large, "1,000-byte values", at_least(1.5))
    with tempfile.TemporaryDirectory() as table:
        alignment = {
            "scan.watermark.alignment.group": "benchmark",
            "scan.watermark.alignment.max-drift": "5 minutes",
            "scan.watermark.alignment.table": table,
        }
        yield _whole_rows(stage, small, "100-byte values, ours aligned", None, **alignment)


def _whole_rows(stage: Stage, backlog: Backlog, work: str, mark: Mark | None, **own_options: str) -> Result:
    size = stage.value_bytes(backlog)

    def builtin() -> float:
        return sum(drain(stream(stage, BUILTIN, backlog.topic), backlog.records))

    def ours() -> float:
        return sum(drain(stream(stage, OURS, backlog.topic, **own_options), backlog.records))

    seconds = pairs(builtin, ours, stage.sizes.pairs, stage.sizes.warm_up)
    return Result(
        work,
        throughput(seconds.beside, backlog.records, size),
        throughput(seconds.ours, backlog.records, size),
        seconds.speed,
        mark=mark,
    )


if __name__ == "__main__":
    run([measure])
