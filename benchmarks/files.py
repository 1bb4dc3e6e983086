"""Measures ``flip27_files`` beside Spark's own file source: speed, planning of many files, a shuffled history.

Twice as many rounds of reading as in other benchmarks do not count, because the JVM goes on compiling for some eight
rounds.

``python -m benchmarks.files``
"""

from __future__ import annotations

import collections
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, orc

from benchmarks.ceiling import emitted
from benchmarks.support.backlog import JSON_SCHEMA, START_MS, json_values
from benchmarks.support.command import run
from benchmarks.support.constant_source import constant_source
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.metered import Metered, cpu_a_row
from benchmarks.support.results import Result, Target, at_least, at_most
from benchmarks.support.streams import drain
from benchmarks.support.turns import milliseconds, pairs, speeds
from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.files import FileSource, FileSourceFactory
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.data_source import data_source
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from offsets import INITIAL
from watermark_alignment.options import AlignmentOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS = "flip27_files"
_FILES = 8
_ROW_GROUPS = 4
_HOUR_MS = 3_600_000
_YEAR_MS = 365 * 24 * _HOUR_MS
_ROWS_OF_PART = 52
_BATCHES_A_YEAR = 18
_UNLIMITED = 2**63 - 1


def measure(environment: Environment) -> Iterator[Result]:
    with temporary_folder() as folder:
        root = Path(folder)
        for kind in _KINDS:
            yield from _reading(environment, root / kind.work, kind)
        yield from _planning(environment, root / "many", aligned=False)
        yield from _planning(environment, root / "many", aligned=True)
        yield from _year(environment, root)


# ---- speed


@dataclass(frozen=True)
class _Kind:
    """A kind of files that are read.

    Attributes:
        work: What is read.
        form: The format of the files.
        schema: The columns that are read.
        target: The limit that the speed has to meet; ``None`` for no limit.
        more: The number of columns that the files have besides those of events.
        share: The number of records of the run for each record of these files.
        options: The options of both sources.
        has_ceiling: Whether a source that only yields prepared Arrow batches is measured, too.
    """

    work: str
    form: str
    schema: str
    target: Target | None = None
    more: int = 0
    share: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    has_ceiling: bool = False


_KINDS = (
    _Kind("parquet files", "parquet", f"{JSON_SCHEMA}, time timestamp", at_least(1.0), has_ceiling=True),
    _Kind(
        "parquet files of 100 columns, 3 of them read",
        "parquet",
        "id bigint, user string, time timestamp",
        at_least(1.0),
        more=93,
        share=4,
    ),
    _Kind("orc files", "orc", f"{JSON_SCHEMA}, time timestamp"),
    _Kind("json files", "json", JSON_SCHEMA, at_least(1.2)),
    _Kind("csv files", "csv", f"{JSON_SCHEMA}, time timestamp", options={"header": "true"}),
)


def _reading(environment: Environment, folder: Path, kind: _Kind) -> Iterator[Result]:
    """Measures the reading of files into the noop sink in one batch that takes seconds."""
    each = max(1, environment.sizes.records // _FILES // kind.share)
    rows = each * _FILES * _ROW_GROUPS
    folder.mkdir()
    for number in range(_FILES):
        _write_events(folder / f"{number}.{kind.form}", each, number, kind)
    size = sum(path.stat().st_size for path in folder.iterdir())

    def read(name: str, **options: str) -> float:
        reader = environment.spark.readStream.schema(kind.schema).options(**kind.options, **options)
        return sum(drain(reader.format(name).load(str(folder)), rows))

    beside, own = Metered(lambda: read(kind.form)), Metered(lambda: read(OURS, **{"files.format": kind.form}))
    warm_up = 2 * environment.sizes.warm_up
    seconds = pairs(beside, own, environment.sizes.pairs, warm_up)
    yield speeds(kind.work, rows, size, seconds, kind.target)
    yield cpu_a_row(kind.work, rows, beside, own, environment.sizes.pairs)
    if kind.has_ceiling:
        with temporary_folder() as batches:
            _register_ceiling(environment.spark, folder, kind, Path(batches))
            ceiling = Metered(
                lambda: sum(drain(environment.spark.readStream.format("constant").load(), rows))
            )
            seconds = pairs(beside, ceiling, environment.sizes.pairs, warm_up)
            yield speeds(f"{kind.work}: the ceiling (constant batches)", rows, size, seconds)
            yield cpu_a_row(f"{kind.work}: the ceiling", rows, beside, ceiling, environment.sizes.pairs)


def _register_ceiling(spark: SparkSession, folder: Path, kind: _Kind, batches: Path) -> None:
    """Registers a source that only yields the Arrow batches that our reader makes of the files."""
    schema = spark.createDataFrame([], kind.schema).schema
    source = data_source(FileSourceFactory(), spark=spark)({"path": str(folder), "files.format": kind.form})
    reading = emitted(source.reader(schema))
    spark.dataSource.register(constant_source(reading.largest, reading.rows, batches))


def _write_events(path: Path, rows: int, seed: int, kind: _Kind) -> None:
    """Writes ``rows`` rows four times: row groups of Parquet, stripes of ORC, or lines."""
    if kind.form == "json":
        path.write_bytes(b"".join(value.as_py() + b"\n" for value in json_values(rows, seed)) * _ROW_GROUPS)
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
        **{f"more_{n}": random.integers(0, 1000, rows) for n in range(kind.more)},
    }
    table = pa.table(columns)
    if kind.form == "orc":
        orc.write_table(pa.concat_tables([table] * _ROW_GROUPS), path)
        return
    writer = csv.CSVWriter if kind.form == "csv" else pq.ParquetWriter
    with writer(path, table.schema) as file:
        for _ in range(_ROW_GROUPS):
            file.write_table(table)


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


