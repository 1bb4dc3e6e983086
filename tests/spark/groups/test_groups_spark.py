"""Groups on a real Spark: two sources of a query, two queries of a session, two processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import expr

from benchmarks.support.processes import below
from flip27_stream.testing import wait_until
from tests.spark.support.kafka_queries import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    TIME_LIMIT_S,
    KafkaQueries,
    arrived,
    records,
)
from tests.spark.support.processes import alive, planners, quick_start

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
DRIFT = 10 * MINUTE
SOON = {"scan.watermark.alignment.update-interval": "100 ms"}


def test_a_join_of_topics_hours_apart_is_aligned(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I3, I4, rule 8: a join of clicks and orders, which are two topics of two hours, finds every pair with a delay
    just above max-drift. The run comes to its end by itself.
    """
    clicks, orders = topic(2), topic(1)
    minutes = range(0, 2 * 60, 3)
    queries.broker.write(
        clicks, [r for p in range(2) for r in records(p, [T0 + m * MINUTE for m in minutes])]
    )
    queries.broker.write(orders, records(0, [T0 + m * MINUTE + 20 * SECOND for m in minutes]))
    options = queries.aligned("30 minutes") | SOON | {"maxOffsetsPerTrigger": "30"}

    def side(name: str, alias: str) -> Any:
        stream = queries.stream(name, options).selectExpr("partition", "offset AS number", "timestamp AS at")
        return stream.withWatermark("at", "1801 seconds").alias(alias)

    joined = side(clicks, "click").join(
        side(orders, "order"),
        expr("click.number = order.number AND order.at BETWEEN click.at AND click.at + INTERVAL 1 MINUTE"),
    )
    output = queries.run(joined.selectExpr("click.partition", "click.number"))
    assert sorted((row["partition"], row["number"]) for row in output.rows()) == [
        (p, n) for p in range(2) for n in range(len(minutes))
    ]
    rows = queries.split_watermark_rows()
    assert len({row["source"] for row in rows}) == 2
    assert leads(rows) <= 30 * MINUTE


def leads(rows: list[dict[str, Any]]) -> float:
    """Returns how far (ms), at most, one source was read ahead of the published watermarks of the others. Fails if no
    source was read after another one had published.
    """
    said: dict[str, dict[str, float]] = {}
    found: list[float] = []
    for row in sorted(rows, key=lambda row: row["recorded_at"]):
        others = [at for source, splits in said.items() if source != row["source"] for at in splits.values()]
        if row["rows"] and row["max_event_time"] is not None and others:
            found.append(row["max_event_time"].timestamp() * 1000 - min(others) - 1)
        if row["watermark"] is not None:
            said.setdefault(row["source"], {})[row["split"]] = row["watermark"].timestamp() * 1000
    return max(found)


