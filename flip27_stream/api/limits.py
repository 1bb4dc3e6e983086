"""The read limits of a micro-batch and of its tasks."""

from __future__ import annotations

from dataclasses import dataclass

_FIFTEEN_MINUTES_MS = 900_000


@dataclass(frozen=True)
class ReadLimits:
    """The read limits of a source; ``None`` for no limit.

    Rows are counted in positions, or estimated by a source whose positions do not count rows
    (:attr:`~flip27_stream.api.SplitRange.rows`).

    Attributes:
        max_rows: The greatest number of rows of a batch (Spark ``maxOffsetsPerTrigger``). A source whose positions are
            not rows leaves it out, and limits in :meth:`SplitEnumerator.admit` what it assigns.
        min_rows: A batch waits until there are so many rows (``minOffsetsPerTrigger``), or for
            ``max_trigger_delay_ms``.
        max_trigger_delay_ms: The longest wait (ms) for ``min_rows`` since the last batch (``maxTriggerDelay``).
        min_tasks: The least number of tasks of a batch, about, divided by size (``minPartitions``).
        max_rows_per_task: The greatest number of rows of a task (``maxRecordsPerPartition``).
        divide: Whether several tasks read a split that is larger than the share of one task.
        max_files: How many files a batch begins to read at most (``maxFilesPerTrigger``); the enumerator applies it.
        max_bytes: How many bytes a batch reads, about (``maxBytesPerTrigger``); the enumerator applies it.
        rows_worth_a_task: How many rows justify a task of their own. A batch has one task for each so many rows, and no
            more tasks than can run at the same time; ``min_tasks`` asks for more.
    """

    max_rows: int | None = None
    min_rows: int | None = None
    max_trigger_delay_ms: int = _FIFTEEN_MINUTES_MS
    min_tasks: int | None = None
    max_rows_per_task: int | None = None
    divide: bool = False
    max_files: int | None = None
    max_bytes: int | None = None
    rows_worth_a_task: int = 1
