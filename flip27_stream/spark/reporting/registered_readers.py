"""The registered readers of a coordinator: their reports and events, and the events for them.

A *registered reader* is a slot that exists as long as the query. The tasks of a micro-batch are numbered, and task n
belongs to the slot n modulo the number of slots. See ``docs/readers.md``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from flip27_stream.api import SourceEvent
from flip27_stream.api.planned_range import RangeKey
from flip27_stream.errors import ConnectorError
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.reporting_splits import ReportCheck, Reporting
from flip27_stream.spark.reporting.reports import TaskReport
from flip27_stream.spark.source_spec import AnyEnumerator, Driver

if TYPE_CHECKING:
    from flip27_stream.spark.planning.enumerator_context import CoordinatorContext

log = logging.getLogger(__name__)

_LISTEN_AGAIN_MS = 10_000


class Readers:
    """Receives reports and passes on their content; keeps the events of the batch that Spark runs now.

    Args:
        driver: The address of this driver.
        context: The context of the enumerator.
        clock: Returns the query's time (ms).
    """

    def __init__(self, driver: Driver, context: CoordinatorContext, clock: Callable[[], int]) -> None:
        self._driver = driver
        self._context = context
        self._clock = clock
        self._listener: ReportListener | None = None
        self._cannot_listen: tuple[int, str] | None = None
        """The time (ms) at which this host could not listen for reports, and the error."""
        self._counted: tuple[int, set[int]] = -1, set()
        self._sent: tuple[int, dict[int, list[SourceEvent]]] = -1, {}
        self._check: ReportCheck | None = None

    def address(self) -> ReportAddress | None:
        """Returns the address for reports; ``None`` if this host cannot listen, which is tried again every 10 s."""
        if self._listener is None and self._is_to_listen():
            try:
                self._listener = ReportListener(self._driver.bind_address, self._driver.host)
            except (OSError, ConnectorError) as e:
                if self._cannot_listen is None:
                    log.warning(
                        "Tasks cannot report to %s (%s): batches are planned without reports. "
                        "Set spark.driver.bindAddress to an address of this host.",
                        self._driver.bind_address,
                        e,
                    )
                self._cannot_listen = self._clock(), str(e)
        return self._listener.address if self._listener is not None else None

    def _is_to_listen(self) -> bool:
        return self._cannot_listen is None or self._clock() - self._cannot_listen[0] > _LISTEN_AGAIN_MS

    def expect_reports(self) -> None:
        """Makes the object count the batches in which a split is not reported, because the alignment needs reports."""
        self._check = ReportCheck(self._clock)

    def reporting(self) -> Reporting:
        """Returns about which splits tasks can send reports now, and the reasons why not about others.

        :meth:`expect_reports` must have been called before.
        """
        assert self._check is not None
        if self.address() is None:
            assert self._cannot_listen is not None
            return Reporting(
                f"this driver cannot listen at its address {self._driver.bind_address} ({self._cannot_listen[1]})"
            )
        return self._check.reporting(self._context.splits)

    def plan_batch(self, batch: int, ranges: Collection[RangeKey]) -> None:
        """Records that tasks that read these ranges are about to run."""
        if self._check is not None:
            self._check.plan_batch(batch, ranges)

    def take(self, processed: int | None) -> list[TaskReport]:
        """Returns the reports that came since the last call, repeated ones included.

        Args:
            processed: The number of the last batch that Spark has processed; its tasks send no more reports.
        """
        reports = self._listener.take() if self._listener is not None else []
        if self._check is not None:
            self._check.add_reports(reports, processed)
        return reports

    def deliver(self, report: TaskReport, processed: int, enumerator: AnyEnumerator) -> None:
        """Calls the enumerator with the events, split requests and failures of a report.

        A task counts once, even if Spark ran it several times. A report of a batch before ``processed`` is ignored: it
        is of a task that Spark did not wait for.

        Args:
            report: The report.
            processed: The number of the last batch that Spark has processed.
            enumerator: The enumerator of the source.
        """
        if report.batch != processed:
            return
        slot = report.subtask
        self._context.set_location(slot, report.host)
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
        """Returns the events to send with each task of a batch, by task number; the same for a repeated batch.

        With fewer tasks than slots, one task gets the events of several slots. Events wait for a batch that has tasks.
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
