"""Tests of what Prometheus scrapes and an OpenTelemetry collector receives, read with their own parsers."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.progress_events import progress
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment import StatusListener
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.monitoring.metrics import DROPPED, NAMES, PREFIX, samples_of
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.offsets_behind import OffsetsBehind
from watermark_alignment.table.recordings import LOG_REACH_MS
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

DOCS = Path(__file__).parents[3] / "docs"
NOW = START_MS + 90_000


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    """A table with two batches of a source that stalls: three of its splits wait for the fourth."""
    made = SplitWatermarkTable(str(tmp_path / "table"), {})
    note = BatchNote(
        "web",
        "clicks",
        "lineage",
        1,
        2500,
        0,
        metrics={"malformed_records": 2},
        behind=OffsetsBehind.of([7, 1, 4, 0], 10.0),
    )
    made.append("clicks", 0, split_rows(0), {})
    made.append("clicks", 1, split_rows(1), {KEY: note.to_text()})
    stalled = entry("clicks", group="web", waiting=3, held_by="clicks-3", timeout_ms=10**15)
    made.note({MEMBER: replace(stalled, waits=("clicks-3",), waits_all_but=True).to_text()})
    return made


def test_a_source_that_is_gone_has_no_values(tmp_path: Path) -> None:
    """The log has a note of it, and nothing else for a long time."""
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    note = BatchNote("web", "clicks", "lineage", 0, 2500, 0, metrics={"malformed_records": 2})
    table.append("clicks", 0, split_rows(0), {KEY: note.to_text()})
    table.note({MEMBER: entry("orders", group="web").to_text()})
    status = StatusReader(table).read(NOW)
    found = {(sample.name, sample.value) for sample in samples_of(status, NOW + 2 * LOG_REACH_MS)}
    assert found == {("is_there", 0)}


@pytest.fixture
def listener(table: SplitWatermarkTable) -> StatusListener:
    """A listener that was told of a batch that dropped rows."""
    heard = StatusListener(table.uri, clock=lambda: NOW)
    document = {"flip27": 1, "source": "clicks", "lineage": "l", "batch": 0, "splits": {}}
    heard.onQueryProgress(progress(None, document, dropped=7))
    return heard


Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def address(listener: StatusListener) -> Iterator[str]:
    server, thread = listener.serve_prometheus(0, "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def scraped(address: str) -> Values:
    with urllib.request.urlopen(address, timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def value(values: Values, name: str, **labels: str) -> float | None:
    return values.get((f"{PREFIX}_{name}", frozenset(labels.items())))


def test_prometheus_scrapes_what_status_shows(address: str) -> None:
    values = scraped(address)
    split, source = (
        {"group": "web", "source": "clicks", "split": "clicks-1"},
        {"group": "web", "source": "clicks"},
    )
    assert value(values, "currentWatermark", **split) == START_MS + 1000 - 1001
    assert value(values, "watermarkAlignmentDrift", **split) == 2000
    assert value(values, "numRecordsInPerSecond", **split) == 10
    assert value(values, "status", **split, status="PAUSED") == 1
    assert value(values, "status", **split, status="ACTIVE") == 0
    assert value(values, "max_drift_ms", **source) == 2500
    assert value(values, "waiting", **source) == 3
    assert value(values, "metrics", **source, counter="malformed_records") == 2
    assert value(values, "maxOffsetsBehindLatest", **source) == 7
    assert value(values, "estimatedTotalBytesBehindLatest", **source) == 120
    assert value(values, "stalledTimeMs", group="web", source="clicks", split="clicks-3") == 89_000
    assert value(values, f"{DROPPED}_total", query="query 'counts'") == 7


def test_each_scrape_reads_the_table_again(address: str, table: SplitWatermarkTable) -> None:
    labels = {"group": "web", "source": "clicks", "split": "clicks-0"}
    assert value(scraped(address), "batch", **labels) == 1
    table.append("clicks", 2, split_rows(2), {})
    assert value(scraped(address), "batch", **labels) == 2
    table.note({MEMBER: entry("clicks", group="web").leaving().to_text()})
    values = scraped(address)
    assert value(values, "batch", **labels) is None, "it is gone"
    assert value(values, "is_there", group="web", source="clicks") == 0


def test_a_table_out_of_reach_is_no_failed_scrape(tmp_path: Path) -> None:
    server, thread = StatusListener(str(tmp_path / "none")).serve_prometheus(0, "127.0.0.1")
    try:
        assert scraped(f"http://127.0.0.1:{server.server_port}/metrics") == {}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Collector(BaseHTTPRequestHandler):
    """Answers the requests of an OTLP exporter over HTTP and keeps their bodies."""

    received: Queue[bytes]

    def do_POST(self) -> None:
        self.received.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


def test_an_opentelemetry_collector_gets_the_same(
    listener: StatusListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none")
    received: Queue[bytes] = Queue()
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (Collector,), {"received": received}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        provider = listener.export_opentelemetry(
            f"http://127.0.0.1:{server.server_port}/v1/metrics", every="1 h"
        )
        provider.force_flush()
        request = ExportMetricsServiceRequest.FromString(received.get(timeout=60))
        provider.shutdown()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    [metrics] = [scope.metrics for resource in request.resource_metrics for scope in resource.scope_metrics]
    found = {metric.name: metric for metric in metrics}
    assert found.keys() <= {f"{PREFIX}.{name}".lower() for name in NAMES}, "the SDK's spelling"
    [stalled] = found[f"{PREFIX}.stalledtimems"].gauge.data_points
    assert {label.key: label.value.string_value for label in stalled.attributes} == {
        "group": "web",
        "source": "clicks",
        "split": "clicks-3",
    }
    assert (stalled.as_double or stalled.as_int) == 89_000
    [dropped] = found[f"{PREFIX}.{DROPPED}".lower()].sum.data_points
    assert (dropped.as_double or dropped.as_int) == 7
    assert len(found[f"{PREFIX}.currentwatermark"].gauge.data_points) == 4


def test_dashboard_and_alerts_ask_for_metrics_that_there_are() -> None:
    dashboard = json.loads((DOCS / "monitoring" / "grafana-dashboard.json").read_text())
    alerts = (DOCS / "monitoring" / "alerts.yml").read_text()
    asked = set(re.findall(rf"{PREFIX}_(\w+)", json.dumps(dashboard) + alerts))
    assert asked
    assert asked <= {*NAMES, f"{DROPPED}_total"}
    assert re.findall(r"alert: (\w+)", alerts) == [
        "Flip27RowsDropped",
        "Flip27WatermarksPlanned",
        "Flip27TableUnreadable",
        "Flip27SplitStalled",
        "Flip27DriftAboveLimit",
    ]


def test_no_alert_says_after_an_orderly_stop_that_the_table_is_unreadable(
    address: str, table: SplitWatermarkTable
) -> None:
    """A source that has left has no values of splits, but the table can be read."""
    alerts = (DOCS / "monitoring" / "alerts.yml").read_text()
    (readable,) = re.findall(r"== 1 unless on \(instance\) \((\w+(?: or \w+)*)\)$", alerts, re.M)
    table.note({MEMBER: entry("clicks", group="web").leaving().to_text()})
    there = {name for name, _ in scraped(address) if not name.startswith(f"{PREFIX}_{DROPPED}")}
    assert there == {f"{PREFIX}_is_there"}
    assert there <= set(readable.split(" or "))


def test_the_page_has_every_metric() -> None:
    page = (DOCS / "watching.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == []


def test_every_metric_of_the_page_is_exported_or_said_not_to_be() -> None:
    page = (DOCS / "watching.md").read_text()
    table = page[page.index("## The names of metrics") : page.index("## In a picture")]
    shown = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert len(shown) > 20
    labels = {"group", "source", "split", "name"}
    assert shown - labels - set(NAMES) == {"held_by"}
    assert "`held_by` is not exported" in page
