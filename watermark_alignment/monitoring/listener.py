"""A listener that reports on aligned queries. It needs pyspark, so it is imported only on demand."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from threading import Thread
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from flip27_stream.errors import AlignmentError
from flip27_stream.extras import check_installed
from flip27_stream.options.durations import parse_duration
from flip27_stream.wall_clock import now_ms
from watermark_alignment.monitoring.findings import findings, stalls
from watermark_alignment.monitoring.metrics import Metrics
from watermark_alignment.monitoring.progress import SourceProgress, dropped_rows, line, name_of, our_sources
from watermark_alignment.monitoring.query_sources import QuerySources
from watermark_alignment.monitoring.query_watermark import QueryWatermark
from watermark_alignment.monitoring.status import Status, StatusReader
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from opentelemetry.sdk.metrics import MeterProvider

log = logging.getLogger(__name__)

_FIRST_BATCHES = 4
"""The table is read after each of the first batches, so that mistakes in a new query are reported early."""


class StatusListener(StreamingQueryListener):
    """A listener that logs a line for each batch (INFO), and each problem once, as a warning with its remedy.

    Without ``table`` it warns of rows that Spark dropped as late. With a table it also warns of a split that stalls its
    group, of drift above its limit, of watermarks that are planned and not observed, and of mistakes that make
    alignment ineffective: a delay of ``withWatermark`` that is too short, another event time than the aligned one,
    event times that are missing or have another unit. Queries without a source of this project are ignored.

    Args:
        table: The split-watermark table, as a path or URI.
        storage_options: The storage options for ``table``.
        stalled_after: The time for which a split may have no records while others wait for it before this is reported,
            such as "5 min".
        look_every: The least interval between reads of the table after batches, such as "10 s"; a read delays Spark's
            events.
        clock: Returns the milliseconds since the epoch.

    Raises:
        OptionError: A duration cannot be parsed.

    Example::

        spark.streams.addListener(StatusListener("/delta/split_watermarks"))
    """

    def __init__(
        self,
        table: str | PathLike[str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        stalled_after: str = "1 minute",
        look_every: str = "2 s",
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._reader = (
            StatusReader(SplitWatermarkTable(table, storage_options or {})) if table is not None else None
        )
        self._stalled_after_ms = parse_duration(stalled_after, "stalled_after")
        self._look_every_ms = parse_duration(look_every, "look_every")
        self._clock = clock
        self._metrics = Metrics(self._reader, clock)
        self._looked_at = 0
        self._lineages: dict[str, set[str]] = {}
        self._watermarks: dict[str, QueryWatermark] = {}
        self._sources: dict[str, QuerySources] = {}
        self._groups: Mapping[str, str] = {}
        self._row_bytes: dict[str, float | None] = {}
        self._names: dict[str, str] = {}
        self._batches: Counter[str] = Counter()
        self._told: set[tuple[str, ...]] = set()

    def serve_prometheus(self, port: int = 9127, address: str = "0.0.0.0") -> tuple[WSGIServer, Thread]:
        """Serves metrics to Prometheus at ``/metrics``. Needs the extra ``prometheus``.

        Args:
            port: The port; 0 for any free port.
            address: The address to listen on. Names of groups, sources and splits can be read there without a password.

        Returns:
            The server and its thread. The server's ``shutdown()`` ends both.

        Raises:
            MissingExtraError: The package of the extra is not installed.
        """
        check_installed("prometheus_client", "prometheus", "serve_prometheus()")
        from watermark_alignment.monitoring.prometheus import serve

        return serve(self._metrics, port, address)

    def export_opentelemetry(self, endpoint: str | None = None, every: str = "30 s") -> MeterProvider:
        """Pushes metrics to an OpenTelemetry collector by OTLP over HTTP. Needs the extra ``opentelemetry``.

        Args:
            endpoint: A URL such as ``http://collector:4318/v1/metrics``; by default that of
                ``OTEL_EXPORTER_OTLP_ENDPOINT``.
            every: The interval between pushes, such as "30 s".

        Returns:
            The provider. Its ``shutdown()`` ends the export.

        Raises:
            MissingExtraError: The packages of the extra are not installed.
        """
        check_installed("opentelemetry", "opentelemetry", "export_opentelemetry()")
        from watermark_alignment.monitoring.opentelemetry import export

        return export(self._metrics, endpoint, parse_duration(every, "every"))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress: Mapping[str, Any] = json.loads(event.progress.json)
        sources = our_sources(progress)
        if not sources:
            return
        self._metrics.dropped[name_of(progress)] += dropped_rows(progress)
        run = str(event.progress.runId)
        self._lineages[run] = {source.lineage for source in sources}
        self._watermarks.setdefault(run, QueryWatermark()).take_in(progress, sources)
        self._sources.setdefault(run, QuerySources()).take_in(progress, sources)
        self._batches[run] += 1
        is_due = self._clock() - self._looked_at >= self._look_every_ms
        self._look(is_due=is_due or self._batches[run] <= _FIRST_BATCHES)
        log.info("%s", line(progress, [self._described(source) for source in sources]))
        for about, text in self._sources[run].dropped(self._groups):
            self._tell(about, text)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Reports stalls. Spark calls it every 10 s while a query finds nothing to read."""
        if (lineages := self._lineages.get(str(event.runId))) is not None and (
            status := self._look()
        ) is not None:
            for about, text in stalls(status, lineages, self._clock(), self._stalled_after_ms):
                self._tell(about, text)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if str(event.runId) in self._lineages:
            self._look()
            for of_run in (self._lineages, self._watermarks, self._sources, self._batches):
                of_run.pop(str(event.runId), None)

    def _look(self, *, is_due: bool = True) -> Status | None:
        """Reads the table if the listener has a table and the time for the next read has come, and reports problems."""
        if self._reader is None or not is_due:
            return None
        self._looked_at = now = self._clock()
        try:
            with self._metrics.lock:
                status = self._reader.read(now)
        except AlignmentError as error:
            self._tell(("table",), str(error))
            return None
        watched = set().union(*self._lineages.values())
        for about, text in findings(status, watched, now):
            self._tell(about, text)
        self._groups = status.groups
        for sources in self._sources.values():
            for about, text in sources.elsewhere(self._groups, self._reader.table.uri, watched):
                self._tell(about, text)
        notes = {status.names[m]: info.note for m, info in status.members.items() if info.note is not None}
        self._row_bytes = {note.lineage: note.observed.bytes_per_row for note in notes.values()}
        self._names = {note.lineage: called for called, note in notes.items()}
        for watermark in self._watermarks.values():
            for about, text in watermark.findings(notes):
                self._tell(about, text)
        return status

    def _described(self, source: SourceProgress) -> SourceProgress:
        """Returns the progress with the name of the source and the bytes that it is behind, if the table has them."""
        return replace(
            source,
            source=self._names.get(source.lineage, source.source),
            behind=source.behind.sized(self._row_bytes.get(source.lineage)),
        )

    def _tell(self, about: tuple[str, ...], text: str) -> None:
        if about not in self._told:
            self._told.add(about)
            log.warning("%s", text)
