"""Runs benchmarks one after the other, and prints one table."""

from __future__ import annotations

from benchmarks import (
    ceiling,
    columns,
    files,
    layers,
    memory,
    read_speed,
    record_shapes,
    small_batches,
    start,
)
from benchmarks.planning import cpu, group, latest_offset, with_broker
from benchmarks.support.command import run

ALL = (
    read_speed.measure,
    record_shapes.measure,
    columns.measure,
    ceiling.measure,
    small_batches.measure,
    start.measure,
    with_broker.measure,
    latest_offset.measure,
    cpu.measure,
    group.measure,
    memory.measure,
    files.measure,
    layers.measure,
)

if __name__ == "__main__":
    run(ALL)
