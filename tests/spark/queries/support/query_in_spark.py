"""A query that is driven by hand, with the event times and the watermark that Spark would report. No JVM."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.spark.queries.support.watched_query import WatchedQuery
from tests.spark.support.driven_query import DrivenQuery
from tests.watermark_alignment.support.progress_events import progress


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, tz=timezone.utc).isoformat(timespec="milliseconds")


class InSpark:
    """A query with progress events as Spark makes them: they have the least and the greatest event time, where a null
    counts as the time 0, and the watermark.
    """

    def __init__(
        self,
        query: DrivenQuery,
        delay: int,
        column: Callable[[int], int] = lambda time: time,
        listener: StreamingQueryListener | None = None,
    ) -> None:
        self.watched = WatchedQuery(query)
        self._listener = listener or self.watched.listener
        self._delay, self._column = delay, column
        self._watermark = 0
        self._run = uuid.uuid4()

    def restart(self, delay: int, **options: str) -> None:
        """Restarts the query with another delay and other options."""
        self.watched.query.options = options
        self.watched.query.restart()
        self._delay, self._run = delay, uuid.uuid4()

    def step(self, limit: int = 10) -> None:
        query, start = self.watched.query, self.watched.query.offset
        rows = query.batch(limit)
        assert rows is not None
        recorder = query.coordinator._recorder
        assert recorder is not None
        recorder.flush()
        found = [time if time is not None and time >= 0 else None for _, time in rows]
        times = [self._column(time) for time in found if time is not None]
        event_time: dict[str, Any] = {"watermark": iso(self._watermark)}
        if times:
            event_time |= {"max": iso(max(times)), "min": iso(0 if None in found else min(times))}
            self._watermark = max(self._watermark, max(times) - self._delay)
        event = progress(
            start, query.offset, batch=self.watched.batches, event_time=event_time, run=self._run
        )
        self.watched.batches += 1
        self._listener.onQueryProgress(event)
