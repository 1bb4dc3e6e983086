"""Positions by event time on a real broker are those of reading every record, in a log with all
difficult kinds of records.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flip27_stream.api import EventTimes, PositioningRequest, TimestampAssigner, WatermarkStrategy
from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP
from flip27_stream.testing import KafkaBroker, write_bulk
from tests.connectors.kafka.support.kit import (
    EnumeratorQuery,
    running,
    settle,
    source,
    transactions,
    write_transaction,
)

pytestmark = pytest.mark.jvm

MakeTopic = Callable[..., str]
START = 1_700_000_000_000
DISORDER = 50
LATEST_PLAUSIBLE = START + 1_000_000


class TimeInValue(TimestampAssigner):
    """An assigner whose event time is the digits of the value. Any other value has no event time."""

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        values = records["value"].cast(pa.string())
        digits = pc.match_substring_regex(values, "^[0-9]+$")
        return pc.if_else(digits, values, None).cast(pa.int64())


BY_TIMESTAMP = WatermarkStrategy()
BY_VALUE = WatermarkStrategy(DISORDER).with_timestamp_assigner(TimeInValue())


def write_random(broker: KafkaBroker, topic: str, random: random.Random, aligned: bool) -> None:
    """Writes batches with disorder, ties, implausible times, records without a time, and transactions of either end.

    The record's timestamp is the event time, or (not ``aligned``) only the value is.
    """
    front = START
    with ExitStack() as stack:
        producer = stack.enter_context(transactions(broker, topic))
        for _ in range(25):
            times = []
            for _ in range(random.randint(1, 30)):
                front += random.choice([0, 0, 1, 7, 40])
                times.append(front - random.randint(0, DISORDER))
            kind = random.choice(["plain", "plain", "commit", "abort", "poison", "none"])
            if kind in ("commit", "abort"):
                write_transaction(producer, topic, times, commit=kind == "commit")
                continue
            if kind == "poison":
                times = [START + 10**9]
            records = [(0, t if aligned else START, None, b"%d" % t) for t in times]
            broker.write(
                topic, [(0, t, k, b"no time") for _, t, k, _ in records] if kind == "none" else records
            )
    settle(broker, topic)


def readable(query: EnumeratorQuery, strategy: WatermarkStrategy, split_id: str) -> list[tuple[int, int]]:
    """Returns the offset and event time of each record that has a plausible one. It reads the whole log."""
    rows = query.read(query.ranges()).table.combine_chunks()
    if not rows.num_rows:
        return []
    (batch,) = rows.to_batches()
    timestamps = pc.divide(batch["timestamp"].cast(pa.int64()), 1000)
    times = strategy.timestamp_assigner.extract_timestamps(batch, timestamps).to_pylist()
    pairs = zip(batch["offset"].to_pylist(), times, strict=True)
    return [(offset, time) for offset, time in pairs if time is not None and 0 <= time <= LATEST_PLAUSIBLE]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("strategy", [BY_TIMESTAMP, BY_VALUE], ids=["timestamp", "value"])
@pytest.mark.parametrize("seed", [1, 2])
def test_positions_are_those_of_a_scan_of_every_record(
    broker: KafkaBroker, topic: MakeTopic, isolation: str, strategy: WatermarkStrategy, seed: int
) -> None:
    """I1, I12; rules 3 and 6: the positions are those of the first record at or after each event time."""
    name, dice = topic(), random.Random(seed)
    write_random(broker, name, dice, strategy is BY_TIMESTAMP)
    options = {"kafka.isolation.level": isolation}
    split_id = f"{name}-0"
    with running(
        source(broker, options, strategy=strategy, subscribe=name, startingOffsets="earliest")
    ) as query:
        known = readable(query, strategy, split_id)
        end = query.ranges()[split_id].end
        (split,) = query.positions
        for position in sorted(dice.sample(range(end), 4)):
            query.positions[split] = position
            request = PositioningRequest(query.ranges(), LATEST_PLAUSIBLE)
            found = query.enumerator.event_time_positions(request)
            ahead = [(offset, time) for offset, time in known if offset >= position]
            if not ahead:
                continue
            times = found.event_times()[split_id]
            assert times.next == ahead[0][1]
            assert times.reach in {time for _, time in ahead}
            for event_time in [dice.randint(START - 10, ahead[-1][1] + 10) for _ in range(12)] + [2**63 - 1]:
                expected = next((offset for offset, time in ahead if time >= event_time), end)
                assert found.first_at_or_after(event_time)[split_id] == (expected, expected - position)


def test_positions_cost_few_requests(
    broker: KafkaBroker, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions in a long log of ordered records cost some rounds of requests, and not one for
    each record or batch.
    """
    name = topic(2)
    for partition in range(2):
        times = np.arange(100_000, dtype=np.int64) + START
        values = pa.array([b"%d" % t for t in times], pa.binary())
        write_bulk(broker.bootstrap_servers, name, partition, times, values, batch_records=500)
    for strategy, most in ((BY_TIMESTAMP, 6), (BY_VALUE, 14)):
        with running(source(broker, strategy=strategy, subscribe=name, startingOffsets="earliest")) as query:
            request = PositioningRequest(query.ranges(), LATEST_PLAUSIBLE)
            connections = query.enumerator._client._cluster.connections
            rounds: list[int] = []
            send = connections.send

            def count(node: int, request: Any, rounds: list[int] = rounds, send: Any = send) -> Any:
                rounds.append(node)
                return send(node, request)

            monkeypatch.setattr(connections, "send", count)
            found = query.enumerator.event_time_positions(request)
            assert found.event_times()[f"{name}-1"].next == START
            assert found.first_at_or_after(START + 61_234)[f"{name}-0"] == (61_234, 61_234)
            assert len(rounds) <= most
            asked = len(rounds)
            assert found.first_at_or_after(START + 61_234)[f"{name}-1"] == (61_234, 61_234)
            assert len(rounds) == asked


def test_brokers_index_answers_with_markers(broker: KafkaBroker, topic: MakeTopic) -> None:
    """A transaction marker has the time of the wall clock, and ListOffsets may answer with it. The search for
    positions depends on this fact.
    """
    name = topic()
    with transactions(broker, name) as producer:
        write_transaction(producer, name, [START], commit=True)
    settle(broker, name)
    with running(source(broker, subscribe=name, startingOffsets="earliest")) as query:
        (split,) = query.context.splits.values()
        client = query.enumerator._client
        tp = split.topic_partition
        greatest, after = client.list_offsets({tp: MAX_TIMESTAMP}, {tp: START + 1}, read_committed=True)
        assert (greatest[tp].offset, after[tp].offset) == (1, 1)
        found = query.enumerator.event_time_positions(PositioningRequest(query.ranges()))
        assert found.event_times() == {split.split_id: EventTimes(START, START)}
        assert found.first_at_or_after(START + 1) == {split.split_id: (2, 2)}
