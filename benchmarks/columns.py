"""Measures columns of the user's schema, beside the same columns with the built-in source.

Two columns of the record are compared with ``select``. JSON with six fields, of which one is summed, is compared with
``from_json``. ``python -m benchmarks.columns``
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from benchmarks.support.backlog import JSON_SCHEMA, WrittenTopic
from benchmarks.support.command import run
from benchmarks.support.environment import Environment
from benchmarks.support.metered import Metered, cpu_a_row
from benchmarks.support.results import Result, at_least
from benchmarks.support.streams import BUILTIN, OURS, drain, stream
from benchmarks.support.turns import pairs, speeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def measure(environment: Environment) -> Iterator[Result]:
    yield _two_columns(environment, WrittenTopic(environment.sizes.records))
    yield from _json(environment, WrittenTopic(environment.sizes.records, json=True))


def _two_columns(environment: Environment, backlog: WrittenTopic) -> Result:
    size = environment.value_bytes(backlog)

    def builtin() -> float:
        frame = stream(environment, BUILTIN, backlog.topic).select("value", "timestamp")
        return sum(drain(frame, backlog.records))

    def ours() -> float:
        frame = stream(environment, OURS, backlog.topic, "value binary, timestamp timestamp")
        return sum(drain(frame, backlog.records))

    seconds = pairs(builtin, ours, environment.sizes.pairs, environment.sizes.warm_up)
    return speeds("value and timestamp, by schema", backlog.records, size, seconds, at_least(4))


def _json(environment: Environment, backlog: WrittenTopic) -> Iterator[Result]:
    size = environment.value_bytes(backlog)
    sums: dict[str, int] = {}

    def summed(fmt: str, frame: DataFrame) -> float:
        def add(batch: DataFrame, _: int) -> None:
            (row,) = batch.agg(sf.sum("cents")).collect()
            sums[fmt] = row[0]

        return sum(drain(frame, backlog.records, add))

    def builtin() -> float:
        value = sf.from_json(sf.col("value").cast("string"), JSON_SCHEMA)
        return summed(
            BUILTIN, stream(environment, BUILTIN, backlog.topic).select(value.alias("v")).select("v.*")
        )

    def ours() -> float:
        return summed(OURS, stream(environment, OURS, backlog.topic, JSON_SCHEMA, **{"value.format": "json"}))

    beside, own = (Metered(work, environment.broker.pid) for work in (builtin, ours))
    seconds = pairs(beside, own, environment.sizes.pairs, environment.sizes.warm_up)
    if sums[BUILTIN] != sums[OURS]:
        raise RuntimeError(f"the sums differ: {sums}")
    yield speeds("JSON, 6 fields, sum of one", backlog.records, size, seconds, at_least(3))
    yield cpu_a_row("JSON, 6 fields, sum of one", backlog.records, beside, own, environment.sizes.pairs)


if __name__ == "__main__":
    run([measure])
