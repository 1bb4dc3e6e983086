"""Measures ``flip27_files`` beside Spark's own file source: speed, planning of many files, a shuffled history.

``python -m benchmarks.files``
"""

from __future__ import annotations

import collections
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.backlog import JSON_SCHEMA, START_MS, json_values
from benchmarks.support.command import run
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.metered import Metered, cpu_a_row
from benchmarks.support.results import Result, Target, at_least, at_most
from benchmarks.support.streams import drain
from benchmarks.support.turns import pairs, speeds
from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.files import FileSource
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from offsets import INITIAL
from watermark_alignment.options import AlignmentOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OURS = "flip27_files"
_FILES = 8
_ROW_GROUPS = 4
_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000
_ROWS_A_DAY = 1440
_UNLIMITED = 2**63 - 1


def measure(environment: Environment) -> Iterator[Result]:
    with temporary_folder() as folder:
        root = Path(folder)
        yield from _reading(environment, root / "parquet", "parquet", at_least(1.0))
        yield from _reading(environment, root / "json", "json", at_least(1.2))
        yield from _planning(environment, root / "many", aligned=False)
        yield from _planning(environment, root / "many", aligned=True)
        yield from _history(environment, root)


# ---- speed


def _reading(environment: Environment, folder: Path, form: str, target: Target) -> Iterator[Result]:
    """Measures the reading of files into the noop sink in one batch that takes seconds."""
    each = environment.sizes.records // _FILES
    rows = each * _FILES * _ROW_GROUPS
    folder.mkdir()
    for number in range(_FILES):
        _write_events(folder / f"{number}.{form}", each, number, form)
    size = sum(path.stat().st_size for path in folder.iterdir())
    schema = f"{JSON_SCHEMA}, time timestamp" if form == "parquet" else JSON_SCHEMA

    def builtin() -> float:
        return sum(drain(environment.spark.readStream.schema(schema).format(form).load(str(folder)), rows))

    def ours() -> float:
        reader = environment.spark.readStream.schema(schema).format(OURS).option("files.format", form)
        return sum(drain(reader.load(str(folder)), rows))

    beside, own = Metered(builtin), Metered(ours)
    seconds = pairs(beside, own, environment.sizes.pairs, environment.sizes.warm_up)
    yield speeds(f"{form} files", rows, size, seconds, target)
    yield cpu_a_row(f"{form} files", rows, beside, own, environment.sizes.pairs)


def _write_events(path: Path, rows: int, seed: int, form: str) -> None:
    values = json_values(rows, seed)
    if form == "json":
        path.write_bytes(b"".join(value.as_py() + b"\n" for value in values) * _ROW_GROUPS)
        return
    random = np.random.default_rng(seed)
    times = START_MS + np.arange(rows, dtype=np.int64)
    columns = {
        "id": np.arange(rows, dtype=np.int64),
        "user": [f"user-{n}" for n in random.integers(0, 100_000, rows).tolist()],
        "page": [f"/products/{n}" for n in random.integers(0, 1000, rows).tolist()],
        "country": random.choice(["de", "fr", "in", "jp", "ke", "us"], rows),
        "cents": random.integers(0, 1_000_000, rows),
        "share": random.random(rows),
        "time": pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
    }
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(_ROW_GROUPS):
            writer.write_table(table)


# ---- planning


def _planning(environment: Environment, folder: Path, *, aligned: bool) -> Iterator[Result]:
    """Measures the planning of a folder with many small files, without Spark.

    A plan takes a thousand files, which are read before the next plan.
    """
    count = environment.sizes.files
    if not folder.exists():
        _write_many(folder, count)
    seconds, largest = [], 0
    with temporary_folder() as table:
        spec = _spec({"path": str(folder)}, table if aligned else None)
        coordinator = SourceCoordinator(spec)
        offset: dict[str, Any] = dict(INITIAL)
        for _ in range(2 + environment.sizes.batches):
            start, began = offset, time.perf_counter()
            offset = coordinator.latest_offset(start, _UNLIMITED)
            seconds.append(time.perf_counter() - began)
            largest = max(largest, len(json.dumps(offset)))
            for task in coordinator.tasks(start, offset):
                collections.deque(read_task(spec, task), maxlen=0)
        coordinator.close()
    work = f"planning {count:,} Parquet files{', in event-time order' if aligned else ''}"
    yield Result(f"{work}: first plan", "", "", seconds[:1], "s", at_most(10))
    later = [1000 * one for one in seconds[1:]]
    yield Result(f"{work}: later plans", "", "", later, "ms", at_most(200))
    yield Result(f"{work}: offset", "", "", [largest / 1000], "kB")


