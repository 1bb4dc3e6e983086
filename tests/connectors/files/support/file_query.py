"""A query over real files, planned and read as Spark does it, without a JVM."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.event_time.assigners import timestamp_assigner
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.source_spec import Driver, SourceSpec
from offsets import INITIAL
from watermark_alignment.options import AlignmentOptions

UNLIMITED = 2**63 - 1
SECOND = 1000

Piece = tuple[str, int, int]
"""The name of a file, the first position, and the position after the last."""


def write(
    path: Path,
    first_ms: int,
    rows: int = 100,
    *,
    step_ms: int = SECOND,
    group: int = 30,
    ids: int = 0,
    statistics: bool = True,
) -> None:
    """Writes a Parquet file that appears complete, with ``ts`` from ``first_ms`` on and ``id`` from ``ids`` on."""
    times = pa.array(first_ms + step_ms * np.arange(rows), pa.timestamp("ms", "UTC"))
    columns = {"ts": times.cast(pa.timestamp("us", "UTC")), "id": np.arange(ids, ids + rows)}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    pq.write_table(pa.table(columns), unfinished, row_group_size=group, write_statistics=statistics)
    unfinished.replace(path)


class FileQuery:
    """A query that plans and reads batches, and can be restarted from the last offset.

    Args:
        options: The options of the file source.
        max_drift: The maximum drift of alignment by column ``ts``; without it the query is not aligned.
        knows_strategy: Whether the source gets the strategy when it is built, as the format does it.
        available_now: Whether the trigger is ``AvailableNow``.

    Attributes:
        tables: The folder for split-watermark tables. A fixture sets it.
    """

    tables: ClassVar[Path]

    def __init__(
        self,
        options: Mapping[str, str],
        *,
        max_drift: str | None = None,
        knows_strategy: bool = True,
        available_now: bool = True,
        schema: pa.Schema | None = None,
    ) -> None:
        self._options = options
        self._max_drift = max_drift
        self._knows_strategy = knows_strategy
        self._available_now = available_now
        self._schema = schema
        self._table = tempfile.mkdtemp(dir=self.tables)
        self._announced = False
        self.offset: dict[str, Any] = dict(INITIAL)
        self.rows: list[dict[str, Any]] = []
        self.coordinator = self._start()

    def _start(self) -> SourceCoordinator:
        schema = self._schema or FileSource(self._options).schema
        strategy, alignment = WatermarkStrategy.for_monotonous_timestamps(), None
        if self._max_drift is not None:
            alignment = AlignmentOptions.parse(
                {
                    "scan.watermark.alignment.group": "g",
                    "scan.watermark.alignment.max-drift": self._max_drift,
                    "scan.watermark.alignment.table": self._table,
                    "scan.watermark.event-time": "ts",
                }
            )
            assert alignment is not None
            strategy = strategy.with_timestamp_assigner(
                timestamp_assigner("ts", schema)
            ).with_watermark_alignment("g", alignment.max_drift_ms)
        source = FileSource(
            self._options,
            strategy if self._knows_strategy else None,
            schema=schema,
            inferred=self._schema is None,
        )
        self._spec = SourceSpec(source, strategy, alignment, Driver())
        coordinator = SourceCoordinator(self._spec, greatest_pause_s=0)
        if self._available_now:
            coordinator.prepare_available_now()
        return coordinator

    def restart(self) -> None:
        self.coordinator.close()
        self._announced = False
        self.coordinator = self._start()

    def step(self, limit: int | None = UNLIMITED) -> list[Piece] | None:
        """Plans and reads one batch, and returns its pieces; ``None`` if there is nothing to do.

        The first batch of an aligned run may have no rows and only announce the run. Then the next one is read, too.
        """
        announces = self._max_drift is not None and limit is not None and not self._announced
        self._announced = True
        pieces = self._step(limit)
        return self._step(limit) if announces and pieces == [] else pieces

    def _step(self, limit: int | None) -> list[Piece] | None:
        end = self.coordinator.latest_offset(self.offset, limit)
        if end == self.offset:
            return None
        tasks = self.coordinator.tasks(self.offset, end)
        for task in tasks:
            # Tasks send no reports: no test here needs them, and they take most of the time.
            for batch in read_task(self._spec, replace(task, report_to=None)):
                self.rows += batch.to_pylist()
        self.offset = end
        ranges = [r for task in tasks for r in task.ranges]
        return sorted((Path(s.path).name, a, b) for s, a, b in ranges if isinstance(s, FileSplit))

    def run(self) -> list[list[Piece]]:
        """Runs batches until there is nothing to do, and returns the pieces of each batch that has rows."""
        batches = []
        while (pieces := self.step()) is not None:
            batches.append(pieces)
        return [pieces for pieces in batches if pieces]

    def ids(self) -> Counter[int]:
        return Counter(row["id"] for row in self.rows)

    @property
    def state(self) -> Any:
        return self.offset["enumerator"]

    @property
    def splits(self) -> list[str]:
        return list(self.offset["splits"])
