"""I4 on a real Spark and a real broker: a windowed count with a delay above max-drift + max-out-of-orderness drops no
row. With the built-in source it drops rows.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import col, get_json_object, timestamp_millis

from flip27_stream.testing import KafkaRecord, wait_until
from tests.spark.support.kafka_queries import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    TIME_LIMIT_S,
    KafkaQueries,
    arrived,
    finish,
    records,
)
from tests.spark.support.transactions import write_transaction
from tests.spark.support.windowed_counts import WindowedCounts, count_windows

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
DRIFT = 10 * SECOND


def spread(start: int, end: int, number: int) -> list[int]:
    """Returns a number of event times, spread evenly from start to end."""
    return [start + (end - start) * i // number for i in range(number)]


def one_hours_behind() -> list[KafkaRecord]:
    recent = [records(p, spread(T0 + 5 * HOUR, T0 + 6 * HOUR, 100)) for p in (1, 2)]
    return sum(recent, records(0, spread(T0, T0 + 6 * HOUR, 100)))


def one_empty() -> list[KafkaRecord]:
    """Returns records of partitions 0 and 2. Partition 1 stays empty."""
    return records(0, spread(T0, T0 + HOUR, 100)) + records(2, spread(T0 + HOUR, T0 + 2 * HOUR, 100))


def bursts() -> list[KafkaRecord]:
    """Returns bursts of 25 records with long silences between. Each partition has them at other times."""
    moments = {0: (0, 1, 2, 11), 1: (0, 9, 10, 11), 2: (5, 6, 7, 11)}
    return [
        record
        for p, hours in moments.items()
        for record in records(p, [T0 + h * HOUR + i for h in hours for i in range(25)])
    ]


def many_of_one_millisecond() -> list[KafkaRecord]:
    """Returns more records of one event time than a batch may have."""
    later = [records(p, [T0 + HOUR] * 100 + [T0 + 2 * HOUR]) for p in (1, 2)]
    return sum(later, records(0, [T0] * 90 + [T0 + HOUR] * 10))


def disorderly() -> list[KafkaRecord]:
    """Returns records whose event times fall back by up to 5 s within a partition."""
    draw = random.Random(27)
    behind = [t - draw.randrange(5 * SECOND + 1) for t in spread(T0 + 5 * SECOND, T0 + 10 * MINUTE, 100)]
    ahead = [t - draw.randrange(5 * SECOND + 1) for t in spread(T0 + 9 * MINUTE, T0 + 10 * MINUTE, 100)]
    return records(0, behind) + records(1, ahead)


SHAPES: dict[str, tuple[Callable[[], list[KafkaRecord]], int]] = {
    "one hours behind": (one_hours_behind, 0),
    "one empty": (one_empty, 0),
    "bursts": (bursts, 0),
    "many of one millisecond": (many_of_one_millisecond, 0),
    "disorder": (disorderly, 5 * SECOND),
}


def count_both(
    queries: KafkaQueries, topic: str, delay_ms: int, options: dict[str, str], limit: int = 60
) -> tuple[WindowedCounts, WindowedCounts]:
    """Returns the counts with our source, and with the built-in source under the same limit and delay."""
    limited = {"maxOffsetsPerTrigger": str(limit)}
    kafka = {key: value for key, value in options.items() if key.startswith("kafka.")}
    ours = queries.stream(topic, limited | options)
    theirs = queries.stream(topic, limited | kafka, source="kafka")
    return (
        count_windows(ours, delay_ms, queries.folder / "ours"),
        count_windows(theirs, delay_ms, queries.folder / "theirs"),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_no_row_is_lost(queries: KafkaQueries, topic: MakeTopic, shape: str) -> None:
    """I2, I3, I4, AL-01: a windowed count drops no row, and at every batch boundary the drift is within max-drift."""
    (make, disorder), name = SHAPES[shape], topic(3)
    written = make()
    queries.broker.write(name, written)
    options = queries.aligned("10 s", max_out_of_orderness=f"{disorder} ms")
    ours, theirs = count_both(queries, name, DRIFT + disorder + SECOND, options)
    assert ours.total == len(written)
    assert theirs.total < len(written), "the shape is harmless"
    table = queries.split_watermark_rows()
    assert len({row["batch"] for row in table}) >= len(written) // 60
    assert max(row["drift_ms"] for row in table if row["drift_ms"] is not None) <= DRIFT
    assert {row["status"] for row in table} <= {"ACTIVE", "PAUSED", "IDLE", "FINISHED"}
    assert sum(row["rows"] for row in table) == len(written)


@pytest.mark.parametrize("event_time", ["/at/0", "tests.spark.support.event_times:from_value"])
def test_no_row_is_lost_with_event_times_of_the_payload(
    queries: KafkaQueries, topic: MakeTopic, event_time: str
) -> None:
    """I4: a windowed count drops no row if event times are in the payload. Positions are found by probing, since the
    records' own timestamps are misleading.
    """
    name = topic(2)
    pointer = event_time.startswith("/")
    times = [spread(T0, T0 + 6 * HOUR, 100), spread(T0 + 5 * HOUR, T0 + 6 * HOUR, 100)]
    queries.broker.write(
        name,
        [
            (p, T0 - i, None, (json.dumps({"at": [t]}) if pointer else str(t)).encode())
            for p in (0, 1)
            for i, t in enumerate(times[p])
        ],
    )
    value = col("value").cast("string")
    millis = (get_json_object(value, "$.at[0]") if pointer else value).cast("bigint")
    counted = {}
    for source, options in (("flip27_kafka", queries.aligned("10 s", event_time=event_time)), ("kafka", {})):
        stream = queries.stream(name, {"maxOffsetsPerTrigger": "60"} | options, source)
        stream = stream.select("partition", timestamp_millis(millis).alias("timestamp"))
        counted[source] = count_windows(stream, DRIFT + SECOND, queries.folder / source).total
    assert counted["flip27_kafka"] == 200
    assert counted["kafka"] < 200


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_no_row_is_lost_of_a_transactional_topic(
    queries: KafkaQueries, topic: MakeTopic, isolation: str
) -> None:
    """I12, KE-11: a windowed count drops no row of a transactional topic, whose markers have the time of the clock.

    Aborted records, which are not read, may be far ahead in event time.
    """
    name, committed = topic(2), isolation == "read_committed"
    behind, ahead = spread(T0, T0 + 6 * HOUR, 80), spread(T0 + 5 * HOUR, T0 + 6 * HOUR, 80)
    for i in range(0, 80, 20):
        write_transaction(queries.broker, name, records(0, behind[i : i + 20]))
        aborted = T0 + 5 * HOUR if committed else behind[i + 19]
        write_transaction(queries.broker, name, records(0, [aborted] * 3), commit=False)
        write_transaction(queries.broker, name, records(1, ahead[i : i + 20]))
    options = queries.aligned("10 s") | {"kafka.isolation.level": isolation}
    ours, theirs = count_both(queries, name, DRIFT + SECOND, options)
    assert ours.total == (160 if committed else 172)
    assert theirs.total < ours.total


@pytest.mark.parametrize("policy", ["fail", "skip", "pass"])
def test_a_record_of_the_year_2099_does_not_move_the_watermark(
    queries: KafkaQueries, topic: MakeTopic, policy: str
) -> None:
    """I12, rule 6: a record with an implausible event time holds no split back, and an option says what happens to
    it.
    """
    name, poison = topic(2), 4_070_908_800_000
    times = spread(T0, T0 + HOUR, 50)
    queries.broker.write(name, records(0, [*times[:10], poison, *times[10:]]) + records(1, times))
    options = queries.aligned("10 s", implausible_event_time=policy) | {"maxOffsetsPerTrigger": "40"}
    stream = queries.stream(name, options)
    if policy == "fail":
        writer = stream.writeStream.format("noop").trigger(availableNow=True)
        with pytest.raises(StreamingQueryException) as error:
            finish(writer.option("checkpointLocation", str(queries.folder / "checkpoint")).start())
        for words in (f"{name}-0", "position 10", "2099-01-01", "max-future"):
            assert words in str(error.value)
    elif policy == "skip":
        counted = count_windows(stream, DRIFT + SECOND, queries.folder / "counted")
        assert counted.total == 100
    else:
        output = queries.run(stream)
        assert output.positions() == {(name, p, n): 1 for p in (0, 1) for n in range(51 - p)}


def test_catching_up_does_not_depend_on_max_drift(queries: KafkaQueries, topic: MakeTopic) -> None:
    """I7: balanced partitions take the same number of batches with any max-drift. The first batch of a run only
    announces it.
    """
    name = topic(3)
    for p in range(3):
        queries.broker.write(name, records(p, spread(T0, T0 + 6 * HOUR, 160)))
    batches = {}
    for drift in ("1 s", "1 h"):
        stream = queries.stream(name, queries.aligned(drift) | {"maxOffsetsPerTrigger": "165"})
        output = queries.run(stream, drift.replace(" ", ""))
        assert output.count() == 480
        batches[drift] = len(output.logged("commits"))
    assert set(batches.values()) == {1 + 3}


def test_a_partition_that_falls_silent_stops_holding(queries: KafkaQueries, topic: MakeTopic) -> None:
    """WM-06, I9: a record that is far ahead is read once the other partition has been empty for longer than the
    timeout.
    """
    name = topic(2)
    queries.broker.write(name, records(0, [T0]) + records(1, [T0, T0 + HOUR]))
    stream = queries.stream(name, queries.aligned("10 s", idle_timeout="1 s"))
    output = queries.run_continuously(stream, 3)
    ranges = [{split: entry[0] for split, entry in o["splits"].items()} for o in output.offsets()]
    assert ranges == [{f"{name}-0": a, f"{name}-1": b} for a, b in ((0, 0), (1, 1), (1, 2))]


def test_idleness_outlasts_a_restart_and_ends_with_data(queries: KafkaQueries, topic: MakeTopic) -> None:
    """WM-06, I9, AL-19: a partition stays idle across a restart, because the offset has the time at which it fell
    silent. The test moves that time an hour back. Once the partition has data it counts again, with its own front.
    """
    name = topic(2)
    stream = queries.stream(name, queries.aligned("10 s", idle_timeout="1 hour"))
    output = queries.output()

    def wait_for(rows: int) -> None:
        wait_until(lambda: arrived(query, output, rows), f"{rows} rows", TIME_LIMIT_S)

    def statuses() -> dict[str, str]:
        """Returns the newest status of each partition."""
        rows = sorted(queries.split_watermark_rows(), key=lambda row: row["batch"])
        return {row["split"].removeprefix(f"{name}-"): row["status"] for row in rows}

    queries.broker.write(name, records(0, [T0, T0 + SECOND]) + records(1, [T0, T0 + MINUTE]))
    query = queries.start(stream)
    wait_for(3)
    queries.broker.write(name, records(0, [T0 + 2 * SECOND]))
    wait_for(4)
    wait_until(lambda: statuses() == {"0": "ACTIVE", "1": "PAUSED"}, "the first status", TIME_LIMIT_S)
    query.stop()
    assert (name, 1, 1) not in output.positions()

    last = output.offsets()[-1]
    position, read_max, quiet_since = last["splits"][f"{name}-0"][:3]
    last["splits"][f"{name}-0"][:3] = [position, read_max, quiet_since - HOUR]
    output.rewrite_last_offset(last)
    query = queries.start(stream)
    wait_for(5)
    queries.broker.write(name, records(0, [T0 + MINUTE]))
    wait_for(6)
    queries.broker.write(name, records(1, [T0 + MINUTE, T0 + HOUR]))
    wait_for(7)
    wait_until(lambda: statuses()["0"] == "ACTIVE", "the status of the one that came back", TIME_LIMIT_S)
    query.stop()
    assert output.count() == 7
    assert (name, 1, 3) not in output.positions()
