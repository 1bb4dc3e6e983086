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
        max_rows: The greatest number of rows of a batch (Spark ``maxOffsetsPerTrigger``). A source whose enumerator
            limits the rows of the splits that it assigns in :meth:`SplitEnumerator.admit` leaves it ``None``.
        min_rows: The number of rows that a batch waits for (``minOffsetsPerTrigger``), at most
            ``max_trigger_delay_ms``.
        max_trigger_delay_ms: The longest wait (ms) for ``min_rows`` since the last batch (``maxTriggerDelay``).
        min_tasks: The approximate least number of tasks of a batch; large splits get several (``minPartitions``).
        max_rows_per_task: The greatest number of rows of a task (``maxRecordsPerPartition``).
        divide: Whether several tasks read a split that is larger than the share of one task.
        max_files: The greatest number of files that a batch begins to read (``maxFilesPerTrigger``); the enumerator
            applies it.
        max_bytes: The approximate number of bytes that a batch reads (``maxBytesPerTrigger``); the enumerator applies
            it.
        rows_worth_a_task: The number of rows for which a batch gets one more task, until it has as many tasks as can
            run at the same time. ``min_tasks`` can add further tasks.
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
