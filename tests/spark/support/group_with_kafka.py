"""A check of a group of two sources: a Kafka topic that is an hour behind, and a source whose records have the
current time.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import timedelta

from pyspark.sql import DataFrame

from flip27_stream.testing import wait_until
from tests.spark.support.kafka_queries import HOUR, MINUTE, TIME_LIMIT_S, KafkaQueries, arrived
from tests.watermark_alignment.support.plots import titles
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

RECORDS = 60


def check_group_with_kafka(
    queries: KafkaQueries,
    topic: str,
    other: str,
    stream: Callable[[Mapping[str, str]], DataFrame],
    expected: Sequence[bytes],
) -> None:
    """Checks that a query over both sources has all their rows, and that it reads from the topic up to max-drift
    before the first rows of the other source.

    Args:
        queries: Has the session, the broker and the folder.
        topic: A new topic with one partition.
        other: The source id of the other source.
        stream: Makes the other stream of options of alignment, with the columns ``data`` and ``at``.
        expected: The data that the other source has.
    """
    now = time.time_ns() // 1_000_000
    records = [(0, now - HOUR + i * MINUTE, None, b"k%d" % i) for i in range(RECORDS)]
    queries.broker.write(topic, records)
    aligned = queries.aligned("30 minutes", idle_timeout="1 s")
    kafka = queries.stream(topic, aligned | {"scan.source.id": "kafka", "maxOffsetsPerTrigger": "10"})
    both = kafka.selectExpr("value AS data", "timestamp AS at").unionAll(
        stream(aligned | {"scan.source.id": other})
    )
    query, output = queries.start(both), queries.output()
    try:
        total = RECORDS + len(expected)
        wait_until(lambda: arrived(query, output, total), "all rows of both", TIME_LIMIT_S)
    finally:
        query.stop()
    values = [value for _, _, _, value in records]
    assert Counter(row["data"] for row in output.rows()) == Counter([*expected, *values])
    rows = queries.split_watermark_rows()
    assert {row["source"] for row in rows} == {"kafka", other}
    check_views(str(queries.split_watermarks), {(row["source"], row["split"]) for row in rows})
    first = min((r for r in rows if r["source"] == other and r["rows"]), key=lambda r: r["recorded_at"])
    read_before = [
        row["max_event_time"]
        for row in rows
        if row["source"] == "kafka" and row["rows"] and row["recorded_at"] <= first["recorded_at"]
    ]
    assert read_before, f"{other} was read before the topic"
    # The front of the topic is at most its next record, which is a minute after the last one that was read.
    assert first["max_event_time"] - max(read_before) <= timedelta(minutes=30 + 1)


def check_views(table: str, splits: Set[tuple[str, str]]) -> None:
    """Checks that status and plot show these splits, given by source and split."""
    status = StatusReader(SplitWatermarkTable(table, {})).read(time.time_ns() // 1_000_000)
    assert {(found.source, found.split) for found in status.splits} == splits
    assert all(found.watermark is not None for found in status.splits)
    figure = plot(table)
    assert titles(figure) == sorted({source for source, _ in splits})
    watermarks = [panel for panel in figure.axes if panel.get_title()]
    assert sum(len(panel.lines) for panel in watermarks) == len(splits)
