"""The export of metrics to Prometheus, which pulls them. It needs the extra ``prometheus``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from watermark_alignment.monitoring.metrics import DROPPED, NAMES, PREFIX, Metrics


class StatusCollector(Collector):
    """Returns the metrics of a listener as metric families when Prometheus requests them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> list[GaugeMetricFamily]:
        """Returns an empty list, so that registering does not read the table."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        families = {
            name: (CounterMetricFamily if name == DROPPED else GaugeMetricFamily)(
                f"{PREFIX}_{name}", meaning, labels=labels
            )
            for name, (labels, meaning) in NAMES.items()
        }
        for sample in self._metrics.samples():
            families[sample.name].add_metric(sample.labels, sample.value)
        yield from (family for family in families.values() if family.samples)


def serve(metrics: Metrics, port: int, address: str) -> tuple[WSGIServer, threading.Thread]:
    """Serves ``GET /metrics`` on a port, in a daemon thread.

    Args:
        metrics: The metrics of a listener.
        port: The port; 0 for any free port.
        address: The address to listen on.

    Returns:
        The server and its thread. The server's ``shutdown()`` ends both.
    """
    registry = CollectorRegistry()
    registry.register(StatusCollector(metrics))
    return start_http_server(port, address, registry)
