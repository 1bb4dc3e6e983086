"""How much a micro-batch and each of its tasks may read."""

from __future__ import annotations

from dataclasses import dataclass

_FIFTEEN_MINUTES_MS = 900_000


@dataclass(frozen=True)
class ReadLimits:
    """The limits of a source; ``None`` for no limit. Rows are counted in positions.

    Attributes:
        max_rows: a batch has no more (Spark ``maxOffsetsPerTrigger``).
        min_rows: a batch waits until there are so many (``minOffsetsPerTrigger``) ...
        max_trigger_delay_ms: ... or so long has passed since the last one (``maxTriggerDelay``).
        min_tasks: a batch is divided into at least about so many tasks, by size (``minPartitions``).
        max_rows_per_task: a task reads no more (``maxRecordsPerPartition``).
    """

    max_rows: int | None = None
    min_rows: int | None = None
    max_trigger_delay_ms: int = _FIFTEEN_MINUTES_MS
    min_tasks: int | None = None
    max_rows_per_task: int | None = None
