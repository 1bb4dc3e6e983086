"""Writes split rows to the table in the background: no plan ever waits for the table, nor fails with it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from watermark_alignment.maintenance import Maintenance
from watermark_alignment.table import SplitRow, SplitWatermarkTable

_LOG = logging.getLogger(__name__)

_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 30.0


class _Commit(NamedTuple):
    batch: int
    rows: Sequence[SplitRow]
    metadata: Mapping[str, str]


class TableWriter:
    """A queue of commits and the daemon thread that writes them, in order, as application ``app_id``.

    While the table cannot be written the newest ``capacity`` commits are kept and tried again after 0.1 s,
    then ever more slowly up to 30 s. The first failure is warned of, and what was dropped once it works
    again. The thread starts with the first commit.
    """

    def __init__(
        self,
        table: SplitWatermarkTable,
        app_id: str,
        *,
        maintenance: Maintenance | None = None,
        capacity: int = 1000,
    ) -> None:
        self._table = table
        self._app_id = app_id
        self._maintenance = maintenance or Maintenance(table)
        self._pending: deque[_Commit] = deque(maxlen=capacity)
        self._dropped = 0
        self._due: list[int] = []
        self._changed = threading.Condition()
        self._hurry = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def submit(self, batch: int, rows: Sequence[SplitRow], metadata: Mapping[str, str]) -> None:
        """Queue one commit; returns at once and never raises. After :meth:`close` nothing is taken."""
        with self._changed:
            if self._closing:
                return
            self._dropped += len(self._pending) == self._pending.maxlen
            self._pending.append(_Commit(batch, tuple(rows), dict(metadata)))
            self._wake()

    def look_after(self, version: int) -> None:
        """Somebody else in this process has made that version of the table: do in the background what is due by it."""
        with self._changed:
            if self._maintenance.is_due(version) and not self._closing:
                self._due.append(version)
                self._wake()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was submitted is in the table; False if ``timeout_s`` is too short."""
        with self._changed:
            self._hurry = bool(self._pending)
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._pending, timeout_s)

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is pending, as far as it goes in ``timeout_s``, and end the thread. Never raises."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="split-watermark-table", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        retry_s = _FIRST_RETRY_S
        while not self._is_over():
            for version in self._take_due():
                self._maintenance.committed(version)
            if (commit := self._next()) is None:
                continue
            try:
                written = self._table.append(self._app_id, commit.batch, commit.rows, commit.metadata)
            except Exception as error:  # noqa: BLE001 - the thread has to survive
                if retry_s == _FIRST_RETRY_S:
                    kept = self._pending.maxlen
                    _LOG.warning(
                        "%s. Reading goes on; up to %d batches are kept and tried again.", error, kept
                    )
                if not self._wait_to_retry(retry_s):
                    return
                retry_s = min(retry_s * 2, _LAST_RETRY_S)
                continue
            self._done(commit)
            self._report_dropped(recovered=retry_s > _FIRST_RETRY_S)
            retry_s = _FIRST_RETRY_S
            if written:
                self._maintenance.committed(self._table.delta.version())

    def _is_over(self) -> bool:
        """Waits until there is something to do; true when closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._due or self._closing)
            return self._closing and not self._pending and not self._due

    def _next(self) -> _Commit | None:
        """The oldest commit, which stays in the queue until it is written."""
        with self._changed:
            return self._pending[0] if self._pending else None

    def _take_due(self) -> list[int]:
        with self._changed:
            due, self._due = self._due, []
        return due

    def _done(self, commit: _Commit) -> None:
        with self._changed:
            if self._pending and self._pending[0] is commit:  # else it was dropped while it was being written
                self._pending.popleft()
            self._hurry = self._hurry and bool(self._pending)
            self._changed.notify_all()

    def _wait_to_retry(self, seconds: float) -> bool:
        """False when closing: a table that just failed is not tried again then."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._hurry, seconds)
            self._hurry = False
            return not self._closing

    def _report_dropped(self, *, recovered: bool) -> None:
        """After a failure; and where the table is merely too slow, whenever a whole queue was lost."""
        with self._changed:
            if not recovered and self._dropped < (self._pending.maxlen or 0):
                return
            dropped, self._dropped = self._dropped, 0
        _LOG.warning("%r is being written; the rows of %d batches were dropped.", self._table, dropped)
