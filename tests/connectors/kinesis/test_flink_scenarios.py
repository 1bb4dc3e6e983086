"""The promises of Flink's Kinesis connector that a source which is planned batch by batch keeps in another way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import ReadLimits, SourceEvent, SourceSplit
from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.connectors.kinesis.options.source_options import parse_kinesis_options
from flip27_stream.connectors.kinesis.planning.enumerator import KinesisSourceEnumerator
from flip27_stream.connectors.kinesis.planning.enumerator_state import KinesisEnumeratorState
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from flip27_stream.testing import KinesisServer, wait_until
from flip27_stream.testing.clock import ManualClock
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms
from tests.connectors.kinesis.support.answers import answering
from tests.connectors.kinesis.support.kit import data_of, numbered, source_of
from watermark_alignment.options import AlignmentOptions

pytestmark = pytest.mark.node


def names(*numbers: int) -> frozenset[str]:
    return frozenset(f"shardId-{number:012d}" for number in numbers)


def process(
    enumerator: KinesisSourceEnumerator, context: CoordinatorContext, *shards: int
) -> KinesisEnumeratorState:
    """Plans again and again as if the ranges of these shards had been processed, until the shards are
    done. Returns the state.
    """
    ends: dict[str, int] = {}

    def is_done() -> bool:
        context.run_due()
        if not context.splits:
            return False
        splits: dict[Any, int | None] = {s: ends.get(s.split_id) for s in context.splits.values()}
        ranges = enumerator.split_ranges(splits)
        ends.update({s.split_id: ranges[s.split_id].end for s in splits if s.shard_id in names(*shards)})
        enumerator.notify_checkpoint_complete(ends)
        enumerator.admit(ReadLimits())
        context.run_due()
        (stream,) = enumerator.snapshot_state().streams.values()
        return names(*shards) <= stream.done and len(stream.begun) == len(context.splits)

    wait_until(is_done, "the shards to be done, and their children to be planned")
    return enumerator.snapshot_state()


@contextmanager
def restored(
    source: KinesisSource, state: KinesisEnumeratorState, splits: Mapping[str, SourceSplit]
) -> Iterator[tuple[KinesisSourceEnumerator, CoordinatorContext]]:
    """Yields an enumerator that was restored and started, with its context."""
    context = CoordinatorContext(2, "localhost")
    context.restore(splits)
    enumerator = source.restore_enumerator(context, state)
    try:
        enumerator.start()
        yield enumerator, context
    finally:
        context.close()
        enumerator.close()


def test_kn04_a_restored_query_lists_all_shards(server: KinesisServer, stream: str) -> None:
    """KN-04 adapted: the listing does not begin behind the last shard that was seen, since only a whole one shows
    which shards have expired. A shard that is done is still not read again.
    """
    server.create_stream(stream, 2)
    server.put(stream, numbered(0, 10, 2))
    server.split(stream, 0)
    source, asked = source_of(server, stream), list[dict[str, Any]]()

    def has_listed() -> bool:
        context.run_due()
        return len(asked) > 2

    with restored(source, KinesisEnumeratorState(), {}) as (enumerator, context):
        state, splits = process(enumerator, context, 0), dict(context.splits)
    connection = parse_kinesis_options({**server.options, "streamName": stream}).connection
    with (
        answering(connection, "ListShards", asked.append),
        restored(source, state, splits) as (enumerator, context),
    ):
        wait_until(has_listed, "some listings")
        assert enumerator.snapshot_state().streams[stream].done == names(0)
        assert context.splits == splits
    assert not [call for call in asked if "ExclusiveStartShardId" in call]


def test_kn08_unknown_events_and_requests_change_nothing(server: KinesisServer, stream: str) -> None:
    """KN-08 adapted: a request for a split and an unknown event change nothing. No reader gives a split back, for
    Spark reads a failed micro-batch again from its two offsets.
    """
    server.create_stream(stream, 2)
    server.put(stream, numbered(0, 10, 2))
    with SourceQuery(source_of(server, stream)) as query:
        with query.enumerator() as (enumerator, _):
            before = enumerator.snapshot_state()
            enumerator.handle_split_request(0, "localhost")
            enumerator.handle_source_event(0, SourceEvent("unknown", [1]))
            assert enumerator.snapshot_state() == before
        batch = query.wait_for_batch()
        tasks = query.tasks(*batch)
        query.abandon(tasks[0])
        rows = [row for task in tasks for row in query.read(task)]
    assert sorted(map(int, data_of(rows))) == list(range(10))


def test_kn10_shards_without_parents_are_begun_at_once(server: KinesisServer, stream: str) -> None:
    """KN-10 adapted: the order of parents and children cannot be turned off. Shards that have no order are all
    begun by the first discovery, and never again.
    """
    server.create_stream(stream, 4)
    server.split(stream, 3)
    with SourceQuery(source_of(server, stream)) as query, query.enumerator() as (enumerator, splits):
        assert {split.shard_id for split in splits} == names(0, 1, 2, 3)
        (before,) = enumerator.snapshot_state().streams.values()
        for _ in range(3):
            assert len(enumerator.split_ranges(dict.fromkeys(splits))) == 4
            enumerator.admit(ReadLimits())
        (after,) = enumerator.snapshot_state().streams.values()
        assert after.begun == names(0, 1, 2, 3)
        assert (before.begun, after.done) == (names(), names())


def test_kn07_a_query_without_a_plan_keeps_its_position(server: KinesisServer, stream: str) -> None:
    """KN-07 adapted: no task had run when the shards were found. LATEST stays the time at which the query began."""
    server.create_stream(stream, 2)
    server.put(stream, numbered(0, 10, 2))
    time.sleep(0.05)
    source = source_of(server, stream, initialPosition="latest")
    with SourceQuery(source) as query:
        assert query.run(0) == []
    server.put(stream, numbered(10, 10, 2))
    with SourceQuery(source, query.offset) as resumed:
        assert sorted(map(int, data_of(resumed.run(10)))) == list(range(10, 20))


def test_kn09_children_wait_for_all_their_parents(server: KinesisServer, stream: str) -> None:
    """KN-09, KN-11: shards 3 and 4 come from shard 0; shard 5 is shards 1 and 2 merged. A restored
    enumerator waits, too.
    """
    server.create_stream(stream, 3)
    server.put(stream, numbered(0, 9, 3))
    server.split(stream, 0)
    server.merge(stream, 2)
    source = source_of(server, stream)
    state, splits = KinesisEnumeratorState(), dict[str, SourceSplit]()
    steps = (
        ((0,), (1, 2, 3, 4), (0,)),
        ((1,), (2, 3, 4), (0, 1)),
        ((2,), (3, 4, 5), (0, 1, 2)),
    )
    for finished, begun, done in steps:
        with restored(source, state, splits) as (enumerator, context):
            state, splits = process(enumerator, context, *finished), dict(context.splits)
        assert state.streams[stream].begun == names(*begun)
        assert state.streams[stream].done == names(*done)


def test_kn14_a_shard_that_is_ahead_is_paused(server: KinesisServer, stream: str, tmp_path: Path) -> None:
    """KN-14: a shard that is ahead has no rows. The second shard is read alone, then the third, then the first."""
    server.create_stream(stream, 3)
    for shard in (1, 2, 0):
        server.put(stream, [(shard, b"%d" % shard)] * 2)
        time.sleep(0.3)
    alignment = AlignmentOptions.parse(
        {
            "scan.watermark.alignment.group": "paused",
            "scan.watermark.alignment.max-drift": "50 ms",
            "scan.watermark.alignment.table": str(tmp_path),
        }
    )
    clock, batches = ManualClock(now_ms()), list[list[bytes]]()
    with SourceQuery(source_of(server, stream), alignment=alignment, clock=clock) as query:

        def read_all_or_be_idle() -> bool:
            if not (rows := query.step()):
                clock.advance(61_000)
            batches.append(data_of(rows))
            return sum(map(len, batches)) == 6

        wait_until(read_all_or_be_idle, "all rows")
    assert [rows for rows in batches if rows] == [[b"1"] * 2, [b"2"] * 2, [b"0"] * 2]


def test_kn15_a_page_has_the_configured_size(server: KinesisServer, stream: str) -> None:
    """KN-15: three records come in two fetches if a fetch has at most two."""
    server.create_stream(stream, 1)
    server.put(stream, numbered(0, 3, 1))
    with SourceQuery(source_of(server, stream, maxRecordsPerFetch="2")) as query:
        (task,) = query.tasks(*query.wait_for_batch())
        output = query.collect(task)
    assert [batch.records.num_rows for batch in output.batches] == [2, 1]


def test_kn16_shards_are_spread_evenly(server: KinesisServer, stream: str) -> None:
    """KN-16 adapted: three shards share the hash keys evenly, and each of three tasks reads one shard."""
    server.create_stream(stream, 3)
    server.put(stream, numbered(0, 9, 3))
    with SourceQuery(source_of(server, stream), parallelism=3) as query:
        tasks = query.tasks(*query.wait_for_batch())
        assert sorted(data_of(query.read(task)) for task in tasks) == [
            [b"%d" % i for i in range(shard, 9, 3)] for shard in range(3)
        ]
