"""Metrics for Prometheus, which pulls them; needs the extra ``prometheus``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from watermark_alignment.monitoring.metrics import DROPPED, NAMES, PREFIX, Metrics


class StatusCollector(Collector):
    """Makes metric families of what a listener knows when Prometheus asks."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing, so that registering does not read the table."""
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
    """Answer ``GET /metrics`` on a port, in a daemon thread.

    Args:
        metrics: what a listener knows.
        port: 0 for any free one.
        address: where to listen.

    Returns:
        The server, which ``shutdown()`` ends, and its thread.
    """
    registry = CollectorRegistry()
    registry.register(StatusCollector(metrics))
    return start_http_server(port, address, registry)
