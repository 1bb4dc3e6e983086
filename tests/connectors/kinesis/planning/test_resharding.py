"""Resharding on both emulators: of a running query, of a stopped one and under AvailableNow. Each record comes once.

KN-05: parents are read to their end before their children, which begin at their first record.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.connectors.kinesis.planning import enumerator
from flip27_stream.testing import KinesisServer, wait_until
from flip27_stream.testing.aligned_run import AlignedRun, SplitTimes
from flip27_stream.testing.conformance.survey import survey
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.answers import answering, error
from tests.connectors.kinesis.support.kit import data_of, numbered, source_of

pytestmark = pytest.mark.node


class ShardWriter:
    """Puts numbered records into all open shards in turn, and counts them."""

    def __init__(self, server: KinesisServer, stream: str) -> None:
        self._server, self._stream, self.count = server, stream, 0

    def put(self, count: int = 12) -> None:
        shards = len(self._server.open_shards(self._stream))
        self._server.put(self._stream, numbered(self.count, count, shards))
        self.count += count

    def check(self, rows: list[dict[str, Any]]) -> None:
        found = Counter(data_of(rows))
        assert found == Counter(b"%d" % i for i in range(self.count))


def check_lineage(server: KinesisServer, stream: str, rows: list[dict[str, Any]]) -> None:
    """Checks that no row of a child shard comes before a row of its parents."""
    shards = server.client.list_shards(StreamName=stream)["Shards"]
    places: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(row["shardId"], []).append(i)
    for shard in shards:
        for parent in (shard.get("ParentShardId"), shard.get("AdjacentParentShardId")):
            if parent in places and shard["ShardId"] in places:
                assert max(places[parent]) < min(places[shard["ShardId"]])


def test_resharding_under_a_running_query_loses_no_record(server: KinesisServer, stream: str) -> None:
    server.create_stream(stream, 2)
    writer, rows = ShardWriter(server, stream), list[dict[str, Any]]()
    changes: list[Callable[[], object]] = [
        lambda: server.split(stream, 0),
        lambda: server.merge(stream, 1),
        lambda: None,
    ]
    with SourceQuery(source_of(server, stream)) as query:
        for change in changes:
            writer.put()
            rows += query.step()
            change()
            writer.put()
        rows += query.run(writer.count - len(rows))
    writer.check(rows)
    check_lineage(server, stream, rows)


def test_resharding_of_a_stopped_query_loses_no_record(server: KinesisServer, stream: str) -> None:
    """KN-03: the stream was split and merged over several generations, and some shards have no record."""
    server.create_stream(stream, 2)
    writer = ShardWriter(server, stream)
    writer.put()
    source = source_of(server, stream)
    with SourceQuery(source) as query:
        rows = query.run(writer.count)
    for _ in range(2):
        server.split(stream, 0)
        server.split(stream, 0)  # its parent stays empty
        writer.put()
        server.merge(stream, 0)
        writer.put()
    with SourceQuery(source, query.offset) as resumed:
        rows += resumed.run(writer.count - len(rows))
    writer.check(rows)
    check_lineage(server, stream, rows)


def test_children_of_a_running_query_begin_at_their_first_record(server: KinesisServer, stream: str) -> None:
    """KN-02: the option does not count for them. An unchanged listing assigns nothing."""
    server.create_stream(stream, 2)
    writer = ShardWriter(server, stream)
    writer.put()
    source = source_of(server, stream, initialPosition="latest")
    with SourceQuery(source) as query:
        for _ in range(3):
            assert query.run(0) == []
        parents = set(query.offset["splits"])
        server.split(stream, 0)
        read, written = writer.count, 12
        writer.put(written)
        assert sorted(map(int, data_of(query.run(written)))) == list(range(read, read + written))
        assert len(parents) == 2
        assert len(set(query.offset["splits"]) - parents) == 2


def test_every_offset_has_a_shard_or_its_children(server: KinesisServer, stream: str) -> None:
    """KN-12 adapted: finished shards are in the offset until their children are planned, so a restart from any offset
    reads what is left, each record once.
    """
    server.create_stream(stream, 1)
    writer = ShardWriter(server, stream)
    writer.put()
    source, offsets = source_of(server, stream), list[tuple[dict[str, Any], int]]()
    with SourceQuery(source) as query:
        rows = query.run(writer.count)
        offsets.append((query.offset, len(rows)))
        writer.put()
        server.split(stream, 0)
        writer.put()

        def read_all() -> bool:
            rows.extend(query.step())
            offsets.append((query.offset, len(rows)))
            return len(rows) == writer.count

        wait_until(read_all, "all rows")
    assert {len(offset["splits"]) for offset, _ in offsets} == {1, 2}
    for offset, count in offsets[:: max(len(offsets) // 6, 1)]:
        with SourceQuery(source, offset) as resumed:
            left = data_of(resumed.run(writer.count - count))
        assert sorted(left) == sorted(data_of(rows)[count:])


def test_resharding_under_available_now_loses_no_record(server: KinesisServer, stream: str) -> None:
    """A run reads parents and children that existed when it began. A shard ends at what is there when it is first
    looked at, children after their parents. So a run ends though more records are written.
    """
    server.create_stream(stream, 2)
    writer = ShardWriter(server, stream)
    writer.put()
    server.split(stream, 1)
    writer.put()
    server.merge(stream, 0)
    writer.put()
    source = source_of(server, stream)
    rows, offset = list[dict[str, Any]](), None
    for has_children in (True, False):
        there = writer.count
        with SourceQuery(source, offset, available_now=True) as query:
            while (batch := query.next_batch()) is not None:
                rows += [row for task in query.tasks(*batch) for row in query.read(task)]
                query.offset = batch[1]
                writer.put(3)
                assert writer.count < 100, "the run reads what is written after each batch, and does not end"
            offset = query.offset
        numbers = sorted(map(int, data_of(rows)))
        assert len(numbers) < writer.count
        assert numbers[:there] == list(range(there))
        assert has_children or len(numbers) == there


def test_doubling_all_shards_loses_no_record(kinesis: KinesisServer, stream: str) -> None:
    """A running query reads on after UpdateShardCount has doubled the shards. Kinesalite does not have this call."""
    kinesis.create_stream(stream, 3)
    writer = ShardWriter(kinesis, stream)
    writer.put()
    with SourceQuery(source_of(kinesis, stream)) as query:
        rows = query.step()
        kinesis.client.update_shard_count(
            StreamName=stream, TargetShardCount=6, ScalingType="UNIFORM_SCALING"
        )
        kinesis.wait_until_active(stream)
        writer.put()
        rows += query.run(writer.count - len(rows))
    writer.check(rows)
    check_lineage(kinesis, stream, rows)


@pytest.mark.parametrize("seed", range(2))
def test_many_reshardings_lose_no_record(server: KinesisServer, stream: str, seed: int) -> None:
    """Every record comes exactly once, in spite of resharding, small limits, and restarts after plans
    that were read or not.
    """
    rng = random.Random(seed)
    server.create_stream(stream, 2)
    writer, rows, offset = ShardWriter(server, stream), [], None
    source = source_of(server, stream)
    for _ in range(12):
        writer.put(rng.randrange(1, 20))
        shards = len(server.open_shards(stream))
        if rng.random() < 0.4:
            server.split(stream, rng.randrange(shards)) if shards < 5 else server.merge(stream, 0)
        with SourceQuery(source, offset) as query:
            batch = query.next_batch(rng.choice([None, 3, 10]))
            if batch is None:
                continue
            offset = batch[1]
            with SourceQuery(source, offset) as replaying:
                assert replaying.tasks(*batch) == query.tasks(*batch)
                rows += [row for task in replaying.tasks(*batch) for row in replaying.read(task)]
    with SourceQuery(source, offset) as query:
        rows += query.run(writer.count - len(rows))
    writer.check(rows)
    check_lineage(server, stream, rows)


FAULTS = (
    ("ProvisionedThroughputExceededException", 400),
    ("ExpiredIteratorException", 400),
    ("InternalFailure", 500),
    ("LimitExceededException", 400),
)


@pytest.mark.parametrize("seed", range(2))
def test_many_reshardings_with_failing_calls_lose_no_record(
    server: KinesisServer, stream: str, seed: int
) -> None:
    """Every round reshards the stream, and a fifth of all calls fails. Every record comes exactly once."""
    rng = random.Random(seed)
    server.create_stream(stream, 3)
    writer, rows, offset = ShardWriter(server, stream), [], None
    source = source_of(server, stream)
    connection = parse_kinesis_options({**server.options, "streamName": stream}).connection

    def refuse(_: object) -> Any:
        return error(*rng.choice(FAULTS)) if rng.random() < 0.2 else None

    def refuse_list(_: object) -> Any:
        return error("LimitExceededException") if rng.random() < 0.2 else None

    with (
        answering(connection, "GetRecords", refuse),
        answering(connection, "GetShardIterator", refuse),
        answering(connection, "ListShards", refuse_list),
    ):
        for _ in range(8):
            writer.put(rng.randrange(3, 15))
            shards = len(server.open_shards(stream))
            merged = shards > 4 or (shards > 1 and rng.random() < 0.4)
            server.merge(stream, rng.randrange(shards - 1)) if merged else server.split(
                stream, rng.randrange(shards)
            )
            with SourceQuery(source, offset, available_now=rng.random() < 0.5) as query:
                if (batch := query.next_batch(rng.choice([None, 5]))) is not None:
                    rows += [row for task in query.tasks(*batch) for row in query.read(task)]
                    offset = batch[1]
        with SourceQuery(source, offset) as query:
            rows += query.run(writer.count - len(rows))
    writer.check(rows)
    check_lineage(server, stream, rows)


def test_children_are_aligned_before_they_are_assigned(server: KinesisServer, stream: str) -> None:
    """I3: before a child is assigned, its first record already holds the other shards, so that no
    shard runs ahead of it.
    """
    server.create_stream(stream, 2)
    writer = ShardWriter(server, stream)
    changes: list[Callable[[], object]] = [
        lambda: server.split(stream, 0),
        lambda: server.merge(stream, 1),
        lambda: None,
    ]
    for change in changes:
        for _ in range(12):
            writer.put(6)
            time.sleep(0.003)
        change()
    source, strategy = source_of(server, stream), WatermarkStrategy()
    with SourceQuery(source, strategy=strategy) as query:
        known = survey(query, writer.count)
    run = AlignedRun(
        source,
        strategy,
        max_drift_ms=(max(known.times) - min(known.times)) // 12,
        unit_ms=0,
        limit=1000,
        splits={name: SplitTimes(split.times) for name, split in known.splits.items()},
        exact=True,
        splits_finish=True,
    )
    run.run(writer.count)
    run.check_replays()
    writer.check(run.rows)
    check_lineage(server, stream, run.rows)


def test_what_was_read_of_a_stream_that_was_made_again_is_not_read_twice(
    server: KinesisServer, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulators let a shard iterator lead on into the new stream, before anything tells that it is new."""
    monkeypatch.setattr(enumerator, "_IDENTITY_S", float("inf"))
    server.create_stream(stream, 2)
    server.put(stream, numbered(0, 10, 2))
    with SourceQuery(source_of(server, stream, failOnDataLoss="false")) as query:
        assert len(query.run(10)) == 10
        server.delete_stream(stream)
        server.create_stream(stream, 2)
        server.put(stream, numbered(10, 10, 2))
        rows = query.run(10)
        monkeypatch.setattr(enumerator, "_IDENTITY_S", 0.0)

        def is_noticed() -> bool:
            rows.extend(query.step())
            return set(query.offset["splits"]) == {f"{stream}/shardId-{i:012d}#1" for i in range(2)}

        wait_until(is_noticed, "the new stream to be noticed")
        server.put(stream, numbered(20, 10, 2))
        rows += query.run(10)
    assert Counter(data_of(rows)) == Counter(b"%d" % i for i in range(10, 30))