# ---- a year


@dataclass(frozen=True)
class MeasuredYear:
    """The measurements of the reading of a year.

    Attributes:
        seconds: The time of the query (s).
        rows: The number of rows in all windows. A row dropped as late is in no window.
        state_rows: The greatest number of rows in the state.
        plans: The times of the plans (s).
    """

    seconds: float
    rows: int
    state_rows: int
    plans: Sequence[float]


def _year(environment: Environment, root: Path) -> Iterator[Result]:
    """Measures the reading of the files of a year in shuffled order, counted by hour and user.

    The built-in source runs with a short delay and with a delay that loses no row, ours with the short delay.
    """
    files = environment.sizes.year_files
    folder = root / "year"
    folder.mkdir()
    rows = files * _ROWS_OF_PART
    for name, part in enumerate(np.random.default_rng(7).permutation(files).tolist()):
        _write_part(folder / f"{name:06}.parquet", part, _YEAR_MS // rows)
    spark = environment.spark
    per_batch = max(files // _BATCHES_A_YEAR, 1)
    schema = "time timestamp, user string"
    builtin = spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch).parquet(str(folder))
    ours = (
        spark.readStream.format(OURS)
        .schema(schema)
        .options(maxFilesPerTrigger=per_batch, **_alignment(str(root / "table")))
        .load(str(folder))
    )
    short = _count(builtin, "2 hours")
    whole = _count(builtin, "366 days")
    own = _count(ours, "2 hours")
    return _compared(f"a year in {files:,} shuffled files", rows, short, whole, own)


def _compared(
    work: str, rows: int, short: MeasuredYear, whole: MeasuredYear, own: MeasuredYear
) -> Iterator[Result]:
    """Yields the results of a year.

    Args:
        work: What was read.
        rows: The number of its rows.
        short: The built-in source with the short delay.
        whole: The built-in source with the delay that loses no row.
        own: Our source with the short delay.
    """
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
        f"{work}: plans",
        milliseconds(short.plans),
        milliseconds(own.plans),
        [1000 * plan for plan in own.plans],
        "ms",
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


def _write_part(path: Path, part: int, step_ms: int) -> None:
    """Writes the rows of one part of the year, in two row groups."""
    numbers = part * _ROWS_OF_PART + np.arange(_ROWS_OF_PART, dtype=np.int64)
    times = pa.array(START_MS + step_ms * numbers, pa.timestamp("ms", "UTC"))
    users = [f"user-{number % 20}" for number in numbers.tolist()]
    columns = {"time": times.cast(pa.timestamp("us", "UTC")), "user": users}
    pq.write_table(pa.table(columns), path, row_group_size=_ROWS_OF_PART // 2)


def _count(stream: DataFrame, delay: str) -> MeasuredYear:
    """Counts the rows of windows of an hour and of users."""
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
        done = query.recentProgress
    state = max(p.stateOperators[0].numRowsTotal for p in done if p.stateOperators)
    plans = [p.durationMs["latestOffset"] / 1000 for p in done if "latestOffset" in p.durationMs]
    return MeasuredYear(time.perf_counter() - began, sum(counted.values()), state, plans)


if __name__ == "__main__":
    run([measure])
