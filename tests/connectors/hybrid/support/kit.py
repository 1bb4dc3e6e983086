"""Hybrid sources over logs in memory, and a query that drives their coordinator as Spark does. No JVM."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from flip27_stream.api import (
    Boundedness,
    Source,
    SplitEnumeratorContext,
    SplitRange,
    WatermarkStrategy,
)
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.execution.task import SplitTask, read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from flip27_stream.testing import ManualClock
from offsets import INITIAL
from tests.spark.support.sources.memory_source import MemoryEnumerator, MemorySource, MemorySplit, MemoryWorld
from watermark_alignment.options import AlignmentOptions

NOW = 1_000_000
SOME = 2**63 - 1

Row = tuple[str, int | None]
Logs = dict[str, list[int | None]]
OLD: Logs = {"old": [100, 110, 120], "older": [90, 95]}
NEW: Logs = {"a": [115, 120, 121, 130], "b": [122]}
SEAM: list[Row] = [*sorted((n, t) for n in OLD for t in OLD[n]), ("a", 121), ("a", 130), ("b", 122)]
"""The rows of ``OLD``, and then those rows of ``NEW`` whose event times are after all of ``OLD``."""


def history(name: str, logs: Mapping[str, list[int | None]], **more: Any) -> MemorySource:
    """A bounded source that ends where its logs end."""
    world = MemoryWorld(dict(logs), finished=set(logs))
    return MemorySource(world, Boundedness.BOUNDED, fingerprint=name, **more)


def live(name: str, logs: Mapping[str, list[int | None]], **more: Any) -> MemorySource:
    return MemorySource(MemoryWorld(dict(logs)), fingerprint=name, **more)


class TimedEnumerator(MemoryEnumerator):
    """Begins at the first record of each log at or after a time."""

    def __init__(
        self, world: MemoryWorld, context: SplitEnumeratorContext[MemorySplit], assigned: int, start_ms: int
    ) -> None:
        super().__init__(world, context, assigned)
        self._start_ms = start_ms

    def split_ranges(self, positions: Mapping[MemorySplit, int | None]) -> Mapping[str, SplitRange]:
        known = {s: self._first(s.name) if p is None else p for s, p in positions.items()}
        return super().split_ranges(known)

    def _first(self, name: str) -> int:
        log = self.world.logs[name]
        return next((i for i, t in enumerate(log) if t is not None and t >= self._start_ms), len(log))


@dataclass
class TimedSource(MemorySource):
    """Reads its logs from a time (ms) on, as a Kafka source with ``startingTimestamp`` does."""

    start_ms: int = 0

    def create_enumerator(self, context: SplitEnumeratorContext[MemorySplit]) -> TimedEnumerator:
        return TimedEnumerator(self.world, context, 0, self.start_ms)

    def restore_enumerator(
        self, context: SplitEnumeratorContext[MemorySplit], checkpoint: int
    ) -> TimedEnumerator:
        return TimedEnumerator(self.world, context, checkpoint, self.start_ms)


@dataclass
class NotingFactory:
    """A factory of a source that begins at the switch's start time. It keeps the contexts that it was called with.

    Factories are called on the driver only: the copy that tasks get fails if it is called.
    """

    logs: dict[str, list[int | None]]
    boundedness: Boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    calls: list[SourceSwitchContext] = field(default_factory=list)
    is_on_driver: bool = field(default=True, init=False)
    world: MemoryWorld = field(init=False)

    def __post_init__(self) -> None:
        bounded = self.boundedness is Boundedness.BOUNDED
        self.world = MemoryWorld(dict(self.logs), finished=set(self.logs) if bounded else set())

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"calls": [], "is_on_driver": False}

    def __call__(self, switch: SourceSwitchContext) -> Source[Any, Any]:
        assert self.is_on_driver, "a task calls a factory"
        self.calls.append(switch)
        return TimedSource(self.world, self.boundedness, "made", start_ms=switch.start_time_ms)


class HybridQuery:
    """A query over a hybrid source without Spark. Its offsets go through JSON, as in Spark's log; tasks are pickled.

    Args:
        source: Makes the source that is read. Each restart calls it again, as another process would.
        table: Path of the split-watermark table of an aligned query; ``None`` for a query without alignment.
        available_now: Whether each run ends at the ends of logs that it finds when it begins.
        drift_ms: How far (ms) splits of an aligned query may be ahead of each other.
        options: Further options of alignment.

    Attributes:
        start, offset: Where the last batch began, and where it ended.
    """

    def __init__(
        self,
        source: Callable[[], HybridSource],
        table: Path | None = None,
        *,
        available_now: bool = False,
        drift_ms: int = 10,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._source = source
        self._table = table
        self._available_now = available_now
        self._drift_ms = drift_ms
        self._options = options or {}
        self._announced = False
        self.clock = ManualClock(NOW)
        self.start: dict[str, Any] = dict(INITIAL)
        self.offset: dict[str, Any] = dict(INITIAL)
        self.offsets: list[dict[str, Any]] = []
        self.rows: list[Row] = []
        self.coordinator = self._coordinator()

    def restart(self) -> None:
        """Closes the coordinator and makes a new one, as another process would."""
        self.coordinator.close()
        self._announced = False
        self.coordinator = self._coordinator()

    def _coordinator(self) -> SourceCoordinator:
        alignment = None
        if self._table is not None:
            alignment = AlignmentOptions.parse(
                {
                    "scan.watermark.alignment.group": "g",
                    "scan.watermark.alignment.max-drift": f"{self._drift_ms} ms",
                    "scan.watermark.alignment.table": str(self._table),
                    "scan.watermark.max-future": "0",
                    **self._options,
                }
            )
        self.source = self._source()
        assigner = timestamp_assigner("event_time", self.source.schema, record_timestamp_column="event_time")
        strategy = WatermarkStrategy(timestamp_assigner=assigner)
        self.spec = SourceSpec(self.source, strategy, alignment, Driver(parallelism=2))
        coordinator = SourceCoordinator(self.spec, self.clock, greatest_pause_s=0)
        if self._available_now:
            coordinator.prepare_available_now()
        return coordinator

    def plan(self, limit: int | None = SOME) -> dict[str, Any] | None:
        """Returns the end of the next batch, or ``None`` if Spark would run no batch. The batch is neither run nor
        logged.

        The first batch of an aligned query may have no rows and only announce the query to its group. That batch
        counts as run, and the end of the batch after it is returned.
        """
        announces = self._table is not None and limit is not None and not self._announced
        self._announced = True
        end = self._plan(limit)
        if not announces or end is None or self.read(self.offset, end):
            return end
        self.offset = end
        return self._plan(limit)

    def _plan(self, limit: int | None) -> dict[str, Any] | None:
        end = self.coordinator.latest_offset(self.offset, limit)
        return None if end is self.offset else json.loads(json.dumps(end))

    def step(self, limit: int | None = SOME) -> list[Row] | None:
        """Runs one micro-batch and returns its rows; ``None`` if there is nothing to run."""
        end = self.plan(limit)
        if end is None:
            return None
        self.start, self.offset = self.offset, end
        rows = self.read(self.start, end)
        self.offsets.append(end)
        self.rows += rows
        return rows

    def run(self, limit: int | None = SOME) -> list[Row]:
        """Runs micro-batches until there is nothing more, and returns their rows."""
        before = len(self.rows)
        while self.step(limit) is not None:
            assert len(self.offsets) < 500, f"empty batches for ever: {self.offsets[-2:]}"
        return self.rows[before:]

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
        spec, tasks = _copy((self.spec, self.coordinator.tasks(start, end)))
        batches = [batch for task in tasks for batch in read_task(spec, task)]
        assert all(batch.schema == self.source.schema for batch in batches)
        rows = ((row["split"], row["event_time"]) for b in batches for row in b.to_pylist())
        return sorted(rows, key=lambda row: (row[0], row[1] is not None, row[1]))

    @property
    def index(self) -> int:
        """The index of the source that the last offset is in."""
        return int(self.offset["enumerator"][1]["index"])


def _copy(value: tuple[SourceSpec, list[SplitTask]]) -> tuple[SourceSpec, list[SplitTask]]:
    """Returns a copy that was pickled, as it arrives in another process. Spark pickles functions, too."""
    copied: tuple[SourceSpec, list[SplitTask]] = pickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
    return copied


def two(make: NotingFactory) -> Callable[[], HybridSource]:
    """Returns a function that makes a hybrid source of ``OLD`` and of the source that ``make`` makes."""
    return lambda: HybridSource.builder(history("old", OLD), event_time="event_time").add_source(make).build()


def table(tmp_path: Path, aligned: bool) -> Path | None:
    """Returns the path of the table of an aligned query; ``None`` without alignment."""
    return tmp_path / "table" if aligned else None
