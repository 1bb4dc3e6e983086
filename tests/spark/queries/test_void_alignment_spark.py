"""``StatusListener`` on a real Spark warns of mistakes that make alignment useless."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.functions import col, expr
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from flip27_stream.testing import wait_until
from tests.spark.support.kafka_queries import SECOND, T0, KafkaQueries, records
from tests.spark.support.windowed_counts import count_windows
from watermark_alignment import StatusListener

pytestmark = pytest.mark.jvm

Topic = Callable[..., str]


class Listener(StatusListener):
    """A listener that tells when it was notified of the end of the query, and so of all its batches."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.has_ended = threading.Event()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        super().onQueryTerminated(event)
        self.has_ended.set()


@pytest.mark.parametrize(
    ("delay_ms", "shift", "warning"),
    [
        (10 * SECOND, 0, "The delay of withWatermark in query "),
        (11 * SECOND, 7_200, "uses another event time than alignment does"),
        (11 * SECOND, 0, None),
    ],
    ids=["delay", "column", "right"],
)
def test_each_mistake_in_with_watermark_is_warned_of_once(
    queries: KafkaQueries,
    topic: Topic,
    caplog: pytest.LogCaptureFixture,
    delay_ms: int,
    shift: int,
    warning: str | None,
) -> None:
    """A mistake in withWatermark gives one warning, and a correct withWatermark gives no warning. Max-drift is 10 s.
    The other column is two hours later.
    """
    name = topic(2)
    times = range(T0, T0 + 300 * SECOND, SECOND)
    queries.broker.write(name, records(0, times) + records(1, times))
    stream = queries.stream(name, {**queries.aligned(), "maxOffsetsPerTrigger": "150"})
    stream = stream.withColumn("timestamp", col("timestamp") + expr(f"make_dt_interval(0, 0, 0, {shift})"))
    with listening(queries):
        assert count_windows(stream, delay_ms, queries.folder / "checkpoint").total > 0
        if warning is not None:
            wait_until(lambda: any(warning in text for text in warnings(caplog)), warning, 60)
    assert sum("withWatermark in query" in text for text in warnings(caplog)) == (warning is not None)


@pytest.mark.parametrize(
    ("event_time", "warning"),
    [
        ("/time", "scan.watermark.event-time '/time' gives no event time for any of the "),
        ("/at", "Event times are 1,000 times too small"),
    ],
    ids=["missing", "seconds"],
)
def test_event_times_that_are_missing_or_in_seconds_are_warned_of_once(
    queries: KafkaQueries, topic: Topic, caplog: pytest.LogCaptureFixture, event_time: str, warning: str
) -> None:
    """The values have a time in seconds, at another pointer than the one that is given, or at that one."""
    name = topic(2)
    values = [(p, T0 + i * SECOND, b'{"at": %d}' % (T0 // SECOND + i)) for p in (0, 1) for i in range(300)]
    queries.broker.write(name, [(p, time, None, value) for p, time, value in values])
    aligned = queries.aligned(event_time=event_time)
    with listening(queries):
        queries.run(queries.stream(name, {**aligned, "maxOffsetsPerTrigger": "150"}))
        wait_until(lambda: any(warning in text for text in warnings(caplog)), warning, 60)
    assert sum(warning in text for text in warnings(caplog)) == 1


@contextmanager
def listening(queries: KafkaQueries) -> Iterator[None]:
    """Attaches a listener, and waits after the block for the end of the query."""
    listener = Listener(str(queries.split_watermarks))
    queries.spark.streams.addListener(listener)
    try:
        yield
        assert listener.has_ended.wait(60), "Spark tells listeners of the end of a query last"
    finally:
        queries.spark.streams.removeListener(listener)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno == logging.WARNING and r.name.startswith("watermark_alignment")
    ]
