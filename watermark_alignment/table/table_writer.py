"""Writes split rows to the table in a background thread. So planning neither waits for the table nor fails with it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from flip27_stream.errors import ConnectorError
from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.threads import start
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.pending_commits import PendingCommit, PendingCommits
from watermark_alignment.table.split_rows import SplitRow, as_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 30.0
_REFUSED_TO_WARN_OF = 3
"""How many batches in a row the table must have had. A restart can record one batch a second time, not several."""


class RowStore(Protocol):
    """A store of the rows of batches: a table, or the spool of a table that the session writes."""

    def append(
        self, app_id: str, batch: int, rows: Sequence[SplitRow] | pa.Table, metadata: Mapping[str, str]
    ) -> bool:
        """Appends the rows of ``batch`` once; see :meth:`SplitWatermarkTable.append`."""
        ...


def application_of(table: RowStore, name: str, batch: int) -> str:
    """Returns the id of the application transactions of a source that goes on after ``batch``; -1 for a new checkpoint.

    It is ``name``, or ``name`` with a number if the checkpoint was restored from a copy: the table has later batches of
    the former id, and would take none until the batches have passed these.

    Args:
        table: The table, which is open. Other stores cannot be asked what they have.
        name: The id of the source and of its checkpoint.
        batch: The number of the newest batch in the checkpoint.

    Raises:
        AlignmentError: The table cannot be read.
    """
    if not isinstance(table, SplitWatermarkTable):
        return name
    last, ids = -1, [name]
    with table.failing("cannot be read"):
        while (found := table.delta.transaction_version(ids[-1])) is not None:
            last = found
            ids.append(f"{name}:{len(ids)}")
    if last <= batch:
        return ids[-2] if len(ids) > 1 else name
    log.warning(
        "%r has batches of '%s' up to %d, and the checkpoint ends with batch %d. It was restored from a copy, or its "
        "last batches were lost. Batches that run again are recorded again.",
        table,
        name,
        last,
        batch,
    )
    return ids[-1]


class TableWriter:
    """A queue of commits, and the daemon thread that writes them in order as application ``app_id``.

    While the table cannot be written, the newest ``capacity`` commits with at most ``max_bytes`` are kept. They are
    retried after 0.1 s, then at growing intervals up to 30 s. The first failure is logged as a warning. Dropped batches
    are logged when writing works again, or at the end. The thread starts with the first commit.

    Args:
        table: The table, or a folder that keeps its rows.
        app_id: The id of the application transactions.
        source: What warnings call the source whose rows are written.
        maintenance: The maintenance of the table; by default that of a :class:`SplitWatermarkTable`.
        capacity: The greatest number of commits that wait.
        max_bytes: The greatest size (bytes) of the rows that wait.
    """

    def __init__(
        self,
        table: RowStore,
        app_id: str,
        *,
        source: str = "a source",
        maintenance: Maintenance | None = None,
        capacity: int = 1000,
        max_bytes: int = 64 << 20,
    ) -> None:
        self._table = table
        self._app_id = app_id
        self._source = source
        self._maintenance = maintenance
        if maintenance is None and isinstance(table, SplitWatermarkTable):
            self._maintenance = Maintenance(table)
        self._pending = PendingCommits(capacity, max_bytes)
        self._is_failing = False
        self._failures = self._refused = 0
        self._due: list[int] = []
        self._changed = threading.Condition()
        self._is_urgent = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def submit(self, batch: int, rows: Sequence[SplitRow] | pa.Table, metadata: Mapping[str, str]) -> None:
        """Queues one commit, returns at once and never raises. After :meth:`close` it does nothing.

        Args:
            batch: The number of the batch.
            rows: The rows, or a table of them.
            metadata: The metadata of the commit.
        """
        commit = PendingCommit(batch, rows if isinstance(rows, pa.Table) else as_table(rows), dict(metadata))
        commit = commit.compressed() if self._pending else commit
        with self._changed:
            if not self._closing:
                self._pending.add(commit)
                self._wake()

    def look_after(self, version: int) -> None:
        """Tells the writer's thread that another part of this process committed ``version`` of the table.

        If maintenance is due at that version, the thread runs it.
        """
        with self._changed:
            if self._maintenance is not None and self._maintenance.is_due(version) and not self._closing:
                self._due.append(version)
                self._wake()

    def flush(self, timeout_s: float, failing_timeout_s: float | None = None) -> bool:
        """Waits until all submitted commits are in the table. Returns false on time-out.

        Args:
            timeout_s: The time-out (s).
            failing_timeout_s: The time-out (s) while the table cannot be written; by default ``timeout_s``.
        """
        with self._changed:
            self._is_urgent = bool(self._pending)
            self._changed.notify_all()
            if failing_timeout_s is not None:
                began = time.monotonic()
                self._changed.wait_for(lambda: not self._pending or self._is_failing, timeout_s)
                timeout_s = min(failing_timeout_s, timeout_s - (time.monotonic() - began))
            return self._changed.wait_for(lambda: not self._pending, timeout_s if self._thread else 0)

    def close(self, timeout_s: float = 2.0) -> None:
        """Writes the pending commits for at most ``timeout_s`` (s), and ends the thread. Never raises."""
        with self._changed:
            is_again, self._closing = self._closing, True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)
        if not is_again and (lost := self._pending.lost()).number:
            log.warning(
                "%r is closed without the rows of %s: they could not be written in time.", self._table, lost
            )

    def _wake(self) -> None:
        if self._thread is None:
            self._start()
        self._changed.notify_all()

    def _start(self) -> None:
        """Starts the thread.

        If that fails, commits wait as if the table could not be written, and the next one tries again.
        """
        thread = threading.Thread(target=self._run, name="split-watermark-table", daemon=True)
        try:
            start(thread)
            self._thread = thread
        except ConnectorError as error:
            if not self._is_failing:
                log.warning("%s Meanwhile %r is not written.", error, self._table)
            self._is_failing = True

    def _run(self) -> None:
        while not self._is_over():
            for version in self._take_due():
                self._maintain(version)
            if (commit := self._next()) is None:
                continue
            try:
                written = self._table.append(self._app_id, commit.batch, commit.rows, commit.metadata)
            except Exception as error:  # noqa: BLE001 - the thread has to survive
                self._warn_of(error)
                if not self._wait_to_retry():
                    return
                continue
            self._done(commit)
            if isinstance(self._table, SplitWatermarkTable):
                self._warn_of_another_writer(commit.batch, written=written)
                if written:
                    self._maintain(self._table.delta.version())

    def _maintain(self, version: int) -> None:
        if self._maintenance is not None:
            self._maintenance.committed(version)

    def _warn_of(self, error: Exception) -> None:
        """Logs an error once, until writing works again."""
        if not self._is_failing:
            kept, size = self._pending.capacity, self._pending.max_bytes >> 20
            log.warning(
                "%s. %s is still read; its rows for the table are kept, up to %d batches or %d MB, and "
                "writing is tried again.",
                error,
                self._source,
                kept,
                size,
            )

    def _warn_of_another_writer(self, batch: int, *, written: bool) -> None:
        """Warns, once until a batch is written, if another process records batches as the same application."""
        self._refused = 0 if written else self._refused + 1
        if self._refused == _REFUSED_TO_WARN_OF:
            log.warning(
                "%r has batch %d of %s, and those before it, already: another query records them from a copy of this "
                "checkpoint, with the same source id. So rows of this query are missing in the table. Give the query "
                "that runs on the copy a scan.source.id, or a table, of its own.",
                self._table,
                batch,
                self._source,
            )

    def _is_over(self) -> bool:
        """Waits for a commit or maintenance. Returns true if the writer is closed and all commits are written."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._due or self._closing)
            return self._closing and not self._pending and not self._due

    def _next(self) -> PendingCommit | None:
        """Returns the oldest commit, which stays in the queue until it is written."""
        with self._changed:
            return self._pending.first

    def _take_due(self) -> list[int]:
        with self._changed:
            due, self._due = self._due, []
        return due

    def _done(self, commit: PendingCommit) -> None:
        """Removes a written commit from the queue, and logs which batches were dropped.

        They are logged after a failure, or if the table is too slow, each time that a whole queue was dropped.
        """
        with self._changed:
            recovered, self._is_failing = self._is_failing, False
            self._pending.done(commit)
            self._is_urgent = self._is_urgent and bool(self._pending)
            self._failures = 0
            tells = self._pending.dropped.number >= (1 if recovered else self._pending.capacity)
            dropped = self._pending.take_dropped() if tells else None
            self._changed.notify_all()
        if dropped is not None:
            log.warning(
                "%r failed or was too slow, so the rows of %s were dropped; it is being written again.",
                self._table,
                dropped,
            )

    def _wait_to_retry(self) -> bool:
        """Waits before a retry.

        Returns false if the writer is closing, since a table that just failed is not retried then.
        """
        with self._changed:
            self._is_failing = True
            self._changed.notify_all()
            retry_s = doubled_pause(_FIRST_RETRY_S, _LAST_RETRY_S, self._failures)
            self._changed.wait_for(lambda: self._closing or self._is_urgent, retry_s)
            self._failures = 0 if self._is_urgent else self._failures + 1
            self._is_urgent = False
            return not self._closing
