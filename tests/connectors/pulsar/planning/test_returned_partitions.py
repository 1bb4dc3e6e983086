"""Partitions that were deleted, and those that were made again. No test here needs a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.connectors.pulsar.client.looks import Tip
from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator
from flip27_stream.connectors.pulsar.positions import EARLIEST, position_at
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit
from flip27_stream.errors import DataLossError, MissingTopicError
from flip27_stream.spark.planning.enumerator_context import CoordinatorContext
from tests.connectors.pulsar.support.memory_partition import MemoryPartition, MessageAsId, enumerators

KEPT, DELETED = (f"persistent://public/default/clicks-partition-{number}" for number in range(2))
OPTIONS = {"service.url": "pulsar://localhost:1", "topic": "clicks", "failOnDataLoss": "false"}
END = position_at(10, 3) + 1


@pytest.fixture
def context() -> CoordinatorContext:
    return CoordinatorContext(1, "localhost")


@pytest.fixture
def partition() -> MemoryPartition:
    return MemoryPartition([MessageAsId(10, 3)])


@pytest.fixture
def enumerator(context: CoordinatorContext, partition: MemoryPartition) -> Iterator[PulsarSourceEnumerator]:
    """An enumerator of a query that has begun at the latest messages of two partitions. One of them is gone now."""
    enumerator = PulsarSource(OPTIONS).create_enumerator(context)
    assert isinstance(enumerator, PulsarSourceEnumerator)
    enumerator._client = partition  # type: ignore[assignment]
    enumerator._take_in(frozenset({KEPT, DELETED}))
    plan(enumerator, context)
    enumerator._take_in(frozenset({KEPT}))
    yield enumerator
    enumerator.close()


def plan(enumerator: PulsarSourceEnumerator, context: CoordinatorContext) -> dict[str, int]:
    """Returns the positions where a plan begins to read; the offset has one partition at its end."""
    positions = {
        split: END if split.topic == KEPT else None
        for split in context.splits.values()
        if isinstance(split, PulsarPartitionSplit)
    }
    found = enumerator.split_ranges(positions)
    enumerator.snapshot_state()
    context.retired.clear()
    return {name: r.position for name, r in found.items()}


def test_a_partition_that_was_made_again_is_read_from_its_beginning(
    enumerator: PulsarSourceEnumerator, context: CoordinatorContext, partition: MemoryPartition
) -> None:
    plan(enumerator, context)
    partition.messages = [MessageAsId(20, 0)]
    enumerator._take_in(frozenset({KEPT, DELETED}))
    assert plan(enumerator, context)[DELETED] == position_at(20, 0)


def test_so_is_one_that_was_made_again_while_the_query_was_stopped(
    enumerator: PulsarSourceEnumerator, context: CoordinatorContext
) -> None:
    plan(enumerator, context)
    assert enumerator.snapshot_state().waiting == frozenset()


def test_a_partition_that_is_made_again_at_once_comes_back_at_a_later_discovery(
    enumerator: PulsarSourceEnumerator, context: CoordinatorContext
) -> None:
    """No offset was made between the two discoveries."""
    enumerator._take_in(frozenset({KEPT, DELETED}))
    assert plan(enumerator, context).keys() == {KEPT}
    enumerator._take_in(frozenset({KEPT, DELETED}))
    assert plan(enumerator, context).keys() == {KEPT, DELETED}


class Deleted(MemoryPartition):
    def tip(self, topic: str, silence_ms: int = 0) -> Tip:
        raise MissingTopicError(f"{topic} does not exist")


def test_a_topic_of_a_pattern_that_is_deleted_before_it_is_begun_is_left_out() -> None:
    """The next discovery finds that it was deleted. A topic that is given by its name must exist."""
    split = PulsarPartitionSplit(KEPT)
    pattern = {"topicsPattern": "clicks.*", "admin.url": "http://localhost:1"}
    for enumerator in enumerators(Deleted(), **pattern):
        assert enumerator.split_ranges({split: None}) == {}
    for enumerator in enumerators(Deleted()):
        with pytest.raises(MissingTopicError):
            enumerator.split_ranges({split: None})


def test_a_deleted_topic_that_no_discovery_will_report_holds_no_other_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without further discoveries the plan reports the topic. Otherwise it would never be finished, and would hold the
    splits of an aligned query, or the first offset, for ever.
    """
    split = PulsarPartitionSplit(KEPT)
    once = {"topicsPattern": "clicks.*", "admin.url": "http://localhost:1", "partitionDiscoveryInterval": "0"}
    for enumerator in enumerators(Deleted(), **once):
        with pytest.raises(DataLossError, match=f"Partitions {KEPT} do not exist any more"):
            enumerator.split_ranges({split: END})
    for position in (None, END):
        caplog.clear()
        for enumerator in enumerators(Deleted(), **once, failOnDataLoss="false"):
            at = position or EARLIEST
            for _ in range(2):
                found = enumerator.split_ranges({split: position})
                assert found == {KEPT: SplitRange(at, at, drained=False, final=True, rows=0)}
        assert len(caplog.messages) == 1
