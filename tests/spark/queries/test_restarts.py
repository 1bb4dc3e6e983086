"""Each record is read exactly once, and aligned, across restarts: after stop(), and after kill -9 at any moment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.spark.support.kafka_queries import (
    AVAILABLE_NOW,
    HOUR,
    SECOND,
    T0,
    KafkaQueries,
    Output,
    finish,
    write_times,
)
from tests.spark.support.programs.driver import FOREACH_BATCH, SINK, Assignment
from tests.spark.support.programs.killed_query import Moment, driver, kill_python_when, logged, written

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
Times = Mapping[int, list[int]]
DRIFT = 10 * SECOND
EACH = 160


def skewed() -> Times:
    """Returns the event times of each partition. Partition 0 is hours behind the others."""
    spans = {0: (T0, T0 + 6 * HOUR), 1: (T0 + 4 * HOUR, T0 + 6 * HOUR), 2: (T0 + 5 * HOUR, T0 + 6 * HOUR)}
    return {p: [a + (b - a) * i // EACH for i in range(EACH)] for p, (a, b) in spans.items()}


def positions(document: Mapping[str, object], topic: str) -> dict[int, int]:
    """Returns the position of each partition in an offset document."""
    splits: Mapping[str, list[int]] = document["splits"]  # type: ignore[assignment]
    return {int(split.removeprefix(f"{topic}-")): entry[0] for split, entry in splits.items()}


def drift(read: Mapping[int, int], times: Times, skipped: int = 0) -> int:
    """Returns the greatest event time read, less the least front of the partitions that are not at their end."""
    seen = [max(times[p][:n]) for p, position in read.items() if (n := position - skipped) > 0]
    fronts = [max(times[p][: n + 1]) for p, position in read.items() if (n := position - skipped) < EACH]
    return max(seen) - min(fronts) if seen and fronts else 0


def test_a_stopped_query_goes_on_where_it_was(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I3, AL-19, AS-12: a query that is stopped and started again reads each record once. It is aligned from the
    first batch after each restart on, with continuous triggers and with AvailableNow.
    """
    name, times = topic(3), skewed()
    write_times(queries.broker, name, times)
    limited = queries.aligned("10 s") | {"maxOffsetsPerTrigger": "120"}
    for rows in (120, 360):
        output = queries.run_continuously(queries.stream(name, limited), rows)
    queries.run(queries.stream(name, limited))
    assert output.positions() == {(name, p, n): 1 for p in times for n in range(EACH)}
    assert max(drift(positions(o, name), times) for o in output.offsets()) <= DRIFT


def check(output: Output, name: str, times: Times, before: int = 0) -> None:
    """Checks that each record was read once, aligned in each batch, in one lineage without a gap."""
    assert output.positions() == {(name, p, n): 1 for p in times for n in range(before, before + EACH)}
    offsets = output.offsets()
    assert max(drift(positions(o, name), times, skipped=before) for o in offsets) <= DRIFT
    assert {o["lineage"] for o in offsets} == {offsets[0]["lineage"]}
    assert all(after["batch"] == before["batch"] + 1 for before, after in pairwise(offsets))


def is_inside(output: Output) -> bool:
    """Whether a batch was planned and not committed."""
    return len(output.logged("offsets")) > len(output.logged("commits"))


Kill = Callable[[KafkaQueries], tuple[Moment, float]]


def when_logged(kind: str, delay_s: float = 0, more: int = 2) -> Kill:
    return lambda queries: (logged(queries.output(), kind, more), delay_s)


def when_written(pattern: str, more: int = 2) -> Kill:
    return lambda queries: (written(queries.folder, pattern, more), 0)


# The first batch of a run reads nothing, so most kills come in the second one.
KILLS: Mapping[str, Kill] = {
    "batch 0 committed": when_logged("commits", more=1),
    "between offset log and commit log": when_logged("offsets"),
    "early in a batch": when_logged("offsets", delay_s=0.1),
    "late in a batch": when_logged("offsets", delay_s=0.4),
    "planning the next batch": when_logged("commits", delay_s=0.05),
    "data files written": when_written("out/*.parquet"),
    "split watermarks being written": when_written("split_watermarks/*.parquet"),
}


def test_a_query_killed_at_any_moment_neither_loses_nor_doubles(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """Facts 4, 5, 10, PY-09: a query reads each record once although its planner and workers are killed at seven
    moments, one after the other.
    """
    name, times = topic(3), skewed()
    write_times(queries.broker, name, times)
    options = queries.aligned("10 s") | {"maxOffsetsPerTrigger": "15"}
    stream, output, kills_inside = queries.stream(name, options), queries.output(), 0
    for kill in KILLS.values():
        moment, delay_s = kill(queries)
        kill_python_when(queries.start(stream), moment, delay_s)
        kills_inside += is_inside(output)
    assert kills_inside, "all kills fell between two batches"
    queries.run(queries.stream(name, options | {"maxOffsetsPerTrigger": "200"}))
    check(output, name, times)


def _kill_inside_batch_0(assignment: Assignment, output: Output, log: Path) -> None:
    """Kills the driver while batch 0 runs. A kill that comes too late is repeated with a new query."""
    for _ in range(5):
        with driver("tests.spark.support.programs.driver", assignment.to_json(), log) as kill_when:
            kill_when(logged(output, "offsets"), "batch 0")
        if not output.logged("commits"):
            return
        for folder in (output.checkpoint, output.table):
            shutil.rmtree(folder, ignore_errors=True)
    raise AssertionError("each of five kills came after batch 0 was committed")


def _kill_between_write_and_commit(assignment: Assignment, output: Output, log: Path) -> None:
    """Kills the driver while a batch is in the table and not committed. A kill that comes too late is repeated."""
    for _ in range(5):
        count = output.count()

        def is_written(before: int = count) -> bool:
            return output.count() > before

        with driver("tests.spark.support.programs.driver", assignment.to_json(), log) as kill_when:
            kill_when(is_written, "a batch in the table, and not committed")
        if is_inside(output):
            return
    raise AssertionError("each of five kills came after the batch was committed")


def test_a_killed_driver_neither_loses_nor_doubles(queries: KafkaQueries, topic: MakeTopic) -> None:
    """Facts 4, 5, 10, PY-09: queries read each record once although their driver is killed with its JVM. It is killed
    inside batch 0 with startingOffsets latest, and when a batch of another query is in the table and not committed.
    With txnAppId and txnVersion foreachBatch writes exactly once.
    """
    name, times, old = topic(3), skewed(), 7
    write_times(queries.broker, name, {p: [T0 - HOUR] * old for p in range(3)})
    begin = json.dumps({name: {str(p): old for p in range(3)}})
    options = queries.aligned("10 s") | {"maxOffsetsPerTrigger": "30", "startingOffsets": begin}
    assignment = Assignment(queries.kafka(name, options), str(queries.folder))
    outputs = {query: queries.output(query) for query in (SINK, FOREACH_BATCH)}
    log = queries.folder / "driver.log"

    # Only one query: Spark 4.2 refuses to start a query again that was killed while it wrote its first offset.
    _kill_inside_batch_0(replace(assignment, queries=[SINK]), outputs[SINK], log)
    write_times(queries.broker, name, times)
    assert positions(outputs[SINK].offset(0), name) == dict.fromkeys(range(3), old)
    _kill_between_write_and_commit(assignment, outputs[FOREACH_BATCH], log)

    faster = replace(assignment, options=assignment.options | {"maxOffsetsPerTrigger": "200"})
    for query in outputs:
        finish(faster.start(queries.spark, query, **AVAILABLE_NOW))
        check(outputs[query], name, times, before=old)
