"""A coordinator over a source in memory, with a driver that behaves like Spark. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flip27_stream.api import ReadLimits, RecordTimestampAssigner, WatermarkStrategy
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.planning.micro_batch.batch_planner import PlannedBatch
from flip27_stream.spark.source_spec import Driver, SourceSpec
from flip27_stream.testing import ManualClock
from offsets import INITIAL
from tests.spark.support.sources.memory_source import LogEnumerator, MemorySource, MemoryWorld
from watermark_alignment.options import AlignmentOptions
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

NOW = 1_000_000


class DrivenQuery:
    """Calls a coordinator as Spark does, and keeps what Spark would keep: the last offset and the rows."""

    def __init__(
        self,
        world: MemoryWorld,
        table: Path | None,
        limits: ReadLimits | None = None,
        *,
        options: Mapping[str, str] | None = None,
        source: MemorySource | None = None,
        parallelism: int = 2,
    ) -> None:
        self.world = world
        self.source = source or MemorySource(world, limits=limits or ReadLimits())
        self.parallelism = parallelism
        self.table = table
        self.options = options or {}
        self.clock = ManualClock(NOW)
        self.offset: dict[str, Any] = dict(INITIAL)
        self._announced = False
        self.batches: list[list[tuple[str, int | None]]] = []
        self.coordinator = self._coordinator()

    def _coordinator(self) -> SourceCoordinator:
        alignment = None
        if self.table is not None:
            given = {
                "scan.watermark.alignment.group": "g",
                "scan.watermark.alignment.max-drift": "10 ms",
                "scan.watermark.alignment.table": str(self.table),
                "scan.watermark.idle-timeout": "1 s",
                "scan.watermark.event-time": "timestamp",
            }
            alignment = AlignmentOptions.parse(
                given | {k.replace("_", "-"): v for k, v in self.options.items()}
            )
        strategy = WatermarkStrategy(
            timestamp_assigner=RecordTimestampAssigner(),
            max_out_of_orderness_ms=alignment.max_out_of_orderness_ms if alignment is not None else 0,
        )
        self.spec = SourceSpec(self.source, strategy, alignment, Driver(parallelism=self.parallelism))
        return SourceCoordinator(self.spec, self.clock, greatest_pause_s=0)

    def restart(self) -> None:
        self.coordinator.close()
        self._announced = False
        self.coordinator = self._coordinator()

    def discover(self) -> None:
        enumerator = self.coordinator._enumerator
        assert isinstance(enumerator, LogEnumerator)
        enumerator.discover()

    def step(self, limit: int | None = None) -> list[tuple[str, int | None]] | None:
        """Runs one micro-batch and returns its rows, or ``None`` if Spark would not run one.

        If the run has not announced itself to its group, the batch that only does this comes first. Without a limit the
        batch is planned as for ``Trigger.Once``.
        """
        announces = self.table is not None and limit is not None and not self._announced
        self._announced = True
        rows = self.batch(limit)
        if not announces or rows != []:
            return rows
        self.batches.pop()
        return self.batch(limit)

    def batch(self, limit: int | None = None) -> list[tuple[str, int | None]] | None:
        """Runs one micro-batch like :meth:`step`, but returns also the first one of a run, which reads nothing."""
        end = self.coordinator.latest_offset(self.offset, limit)
        if end is self.offset:
            return None
        start, self.offset = self.offset, end
        rows = self.run(start, end)
        self.batches.append(rows)
        return rows

    def run(self, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int | None]]:
        batches = [b for task in self.coordinator.tasks(start, end) for b in read_task(self.spec, task)]
        return sorted(
            (row["split"], row["event_time"] if row["event_time"] is not None else -1)
            for batch in batches
            for row in batch.to_pylist()
        )

    def rows(self) -> list[dict[str, Any]]:
        assert self.table is not None
        rows = SplitWatermarkTable(str(self.table), {}).rows()
        recorded: list[dict[str, Any]] = rows.sort_by(
            [("batch", "ascending"), ("split", "ascending")]
        ).to_pylist()
        return recorded


def states(query: DrivenQuery) -> dict[str, str]:
    """Returns the first letter of each split's state in a plan that is made now. The batch is not run."""
    planner = query.coordinator._planner
    plan_batch, found = planner.plan_batch, []

    def watched(*args: object) -> PlannedBatch:
        planned: PlannedBatch = plan_batch(*args)  # type: ignore[arg-type]
        found.append(planned)
        return planned

    planner.plan_batch = watched  # type: ignore[method-assign, assignment]
    query.coordinator.latest_offset(query.offset, None)
    planner.plan_batch = plan_batch  # type: ignore[method-assign]
    assert found[-1].plan is not None
    return {split: status[0] for split, status in found[-1].plan.states.items()}


def memory_query(enumerator: Callable[..., LogEnumerator] = LogEnumerator, **source: Any) -> DrivenQuery:
    """Returns a query over one split of three records, with another enumerator or other parts of the source."""
    world = MemoryWorld({"a": [1, 2, 3]})
    return DrivenQuery(world, None, source=MemorySource(world, enumerator=enumerator, **source))
