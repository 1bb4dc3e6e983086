"""The stream reader: Spark's calls, handed on to the coordinator."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from flip27_stream.spark.execution.task import SplitTask, read_task
from flip27_stream.spark.planning.rate_limit import UNLIMITED
from flip27_stream.spark.source_spec import SourceSpec
from offsets import INITIAL

if TYPE_CHECKING:
    from flip27_stream.spark.planning.coordinator import SourceCoordinator


_PARENT = os.getppid()
_REASON_S, _LOOK_S = 1.0, 0.02


class TaskPartition(InputPartition):
    """Carries a task to an executor."""

    def __init__(self, task: SplitTask) -> None:
        super().__init__(task)


class Flip27StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Runs twice: in the planning process, where a coordinator lives behind it, and, pickled, in tasks.

    Nothing set here in one of the two reaches the other. The coordinator is loaded where it lives: a process that only
    tells the schema, or runs tasks, does without it and its clients.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._coordinator: SourceCoordinator | None = None

    def initialOffset(self) -> dict[str, Any]:
        """A constant: Spark does not log it, so it must not depend on anything."""
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Spark takes one limit, and Trigger.Once replaces it: any other than "all" stands for those of the options.

        Aligned, it is never "all", so that Trigger.Once can be told from other triggers.
        """
        limits = self._spec.limits
        if self._spec.alignment is None and {
            limits.max_rows,
            limits.min_rows,
            limits.max_files,
            limits.max_bytes,
        } == {None}:
            return ReadAllAvailable()
        return ReadMaxRows(UNLIMITED if limits.max_rows is None else limits.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._planning().prepare_available_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planning().latest_offset(
            start, limit.max_rows if isinstance(limit, ReadMaxRows) else None
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planning().report_latest_offset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [TaskPartition(task) for task in self._planning().tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._spec, partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has logged this offset and runs a batch. That all before it is processed, the start of the next plan
        says sooner."""
        self._planning().committed(end)

    def stop(self) -> None:
        if self._coordinator is not None:
            if threading.current_thread() is threading.main_thread():
                _learn_why()
            self._coordinator.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_coordinator": None}

    def _planning(self) -> SourceCoordinator:
        if self._coordinator is None:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _stop_once)
                # The signal may come when Spark's loop has ended, before its call of stop.
                atexit.register(self.stop)
            from flip27_stream.spark.planning.coordinator import SourceCoordinator

            self._coordinator = SourceCoordinator(self._spec)
        return self._coordinator


_told = threading.Event()


def _stop_once(signum: int, frame: object) -> None:
    """Spark ends this process with SIGTERM, twice, and never calls ``stop`` first."""
    _told.set()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(0)


def _learn_why() -> None:
    """Wait until it is known whether Spark ends this process or has died itself.

    The socket ends in both cases, before the signal or before this process has another parent. A source that is stopped
    leaves its group; one whose Spark has died does not.
    """
    signal.signal(signal.SIGTERM, lambda signum, frame: _told.set())
    deadline = time.monotonic() + _REASON_S
    while not _told.is_set() and os.getppid() == _PARENT and time.monotonic() < deadline:
        _told.wait(_LOOK_S)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
