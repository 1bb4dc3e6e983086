"""Each record exactly once, and aligned, over restarts: tidy ones, and kill -9 of the driver at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from flip27_stream.testing import wait_until
from tests.spark.driver import Assignment
from tests.spark.kafka_queries import HOUR, PATIENCE_S, SECOND, T0, KafkaQueries, Output, records
from tests.spark.processes import alive, descendants

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
Times = Mapping[int, list[int]]
DRIFT = 10 * SECOND
EACH = 160

QUICK_START = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"}
"""A JVM that lives for seconds is best off without the optimising compiler."""


def skewed() -> Times:
    """Partition 0 is hours behind the others."""
    spans = {0: (T0, T0 + 6 * HOUR), 1: (T0 + 4 * HOUR, T0 + 6 * HOUR), 2: (T0 + 5 * HOUR, T0 + 6 * HOUR)}
    return {p: [a + (b - a) * i // EACH for i in range(EACH)] for p, (a, b) in spans.items()}


def write(queries: KafkaQueries, topic: str, times: Times) -> None:
    queries.broker.write(topic, [record for p, ts in times.items() for record in records(p, ts)])


def positions(document: Mapping[str, object], topic: str) -> dict[int, int]:
    """How far each partition is read, by an offset document."""
    splits: Mapping[str, list[int]] = document["splits"]  # type: ignore[assignment]
    return {int(split.removeprefix(f"{topic}-")): entry[0] for split, entry in splits.items()}


def drift(read: Mapping[int, int], times: Times, skipped: int = 0) -> int:
    """Greatest event time read minus the least front of the partitions that are not at their end."""
    seen = [max(times[p][:n]) for p, position in read.items() if (n := position - skipped) > 0]
    fronts = [max(times[p][: n + 1]) for p, position in read.items() if (n := position - skipped) < EACH]
    return max(seen) - min(fronts) if seen and fronts else 0


def test_a_stopped_query_goes_on_where_it_was(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I3, AL-19, AS-12: exactly once; aligned from the first batch after the restart, whichever trigger it has."""
    name, times = topic(3), skewed()
    write(queries, name, times)
    limited = queries.aligned("10 s") | {"maxOffsetsPerTrigger": "120"}
    for rows in (120, 360):
        output = queries.run_continuously(queries.stream(name, limited), rows)
    queries.run(queries.stream(name, limited))
    assert output.positions() == {(name, p, n): 1 for p in times for n in range(EACH)}
    assert max(drift(positions(o, name), times) for o in output.offsets()) <= DRIFT


@dataclass(frozen=True)
class Lineage:
    """A query whose driver is started and killed over and over, on one checkpoint."""

    queries: KafkaQueries
    options: Mapping[str, str]
    sink: str

    @property
    def output(self) -> Output:
        return self.queries.output()

    @contextmanager
    def driver(self, *, to_the_end: bool = False, **options: str) -> Iterator[subprocess.Popen[bytes]]:
        """A running driver; at the end it is killed, and all that it had started is gone."""
        output = self.output
        assignment = Assignment(
            {**self.options, **options}, self.sink, str(output.table), str(output.checkpoint), to_the_end
        )
        command = [sys.executable, "-m", "tests.spark.driver", assignment.to_json()]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | QUICK_START)
        try:
            yield process
        finally:
            family = descendants(process.pid)
            process.kill()
            process.wait()
            wait_until(lambda: not any(map(alive, family)), "the end of the JVM and the planner", PATIENCE_S)

    @property
    def log(self) -> Path:
        return self.queries.folder / "driver.log"

    def kill_when(self, moment: Callable[[], bool], what: str, delay_s: float = 0) -> None:
        """Run a driver and kill it (SIGKILL) as soon as ``moment``, or so long after it."""
        deadline = time.monotonic() + PATIENCE_S
        with self.driver() as process:
            while not moment():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"It never came to {what}:\n{self.log.read_text()[-4000:]}")
                time.sleep(0.001)
            time.sleep(delay_s)
            os.kill(process.pid, signal.SIGKILL)

    def finish(self) -> None:
        """Run to the end of what there is."""
        with self.driver(to_the_end=True, maxOffsetsPerTrigger="200") as process:
            assert process.wait(PATIENCE_S) == 0, self.log.read_text()[-4000:]

    def files(self, pattern: str) -> set[Path]:
        return set(self.queries.folder.glob(pattern))


