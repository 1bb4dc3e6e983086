"""Measures the layers that this project writes by hand, each beside the library that could replace it.

Spark does not run. Two pairs of :mod:`benchmarks.layers.kafka` need a broker. ``python -m benchmarks.layers``
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.layers import files, kafka, kinesis, planning, values
from benchmarks.support.environment import Environment
from benchmarks.support.results import Result


def measure(environment: Environment) -> Iterator[Result]:
    yield from kafka.measure_with_broker(environment)
    yield from measure_without_broker(environment)


def measure_without_broker(environment: Environment) -> Iterator[Result]:
    for module in (kafka, values, kinesis, files, planning):
        yield from module.measure(environment)
