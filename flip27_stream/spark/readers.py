"""The coordinator's side of its readers: where they report, what they sent, and what is sent to them.

A *registered reader* is a slot that lives as long as the query; the tasks of a micro-batch are numbered, and task
n runs as the reader n modulo the number of slots. See ``docs/readers.md``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection

from flip27_stream.api import SourceEvent
from flip27_stream.spark.enumerator_context import CoordinatorContext
from flip27_stream.spark.job import AnyEnumerator, Driver
from flip27_stream.spark.report_channel import ReportAddress, ReportListener, TaskReport

log = logging.getLogger(__name__)

_SILENT_BATCHES = 3

RangeKey = tuple[str, int, int]
"""What a task reads of a split: id, start and end position."""


class Readers:
    """Takes reports and hands on what is in them; keeps the events of the batch that is being run."""

    def __init__(self, driver: Driver, context: CoordinatorContext) -> None:
        self._driver = driver
        self._context = context
        self._listener: ReportListener | None = None
        self._counted: tuple[int, set[int]] = -1, set()
        self._sent: tuple[int, dict[int, list[SourceEvent]]] = -1, {}
        self._can_listen = True
        self._running: tuple[int, set[RangeKey]] = -1, set()
        self._silent: dict[str, int] = {}

    def address(self) -> ReportAddress | None:
        """Where tasks report; nowhere if this host cannot listen at the driver's address."""
        if self._listener is None and self._can_listen:
            driver = self._driver
            try:
                self._listener = ReportListener(driver.bind_address, driver.host)
            except OSError as e:
                self._can_listen = False
                log.warning(
                    "Tasks cannot report to %s (%s): batches are planned from what planning sees itself. Set "
                    "spark.driver.bindAddress to an address of this host.",
                    driver.bind_address,
                    e,
                )
        return self._listener.address if self._listener is not None else None

    def why_unknown(self) -> str | None:
        """Why it is not known what tasks read; ``None`` if it is. That a report is lost now and then is no reason."""
        if self.address() is None:
            return "this driver cannot listen at its address"
        silent = [s for s, n in self._silent.items() if n >= _SILENT_BATCHES and s in self._context.splits]
        return (
            f"no report came of split {min(silent)} in {_SILENT_BATCHES} batches that read it"
            if silent
            else None
        )

    def planned(self, batch: int, ranges: Collection[RangeKey]) -> None:
        """Tasks that read these ranges are about to run."""
        self._running = batch, set(ranges)

    def take(self, processed: int | None) -> list[TaskReport]:
        """The reports that came since the last call, also repeated ones; batch ``processed`` has sent all of its."""
        reports = self._listener.take() if self._listener is not None else []
        batch, unreported = self._running
        told = [(s.split, s.start, s.end) for report in reports for s in report.splits]
        unreported.difference_update(told)
        silent = {name for name, _, _ in unreported}
        for name in {name for name, _, _ in told} - silent:
            self._silent.pop(name, None)
        if processed is not None and processed == batch:
            self._silent |= {name: self._silent.get(name, 0) + 1 for name in silent}
            self._running = -1, set()
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
