"""The export of metrics to OpenTelemetry, by OTLP over HTTP. It needs the extra ``opentelemetry``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from watermark_alignment.monitoring.metrics import DROPPED, NAMES, PREFIX, Metrics, Sample

_FIRST = next(iter(NAMES))


def export(metrics: Metrics, endpoint: str | None, every_ms: int) -> MeterProvider:
    """Pushes metrics to a collector, in a daemon thread.

    Args:
        metrics: The metrics of a listener.
        endpoint: A URL such as ``http://collector:4318/v1/metrics``; by default that of the standard environment
            variables such as ``OTEL_EXPORTER_OTLP_ENDPOINT``.
        every_ms: The interval between pushes (ms).

    Returns:
        The provider. Its ``shutdown()`` ends the export.
    """
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint), export_interval_millis=every_ms)
    provider = MeterProvider([reader])
    register(metrics, provider)
    return provider


def register(metrics: Metrics, provider: MeterProvider) -> None:
    """Creates an instrument for each metric. The table is read once for all of them when they are collected."""
    meter = provider.get_meter(PREFIX)
    latest: list[Sample] = []

    def observed(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def callback(_: CallbackOptions) -> Iterable[Observation]:
            if name == _FIRST:
                latest[:] = metrics.samples()
            return [
                Observation(float(sample.value), dict(zip(NAMES[name][0], sample.labels, strict=True)))
                for sample in latest
                if sample.name == name
            ]

        return callback

    for name, (_, meaning) in NAMES.items():
        create = meter.create_observable_counter if name == DROPPED else meter.create_observable_gauge
        create(f"{PREFIX}.{name}", [observed(name)], description=meaning)