def test_kafka_and_files_in_two_queries_are_aligned(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I3: files wait for a Kafka topic of their group that is behind. When the query of the topic is stopped, its
    source leaves the group, and the files are read.
    """
    name, folder = topic(1), queries.folder / "files"
    queries.broker.write(name, records(0, [T0, T0 + MINUTE]))
    write_files(folder)
    options = queries.aligned("10 minutes", idle_timeout="1 hour") | SOON
    options |= {"scan.watermark.alignment.source-timeout": "10 minutes"}
    slow = queries.start(queries.stream(name, options), "slow")
    try:
        wait_until(lambda: arrived(slow, queries.output("slow"), 2), "the topic to be read", TIME_LIMIT_S)
        wait_until(lambda: committed(queries) >= 3, "its watermark to be known", TIME_LIMIT_S)
        by_time = options | {"scan.watermark.event-time": "time", "maxRowsPerTrigger": "5"}
        files = queries.spark.readStream.format("flip27_files").options(**by_time).load(str(folder))
        fast = queries.start(files, "fast")
        try:
            output = queries.output("fast")
            wait_until(lambda: arrived(fast, output, 11), "the files up to max-drift", TIME_LIMIT_S)
            queries.broker.write(name, records(0, [T0 + 5 * MINUTE]))
            wait_until(lambda: arrived(fast, output, 15), "the files to follow the topic", TIME_LIMIT_S)
            assert max(row["time"].timestamp() * 1000 for row in output.rows()) <= T0 + 15 * MINUTE
            slow.stop()
            wait_until(lambda: arrived(fast, output, 60), "the files to be free", TIME_LIMIT_S)
        finally:
            fast.stop()
    finally:
        slow.stop()


def write_files(folder: Path) -> None:
    """Writes an hour of rows, one per minute, with ten rows in a file and five in each of its row groups."""
    folder.mkdir()
    for begin in range(0, 60, 10):
        times = T0 + (begin + np.arange(10, dtype=np.int64)) * MINUTE
        column = pa.array(times, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"time": column}), folder / f"{begin}.parquet", row_group_size=5)


def committed(queries: KafkaQueries) -> int:
    return len(list((queries.split_watermarks / "_delta_log").glob("*.json")))


@contextmanager
def other_process(
    queries: KafkaQueries, name: str, options: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a separate driver program that reads a topic, and yields its process."""
    arguments = [json.dumps(queries.kafka(name, options)), str(queries.output("other").table)]
    with (queries.folder / "member.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.support.programs.group_member", *arguments],
            stdout=log,
            stderr=log,
            env=os.environ | quick_start(),
        )
        try:
            yield process
        finally:
            kill_all(process)


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kills the driver, its JVM and its planning process, so that none of them can leave the group."""
    family = [*below(process.pid), process.pid]
    for pid in family:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    process.wait(TIME_LIMIT_S)
    wait_until(lambda: not any(alive(pid) for pid in family), "them to be gone", TIME_LIMIT_S)


def test_a_group_goes_on_after_one_process_is_killed(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I3, AL-20: rows that a source in another process holds back are read after that process was killed, but not
    before the source timeout has passed since its last entry. A query that is stopped leaves its group.
    """
    slow, fast = topic(1), topic(1)
    queries.broker.write(slow, records(0, [T0]))
    queries.broker.write(fast, records(0, [T0, T0 + DRIFT, T0 + DRIFT + 1, T0 + HOUR]))
    options = queries.aligned("10 minutes", idle_timeout="1 hour")
    options |= {"scan.watermark.alignment.source-timeout": "10 s"}
    with other_process(queries, slow, options) as process:
        other = queries.output("other")
        wait_until(lambda: other.count() == 1, "the other process to read", 2 * TIME_LIMIT_S)
        (holder,) = {entry["source"] for entry in told(queries)}
        query, output = queries.start(queries.stream(fast, options)), queries.output()
        try:
            wait_until(lambda: arrived(query, output, 2), "what is within the drift", TIME_LIMIT_S)
            seen = entries(queries)
            wait_until(lambda: entries(queries) >= seen + 4, "both hearts to beat on", TIME_LIMIT_S)
            assert output.count() == 2
            kill_all(process)
            wait_until(lambda: arrived(query, output, 4), "what the dead one held", TIME_LIMIT_S)
            heard = max(entry["told_at"] for entry in told(queries) if entry["source"] == holder)
            assert output.commits()[-1].stat().st_mtime * 1000 >= heard + 10_000
            with frozen(planners()):
                query.stop()
                assert not told(queries)[-1]["left"]  # Spark does not wait for the planner that it ends
        finally:
            query.stop()
    wait_until(lambda: told(queries)[-1]["left"], "the query that was stopped to leave", TIME_LIMIT_S)


@contextmanager
def frozen(processes: list[int]) -> Iterator[None]:
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


def entries(queries: KafkaQueries) -> int:
    return len(told(queries))


def told(queries: KafkaQueries) -> list[dict[str, Any]]:
    """Returns the entries that the members have published, in order. ``told_at`` is the time (ms) of the commit."""
    found = []
    for commit in sorted((queries.split_watermarks / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            commit_info = json.loads(line).get("commitInfo", {})
            if text := commit_info.get("flip27.member"):
                found.append(json.loads(text) | {"told_at": commit_info["timestamp"]})
    return found