Kill = Callable[[Lineage], None]


def when_logged(kind: str, more: int, delay_s: float = 0) -> Kill:
    """So many new entries in a log of the checkpoint."""

    def kill(lineage: Lineage) -> None:
        wanted = len(lineage.output.logged(kind)) + more
        what = f"{wanted} {kind}"
        lineage.kill_when(lambda: len(lineage.output.logged(kind)) >= wanted, what, delay_s)

    return kill


def when_written(pattern: str, more: int = 1) -> Kill:
    """So many new files."""

    def kill(lineage: Lineage) -> None:
        before = lineage.files(pattern)
        lineage.kill_when(lambda: len(lineage.files(pattern) - before) >= more, pattern)

    return kill


KILLS: Mapping[str, Kill] = {
    "batch 0 committed": when_logged("commits", 1),
    "between offset log and commit log": when_logged("offsets", 1),
    "early in a batch": when_logged("offsets", 1, delay_s=0.1),
    "late in a batch": when_logged("offsets", 1, delay_s=0.4),
    "planning the next batch": when_logged("commits", 1, delay_s=0.05),
    "data files written": when_written("out/*.parquet", 2),
    "split watermarks written": when_written("split_watermarks/_delta_log/*.json"),
}


@pytest.mark.timeout(600)
def test_a_driver_killed_at_any_moment_neither_loses_nor_doubles(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """Facts 4, 5, 10, PY-09: killed inside batch 0 with startingOffsets latest, and then at seven other moments."""
    name, old = topic(3), 7
    write(queries, name, {p: [T0 - HOUR] * old for p in range(3)})
    options = {"startingOffsets": "latest", "maxOffsetsPerTrigger": "15"}
    lineage = Lineage(queries, queries.kafka(name, queries.aligned("10 s") | options), "delta")
    output, times = lineage.output, skewed()

    when_logged("offsets", 1)(lineage)
    assert output.logged("commits") == [], "killed too late to be inside batch 0"
    write(queries, name, times)
    assert positions(output.offset(0), name) == dict.fromkeys(range(3), old)
    kills_inside = 0
    for kill in KILLS.values():
        kill(lineage)
        kills_inside += len(output.logged("offsets")) > len(output.logged("commits"))
    assert kills_inside >= 3, "nearly all kills fell between two batches"
    lineage.finish()

    assert output.positions() == {(name, p, n): 1 for p in times for n in range(old, old + EACH)}
    offsets = output.offsets()
    assert max(drift(positions(o, name), times, skipped=old) for o in offsets) <= DRIFT
    assert {o["lineage"] for o in offsets} == {offsets[0]["lineage"]}
    assert all(after["batch"] == before["batch"] + 1 for before, after in pairwise(offsets))


@pytest.mark.timeout(400)
def test_a_killed_foreach_batch_with_transaction_ids_neither_loses_nor_doubles(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """The way to write exactly once from foreachBatch: txnAppId and txnVersion."""
    name, times = topic(3), skewed()
    write(queries, name, times)
    options = queries.aligned("10 s") | {"maxOffsetsPerTrigger": "30"}
    lineage = Lineage(queries, queries.kafka(name, options), "foreach_batch")
    table_committed = when_written("out/_delta_log/*.json")
    for kill in (table_committed, when_logged("offsets", 1), table_committed):
        kill(lineage)
    lineage.finish()
    assert lineage.output.positions() == {(name, p, n): 1 for p in times for n in range(EACH)}