def _write_many(folder: Path, count: int) -> None:
    """Writes a few files under many names, since their contents do not matter here."""
    folder.mkdir()
    kinds = 100
    for number in range(min(count, kinds)):
        times = START_MS + number * _HOUR_MS + np.arange(10, dtype=np.int64)
        columns = {"time": pa.array(times, pa.timestamp("ms", "UTC")), "id": np.arange(10)}
        pq.write_table(pa.table(columns), folder / f"{number:06}.parquet")
    for number in range(kinds, count):
        os.link(folder / f"{number % kinds:06}.parquet", folder / f"{number:06}.parquet")


def _spec(options: dict[str, str], table: str | None) -> SourceSpec:
    strategy, alignment = WatermarkStrategy.for_monotonous_timestamps(), None
    schema = FileSource(options).schema
    if table is not None:
        alignment = AlignmentOptions.parse(_alignment(table))
        assert alignment is not None
        assigner = timestamp_assigner("time", schema)
        strategy = strategy.with_timestamp_assigner(assigner).with_watermark_alignment(
            alignment.group, alignment.max_drift_ms
        )
    return SourceSpec(FileSource(options, strategy, schema=schema), strategy, alignment, Driver())


def _alignment(table: str) -> dict[str, str]:
    return {
        "scan.watermark.alignment.group": "benchmark",
        "scan.watermark.alignment.max-drift": "30 minutes",
        "scan.watermark.alignment.table": table,
        "scan.watermark.event-time": "time",
    }


# ---- history


@dataclass(frozen=True)
class Told:
    """The measurements of the reading of a history."""

    seconds: float
    rows: int
    state_rows: int


def _history(environment: Environment, root: Path) -> Iterator[Result]:
    """Measures the reading of daily files in shuffled order, counted by hour and user.

    The built-in source runs with a short delay and with a delay that loses no row, ours with the short delay.
    """
    days = environment.sizes.days
    folder = root / "history"
    folder.mkdir()
    for name, day in enumerate(np.random.default_rng(7).permutation(days).tolist()):
        _write_day(folder / f"{name:04}.parquet", day)
    rows = days * _ROWS_A_DAY
    spark = environment.spark
    per_batch = max(days // 18, 1)
    schema = "time timestamp, user string"
    builtin = spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch).parquet(str(folder))
    ours = (
        spark.readStream.format(OURS)
        .schema(schema)
        .options(maxFilesPerTrigger=per_batch, **_alignment(str(root / "table")))
        .load(str(folder))
    )
    short = _count(builtin, "2 hours")
    whole = _count(builtin, f"{days} days")
    own = _count(ours, "2 hours")
    work = f"{days} shuffled days through windows"
    yield Result(
        f"{work}: rows kept",
        f"{short.rows:,} of {rows:,}",
        f"{own.rows:,}",
        [100 * own.rows / rows],
        "%",
        at_least(100),
    )
    yield Result(
        f"{work}: most state, beside a delay that loses none",
        f"{whole.state_rows:,}",
        f"{own.state_rows:,}",
        [own.state_rows],
        "rows",
    )
    yield Result(
        f"{work}: time, beside a short delay that loses rows",
        f"{short.seconds:.1f} s",
        f"{own.seconds:.1f} s",
        [short.seconds / own.seconds],
    )
    yield Result(
        f"{work}: time, beside a delay that loses none",
        f"{whole.seconds:.1f} s",
        f"{own.seconds:.1f} s",
        [whole.seconds / own.seconds],
    )


def _write_day(path: Path, day: int) -> None:
    step = _DAY_MS // _ROWS_A_DAY
    times = START_MS // _DAY_MS * _DAY_MS + day * _DAY_MS + np.arange(_ROWS_A_DAY, dtype=np.int64) * step
    users = np.random.default_rng(day).integers(0, 20, _ROWS_A_DAY).tolist()
    columns = {
        "time": pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        "user": [f"user-{user}" for user in users],
    }
    pq.write_table(pa.table(columns), path, row_group_size=_ROWS_A_DAY // 24)


def _count(stream: DataFrame, delay: str) -> Told:
    """Returns the time, the number of rows in all windows, and the most rows of state.

    A row dropped as late is in no window.
    """
    from pyspark.sql.functions import count, window

    counted: dict[Any, int] = {}

    def take_in(batch: DataFrame, number: int) -> None:
        counted.update({(row[0], row[1]): row[2] for row in batch.collect()})

    windows = stream.withWatermark("time", delay).groupBy(window("time", "1 hour"), "user").agg(count("*"))
    began = time.perf_counter()
    with temporary_folder() as checkpoint:
        writer = windows.writeStream.outputMode("update").foreachBatch(take_in)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        state = max(p.stateOperators[0].numRowsTotal for p in query.recentProgress if p.stateOperators)
    return Told(time.perf_counter() - began, sum(counted.values()), state)


if __name__ == "__main__":
    run([measure])
