"""How much a micro-batch and each of its tasks may read."""

from __future__ import annotations

from dataclasses import dataclass

_FIFTEEN_MINUTES_MS = 900_000


@dataclass(frozen=True)
class ReadLimits:
    """The limits of a source; ``None`` for no limit.

    Rows are counted in positions, or estimated by a source whose positions do not count rows
    (:attr:`~flip27_stream.api.SplitRange.rows`).

    Attributes:
        max_rows: a batch has no more (Spark ``maxOffsetsPerTrigger``). A source that limits by itself what it offers
            (:meth:`SplitEnumerator.admit`), and whose positions are no rows, leaves it out.
        min_rows: a batch waits until there are so many (``minOffsetsPerTrigger``) ...
        max_trigger_delay_ms: ... or so long has passed since the last one (``maxTriggerDelay``).
        min_tasks: a batch is divided into at least about so many tasks, by size (``minPartitions``).
        max_rows_per_task: a task reads no more (``maxRecordsPerPartition``).
        divide: splits that are larger than a task's fair share of a batch are read by several tasks.
        max_files: a batch begins no more files (``maxFilesPerTrigger``) ...
        max_bytes: ... and reads about so many bytes (``maxBytesPerTrigger``). These two are kept by the enumerator.
    """

    max_rows: int | None = None
    min_rows: int | None = None
    max_trigger_delay_ms: int = _FIFTEEN_MINUTES_MS
    min_tasks: int | None = None
    max_rows_per_task: int | None = None
    divide: bool = False
    max_files: int | None = None
    max_bytes: int | None = None
