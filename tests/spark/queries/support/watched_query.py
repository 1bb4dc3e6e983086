"""A query that is driven by hand, and a listener that hears of its batches. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.spark.support.driven_query import DrivenQuery
from tests.watermark_alignment.support.progress_events import progress
from watermark_alignment import StatusListener


class WatchedQuery:
    """A query that is driven by hand, with a listener that hears of each batch."""

    def __init__(self, query: DrivenQuery, **options: Any) -> None:
        self.query = query
        table = str(query.table) if query.table is not None else None
        self.listener = StatusListener(table, look_every="0", clock=query.clock, **options)
        self.batches = 0

    def step(self, limit: int | None = None, dropped: int = 0) -> None:
        start = self.query.offset
        if self.query.batch(limit) is not None:
            self.tell(start, dropped)

    def without_reports(self) -> None:
        """Makes tasks send no reports from now on."""
        self.query.run = _plan_only(self.query)  # type: ignore[method-assign]

    def tell(self, start: Mapping[str, Any], dropped: int = 0) -> None:
        recorder = self.query.coordinator._recorder
        if recorder is not None:
            recorder.flush()
        self.listener.onQueryProgress(progress(start, self.query.offset, dropped=dropped, batch=self.batches))
        self.batches += 1


def _plan_only(query: DrivenQuery) -> Callable[..., list[tuple[str, int | None]]]:
    def run(start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int | None]]:
        query.coordinator.tasks(start, end)
        return []

    return run
