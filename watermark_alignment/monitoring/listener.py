"""A listener that tells how aligned queries get on. Needs pyspark, so it is loaded when it is asked for."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flip27_stream.errors import AlignmentError
from flip27_stream.options.durations import parse_duration
from watermark_alignment.monitoring.findings import findings, stalls
from watermark_alignment.monitoring.progress import dropped_rows, line, name_of, our_sources
from watermark_alignment.monitoring.status import Status, StatusReader
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

log = logging.getLogger(__name__)


def _now() -> int:
    return time.time_ns() // 1_000_000


class StatusListener(StreamingQueryListener):
    """Logs a line per batch (INFO), and once each (WARNING), with the remedy, what goes wrong.

    Without ``table``, what the progress of queries says: rows that were dropped as late. With it also: a split that
    stalls its group, drift above its limit, watermarks that are planned and not observed. Only queries with a source
    of this project are looked at.

    :param table: the split-watermark table, its path or URI, then reached with ``storage_options``.
    :param stalled_after: how long a split may bring nothing while others wait for it.
    :param look_every: how often, at most, batches have the table read, since that holds up Spark's events.
    :param clock: milliseconds since the epoch.
    :raises OptionError: a text is no duration.

    ::

        spark.streams.addListener(StatusListener("/delta/split_watermarks"))
    """

    def __init__(
        self,
        table: str | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        stalled_after: str = "1 minute",
        look_every: str = "2 s",
        clock: Callable[[], int] = _now,
    ) -> None:
        self._reader = (
            StatusReader(SplitWatermarkTable(table, storage_options or {})) if table is not None else None
        )
        self._stalled_after_ms = parse_duration(stalled_after, "stalled_after")
        self._look_every_ms = parse_duration(look_every, "look_every")
        self._clock = clock
        self._looked_at = 0
        self._lineages: dict[str, set[str]] = {}
        self._told: set[tuple[str, ...]] = set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: Mapping[str, Any] = json.loads(event.progress.json)
        sources = our_sources(progress)
        if not sources:
            return
        log.info("%s", line(progress, sources))
        if dropped := dropped_rows(progress):
            aligned = all(source.is_aligned for source in sources)
            self._tell(
                ("dropped", progress["id"]),
                _dropped(name_of(progress), progress["batchId"], dropped, aligned),
            )
        self._lineages[str(event.progress.runId)] = {source.lineage for source in sources}
        self._look(is_due=self._clock() - self._looked_at >= self._look_every_ms)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Every 10 s while a query finds nothing to read. A split that waits then waits for another."""
        if (lineages := self._lineages.get(str(event.runId))) is not None and (
            status := self._look()
        ) is not None:
            for about, text in stalls(status, lineages, self._clock(), self._stalled_after_ms):
                self._tell(about, text)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if str(event.runId) in self._lineages:
            self._look()
            del self._lineages[str(event.runId)]

    def _look(self, *, is_due: bool = True) -> Status | None:
        """Read the table, where there is one, and tell what is wrong."""
        if self._reader is None or not is_due:
            return None
        self._looked_at = now = self._clock()
        try:
            status = self._reader.read(now)
        except AlignmentError as error:
            self._tell(("table",), str(error))
            return None
        for about, text in findings(status, set().union(*self._lineages.values())):
            self._tell(about, text)
        return status

    def _tell(self, about: tuple[str, ...], text: str) -> None:
        if about not in self._told:
            self._told.add(about)
            log.warning("%s", text)


def _dropped(query: str, batch: int, rows: int, aligned: bool) -> str:
    remedy = (
        "A delay of withWatermark that is longer than max-drift + max-out-of-orderness keeps all rows of splits that "
        "count. If it is, a split was new or came back from being idle: raise scan.watermark.idle-timeout."
        if aligned
        else "Its splits are not aligned: set scan.watermark.alignment.group, with max-drift and table, and a delay of "
        "withWatermark that is longer than max-drift + max-out-of-orderness."
    )
    return f"The watermark dropped {rows:,} rows of {query} as late, first in batch {batch:,}. {remedy}"
