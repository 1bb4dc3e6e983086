"""The coordinator's side of its readers: where they report, what they sent, and what is sent to them.

A *registered reader* is a slot that lives as long as the query; the tasks of a micro-batch are numbered, and task
n runs as the reader n modulo the number of slots. See ``docs/readers.md``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection

from flip27_stream.api import SourceEvent
from flip27_stream.errors import ConnectorError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.spark.reporting.report_channel import ReportAddress, ReportListener
from flip27_stream.spark.reporting.reporting_splits import RangeKey, ReportCheck, Reporting
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.spark.source_spec import AnyEnumerator, Driver

log = logging.getLogger(__name__)

_LISTEN_AGAIN_MS = 10_000


class Readers:
    """Takes reports and hands on what is in them; keeps the events of the batch that is being run."""

    def __init__(self, driver: Driver, context: CoordinatorContext, clock: Callable[[], int]) -> None:
        self._driver = driver
        self._context = context
        self._clock = clock
        self._listener: ReportListener | None = None
        self._deaf: tuple[int, str] | None = None
        """When this host could not listen, and why."""
        self._counted: tuple[int, set[int]] = -1, set()
        self._sent: tuple[int, dict[int, list[SourceEvent]]] = -1, {}
        self._check = ReportCheck(clock)

    def address(self) -> ReportAddress | None:
        """Where tasks report; nowhere if this host cannot listen at the driver's address, which is tried again."""
        if self._listener is None and self._is_to_listen():
            try:
                self._listener = ReportListener(self._driver.bind_address, self._driver.host)
            except (OSError, ConnectorError) as e:
                if self._deaf is None:
                    log.warning(
                        "Tasks cannot report to %s (%s): batches are planned from what planning sees itself. "
                        "spark.driver.bindAddress must be an address of this host.",
                        self._driver.bind_address,
                        e,
                    )
                self._deaf = self._clock(), str(e)
        return self._listener.address if self._listener is not None else None

    def _is_to_listen(self) -> bool:
        return self._deaf is None or self._clock() - self._deaf[0] > _LISTEN_AGAIN_MS

    def reporting(self) -> Reporting:
        """How far it is known what tasks read."""
        if self.address() is None:
            assert self._deaf is not None
            return Reporting(
                f"this driver cannot listen at its address {self._driver.bind_address} ({self._deaf[1]})"
            )
        return self._check.reporting(self._context.splits)

    def planned(self, batch: int, ranges: Collection[RangeKey]) -> None:
        """Tasks that read these ranges are about to run."""
        self._check.planned(batch, ranges)

    def take(self, processed: int | None) -> list[TaskReport]:
        """The reports that came since the last call, also repeated ones; batch ``processed`` has sent all of its."""
        reports = self._listener.take() if self._listener is not None else []
        self._check.take_in(reports, processed)
        return reports

    def deliver(self, report: TaskReport, processed: int, enumerator: AnyEnumerator) -> None:
        """Hand on what a reader has to say to the enumerator, in the planning thread.

        A task counts once, however often it was run; of a batch before ``processed``, the last one that the query has
        processed, nothing counts any more: such a report is one of a task that nobody waited for.
        """
        if report.batch != processed:
            return
        slot = report.subtask
        self._context.located(slot, report.host)
        back = [split for name in report.failed if (split := self._context.splits.get(name)) is not None]
        if back:
            self._context.give_back(back)
            enumerator.add_splits_back(back, slot)
        if report.failed or self._is_repeated(report):
            return
        for _ in range(report.split_requests):
            if not self._context.has_no_more_splits(slot):
                enumerator.handle_split_request(slot, report.host)
        for event in report.events:
            enumerator.handle_source_event(slot, event)

    def events(self, batch: int, tasks: int) -> dict[int, list[SourceEvent]]:
        """What to send with each task of a batch, by number: the same when the batch is asked for again.

        Where there are fewer tasks than slots, one task stands for several of them; events wait for a batch with tasks.
        """
        if self._sent[0] != batch and tasks:
            by_task: dict[int, list[SourceEvent]] = {}
            for slot in sorted(self._context.events):
                by_task.setdefault(slot % tasks, []).extend(self._context.events.pop(slot))
            self._sent = batch, by_task
        return self._sent[1] if self._sent[0] == batch else {}

    def close(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.close()

    def _is_repeated(self, report: TaskReport) -> bool:
        if self._counted[0] != report.batch:
            self._counted = report.batch, set()
        repeated = report.task in self._counted[1]
        self._counted[1].add(report.task)
        return repeated
