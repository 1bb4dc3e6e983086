"""The stream reader (``spark.readStream``): passes Spark's calls on to the coordinator."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from flip27_stream.errors import Flip27Error
from flip27_stream.spark.execution.task import SplitTask, read_task
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.spark.planning.planning_modules import import_planning_modules
from flip27_stream.spark.source_spec import SourceSpec
from offsets import INITIAL

if TYPE_CHECKING:
    from flip27_stream.spark.planning.coordinator import SourceCoordinator


_PARENT = os.getppid()
_REASON_S, _LOOK_S = 1.0, 0.02

_END_S = 60
"""The time (s) after SIGTERM after which the process ends even if it still waits. Spark sends no further signal."""


log = logging.getLogger(__name__)


class TaskPartition(InputPartition):
    """Spark's input partition for one task. Spark sends it, with the ranges that the task reads, to an executor."""

    def __init__(self, task: SplitTask) -> None:
        super().__init__(task)


Method = TypeVar("Method", bound=Callable[..., Any])


def _short(method: Method) -> Method:
    """Returns ``method`` so that it raises errors of this project without a traceback; the log has the traceback.

    Spark shows the traceback before the message of an error, so that users would find the message only after a page.

    If SIGTERM came, the method ends the process, also where the exception of the signal handler went no further, as in
    a task of kafka-python's event loop.
    """

    @functools.wraps(method)
    def called(*arguments: Any) -> Any:
        try:
            result = method(*arguments)
        except Flip27Error as error:
            log.debug("%s failed", method.__name__, exc_info=True)
            failed = error
        else:
            _end_if_terminated()
            return result
        _end_if_terminated()
        raise failed.with_traceback(None) from None

    return cast(Method, called)


class Flip27StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one source of one query. It runs in the planning process, and pickled copies of it run in tasks.

    A copy does not see changes of another copy. Only the planning process imports and creates the coordinator; a
    process that returns the schema or runs tasks loads neither the coordinator nor its clients.

    Args:
        spec: The source, its event time and the options of alignment.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._coordinator: SourceCoordinator | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Returns a constant. Spark does not log this offset, so it must not depend on anything."""
        return dict(INITIAL)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns "all" if the source has no limits, otherwise a number of rows.

        Spark has one limit only, and ``Trigger.Once`` replaces it by "all". The number stands for all limits of the
        options. An aligned source never returns "all", so that the coordinator can recognize ``Trigger.Once``.

        Spark calls this in the planning process only, as it starts the query. So the modules of the first plan are
        imported here, and not while the first micro-batch waits for its plan.
        """
        import_planning_modules(self._spec)
        limits = self._spec.limits
        if self._spec.alignment is None and {
            limits.max_rows,
            limits.min_rows,
            limits.max_files,
            limits.max_bytes,
        } == {None}:
            return ReadAllAvailable()
        return ReadMaxRows(UNLIMITED if limits.max_rows is None else limits.max_rows)

    @_short
    def prepareForTriggerAvailableNow(self) -> None:
        self._planning().prepare_available_now()

    @_short
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._planning().latest_offset(
            start, limit.max_rows if isinstance(limit, ReadMaxRows) else None
        )

    @_short
    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._planning().report_latest_offset()

    @_short
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [TaskPartition(task) for task in self._planning().tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(self._spec, partition.value)

    @_short
    def commit(self, end: dict[str, Any]) -> None:
        """Records that Spark has logged this offset and runs a batch.

        This call does not show that the batch is processed. The start offset of the next plan shows that.
        """
        self._planning().committed(end)

    def stop(self) -> None:
        if self._coordinator is not None:
            if threading.current_thread() is threading.main_thread():
                _wait_for_cause()
            self._coordinator.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_coordinator": None}

    def _planning(self) -> SourceCoordinator:
        if self._coordinator is None:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, _stop_once)
                # The signal may come after Spark's loop has ended and before it calls stop.
                atexit.register(self.stop)
            import_planning_modules(self._spec)
            from flip27_stream.spark.planning.coordinator import SourceCoordinator

            self._coordinator = SourceCoordinator(self._spec)
        return self._coordinator


_terminated = False
"""Whether SIGTERM came. Not a ``threading.Event``: a second signal inside its lock would be a deadlock."""


def _stop_once(signum: int, frame: object) -> None:
    """Handles SIGTERM, with which Spark ends this process: Spark sends it twice, and does not call ``stop`` before."""
    _note_signal(signum, frame)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.alarm(_END_S)
    raise SystemExit(0)


def _end_if_terminated() -> None:
    if _terminated:
        raise SystemExit(0)


def _note_signal(signum: int, frame: object) -> None:
    global _terminated
    _terminated = True


def _wait_for_cause() -> None:
    """Waits, 1 s at most, until it is clear whether Spark ends this process or has died itself.

    In both cases the socket ends first; then SIGTERM comes, or this process gets another parent. A source that is
    stopped leaves its group; a source whose Spark has died does not.
    """
    signal.signal(signal.SIGTERM, _note_signal)
    deadline = time.monotonic() + _REASON_S
    while not _terminated and os.getppid() == _PARENT and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
