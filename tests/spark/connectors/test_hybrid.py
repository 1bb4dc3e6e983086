"""A hybrid source reads a Delta table of history and then the topic that the table was copied from, on a real Spark
and a real broker.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from flip27_stream.connectors.kafka.values.rows import SCHEMA as KAFKA_ROWS
from flip27_stream.testing import wait_until
from tests.spark.support.history_and_topic import HistoryAndTopic
from tests.spark.support.kafka_queries import (
    AVAILABLE_NOW,
    CONTINUOUS,
    SECOND,
    T0,
    KafkaQueries,
    Output,
    arrived,
    write_times,
)
from tests.spark.support.programs.killed_query import Moment, kill_python_when

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]

TIME_LIMIT_S = 150.0


def history(queries: KafkaQueries, topic: str, **more: object) -> HistoryAndTopic:
    """Returns a query over a history and a topic, which writes the Delta table ``out``."""
    output = queries.output("out")
    return HistoryAndTopic(
        table=str(queries.output("history").table),
        bootstrap_servers=queries.broker.bootstrap_servers,
        topic=topic,
        output=str(output.table),
        checkpoint=str(output.checkpoint),
        **more,  # type: ignore[arg-type]
    )


def copied(query: HistoryAndTopic, times: Mapping[int, list[int]], rows_per_file: int = 30) -> None:
    """Writes the Delta table with the first records of each partition. Each file has records of every partition."""
    longest = max(len(ts) for ts in times.values())
    for first in range(0, longest, rows_per_file):
        rows = [
            {"topic": query.topic, "partition": p, "offset": o, "timestamp": ts[o] * 1000, "timestampType": 0}
            for p, ts in times.items()
            for o in range(first, min(first + rows_per_file, len(ts)))
        ]
        table = pa.Table.from_pylist(rows, KAFKA_ROWS).sort_by("timestamp")
        write_deltalake(query.table, table, mode="append")


def to_the_end(queries: KafkaQueries, query: HistoryAndTopic) -> None:
    """Runs the query until it has read all existing records."""
    running = query.start(queries.spark, **AVAILABLE_NOW)
    try:
        assert running.awaitTermination(int(TIME_LIMIT_S)), running.status
    finally:
        running.stop()


def index_of(document: Mapping[str, object]) -> int:
    """Returns the index of the source that is active in an offset."""
    enumerator = document["enumerator"]
    assert isinstance(enumerator, list)
    return int(enumerator[1]["index"])


def exactly_once(output: Output, topic: str, counts: Mapping[int, int]) -> None:
    assert output.positions() == Counter({(topic, p, o): 1 for p, n in counts.items() for o in range(n)})


def seconds(begin: int, end: int, step: int = 1) -> list[int]:
    return [T0 + s * SECOND for s in range(begin, end, step)]


@pytest.mark.parametrize("aligned", [False, True])
def test_the_seam_has_neither_gap_nor_double(queries: KafkaQueries, topic: MakeTopic, aligned: bool) -> None:
    """FLIP-150: a query reads the table, then the topic, and each record once. After a restart it reads records that
    were written meanwhile.
    """
    name = topic(2)
    query = history(queries, name, options=queries.aligned("10 s") if aligned else {})
    old, new = {0: seconds(0, 100), 1: seconds(0, 100, 2)}, {0: seconds(100, 160), 1: seconds(101, 160, 2)}
    copied(query, old)
    write_times(queries.broker, name, {p: old[p] + new[p] for p in old})
    output = queries.output()

    to_the_end(queries, query)

    exactly_once(output, name, {0: 160, 1: 80})
    offsets = output.offsets()
    assert [index_of(o) for o in offsets] == sorted(index_of(o) for o in offsets)
    assert {index_of(o) for o in offsets} == {0, 1}
    assert all(split.startswith("1:") for split in offsets[-1]["splits"])
    assert offsets[-1]["enumerator"][1]["end"] == T0 + 99 * SECOND
    running = query.start(queries.spark, **CONTINUOUS)
    write_times(queries.broker, name, {0: seconds(160, 170), 1: []})
    try:
        wait_until(lambda: arrived(running, output, 250), "the new records", TIME_LIMIT_S)
    finally:
        running.stop()
    exactly_once(output, name, {0: 170, 1: 80})


def test_records_of_an_overlap_are_told_apart_by_position(queries: KafkaQueries, topic: MakeTopic) -> None:
    """With an overlap the topic is read from before the end of the table, and each record once. The table lacks
    some records that are older than its newest one, because the copying job stopped among records that are out of
    order.
    """
    name, draw = topic(2), random.Random(5)
    times = {p: [T0 + (i + draw.randrange(20)) * SECOND for i in range(150)] for p in range(2)}
    old = {p: ts[:90] for p, ts in times.items()}
    assert min(t for p in times for t in times[p][90:]) < max(t for p in old for t in old[p])
    options = queries.aligned("60 s", max_out_of_orderness="20 s")
    query = history(queries, name, overlap_ms=30 * SECOND, options=options)
    copied(query, old)
    write_times(queries.broker, name, times)

    to_the_end(queries, query)

    exactly_once(queries.output(), name, {0: 150, 1: 150})


def test_an_exact_seam_is_at_offsets(queries: KafkaQueries, topic: MakeTopic) -> None:
    """With an exact seam the topic is read from the offsets at which the table ends, which tasks report. The table's
    event times cannot tell these offsets: they are an hour ahead and in no order. Partition 2 is not in the table at
    all.
    """
    name, draw = topic(3), random.Random(6)
    times = {p: [T0 + draw.randrange(300) * SECOND for _ in range(120)] for p in range(3)}
    query = history(queries, name, exact=True)
    copied(query, {p: [t + 3600 * SECOND for t in times[p][: 50 + 30 * p]] for p in range(2)})
    write_times(queries.broker, name, times)

    to_the_end(queries, query)

    output = queries.output()
    exactly_once(output, name, dict.fromkeys(range(3), 120))
    first = next(o for o in output.offsets() if index_of(o) == 1)
    begins = {split: state[3] for split, state in first["splits"].items() if split.startswith("1:")}
    assert begins == {f"1:{name}-0": 50, f"1:{name}-1": 80, f"1:{name}-2": 0}
    write_times(queries.broker, name, {p: seconds(0, 10) for p in range(3)})
    to_the_end(queries, query)
    exactly_once(output, name, dict.fromkeys(range(3), 130))


def test_a_query_killed_at_the_switch_neither_loses_nor_doubles(
    queries: KafkaQueries, topic: MakeTopic
) -> None:
    """HY-08, HY-17, HY-18: a query whose planner and workers are killed late in the history, at the switch and after
    it reads each record once. tests/connectors/hybrid/test_switch.py has all boundaries, three sources, and an empty
    first source.
    """
    name = topic(2)
    query = history(queries, name, rows=40, options=queries.aligned("20 s"))
    copied(query, {p: seconds(0, 60) for p in range(2)}, rows_per_file=20)
    write_times(queries.broker, name, {p: seconds(0, 200) for p in range(2)})
    output = queries.output()

    def planned(index: int, more: int) -> Moment:
        batches = [index_of(o) for o in output.offsets()].count(index) + more
        return lambda: [index_of(o) for o in output.offsets()].count(index) >= batches

    inside = []
    # The first new batch of a run announces it, and reads nothing.
    for index, more in ((0, 3), (1, 1), (1, 2), (1, 2)):
        kill_python_when(query.start(queries.spark, **CONTINUOUS), planned(index, more))
        inside.append(output.logged("offsets")[-1] > output.logged("commits")[-1])
    assert any(inside[1:]), "all kills from the switch on fell between two batches"
    to_the_end(queries, query)

    exactly_once(output, name, {0: 200, 1: 200})
    ends = {json.dumps(o["enumerator"][1].get("end")) for o in output.offsets() if index_of(o) == 1}
    assert ends == {str(T0 + 59 * SECOND)}
