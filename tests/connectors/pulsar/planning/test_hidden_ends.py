"""Partitions whose last entry is of a transaction, which brokers before Pulsar 3.1 count as a message. No test here
needs a server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flip27_stream.api import SplitRange
from flip27_stream.connectors.pulsar.options.start import StartKind
from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator
from flip27_stream.connectors.pulsar.planning.partition_log import LostLedger, PartitionLog
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.spark.planning.available_now import FrozenEnds
from tests.connectors.pulsar.support.memory_partition import SPLIT, MemoryPartition, MessageAsId, enumerators

COUNT = 12_000
NAME = SPLIT.split_id
BEGIN, END = position_at(10, 0), position_at(10, COUNT - 1) + 1
MARKER = MessageAsId(10, COUNT)


@pytest.fixture
def partition() -> MemoryPartition:
    """A partition with more messages than one look reads, and the marker of a transaction behind them."""
    return MemoryPartition([MessageAsId(10, entry) for entry in range(COUNT)], MARKER)


@pytest.fixture
def enumerator(partition: MemoryPartition) -> Iterator[PulsarSourceEnumerator]:
    yield from enumerators(partition)


def run(enumerator: PulsarSourceEnumerator, ends: FrozenEnds, position: int = BEGIN) -> list[SplitRange]:
    """Returns the ranges that a run with ``Trigger.AvailableNow`` reads."""
    found = []
    while not ends.reached({NAME: position}):
        cut = ends.cut(enumerator.split_ranges({SPLIT: position}))
        found.append(cut[NAME])
        assert cut[NAME].position == position
        position = cut[NAME].end
    return found


def test_a_run_reads_all_messages_before_a_hidden_entry(enumerator: PulsarSourceEnumerator) -> None:
    """A look reads some of the messages only, and says that more follow."""
    ranges = run(enumerator, FrozenEnds([NAME]))
    assert ranges[-1].end == END
    assert [(r.rows, r.limited, r.drained) for r in ranges] == [
        (5000, True, False),
        (5000, True, False),
        (2000, False, True),
    ]


def test_a_partition_that_is_held_back_needs_no_more_memory_with_each_look(
    partition: MemoryPartition,
) -> None:
    """Alignment can hold it back for hours, while a producer goes on. All of it can be read afterwards."""
    log = PartitionLog(partition, SPLIT.topic, pytest.fail)  # type: ignore[arg-type]
    for _ in range(5):
        held = log.look(BEGIN, None)
        partition.messages.append(MessageAsId(10, len(partition.messages)))
        partition.hidden = MessageAsId(10, len(partition.messages))
    assert (held.rows, held.limited, held.drained) == (5000, True, False)
    position, rows = BEGIN, 0
    while not (found := log.look(position, None)).drained:
        rows += 3000
        position = position_at(10, rows)
    assert found.end == position_at(10, len(partition.messages) - 1) + 1
    assert found.rows == len(partition.messages) - rows


def test_a_run_ends_while_a_producer_goes_on(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """The run reads up to the entry that was the last one at its first look, and at most one look more."""
    ends = FrozenEnds([NAME])
    position = BEGIN
    for _ in range(4):
        position = ends.cut(enumerator.split_ranges({SPLIT: position}))[NAME].end
        more = range(len(partition.messages), len(partition.messages) + 6000)
        partition.messages += [MessageAsId(10, entry) for entry in more]
        partition.hidden = MessageAsId(10, more[-1] + 1)
    assert ends.reached({NAME: position})
    assert END <= position <= position_at(10, 15_000)


def test_an_entry_that_is_hidden_during_a_run_loses_nothing(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """Messages that a look has not read, because it stopped at its limit, are not reported as lost."""
    ends = FrozenEnds([NAME])
    partition.messages += [MessageAsId(10, entry) for entry in range(COUNT, 30_000)]
    partition.hidden = None
    ends.cut(enumerator.split_ranges({SPLIT: BEGIN}))
    partition.hidden = MessageAsId(10, 30_000)
    assert sum(r.rows or 0 for r in run(enumerator, ends)) == 30_000


def test_a_short_silence_is_the_end_only_where_a_long_one_was_before(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """The first message of an old ledger can come late, and a server can be slow. A run with ``Trigger.AvailableNow``
    ends where its first look ends, so that one waits as long as for a server that does not answer.
    """
    run(enumerator, FrozenEnds([NAME]))
    for _ in range(20):
        enumerator.split_ranges({SPLIT: END})
    assert partition.silences_ms == [30_000, 5000, 5000, *[500] * 19, 5000]


def test_a_broker_that_became_slower_is_read_on(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """Short silences end looks at the hidden entry until one look waits longer; then all looks wait longer."""
    ends = [enumerator.split_ranges({SPLIT: END})[NAME].end]
    partition.first_ms = 800
    partition.messages.append(MessageAsId(10, COUNT + 1))
    while ends[-1] == END:
        ends.append(enumerator.split_ranges({SPLIT: END})[NAME].end)
    assert ends[-1] == position_at(10, COUNT + 1) + 1
    assert partition.silences_ms == [30_000, *[500] * 19, 5000]
    partition.messages.append(MessageAsId(10, COUNT + 2))
    assert enumerator.split_ranges({SPLIT: ends[-1]})[NAME].rows == 1
    assert partition.silences_ms[-1] == 3200


@pytest.mark.parametrize("restarts", [False, True])
def test_a_query_that_began_behind_a_hidden_entry_goes_on(restarts: bool) -> None:
    """The entry is of a transaction that was aborted, so its ledger never has a message."""
    partition = MemoryPartition([MessageAsId(10, 3)], MessageAsId(20, 0))
    told: list[LostLedger] = []
    log = PartitionLog(partition, "clicks", told.append)  # type: ignore[arg-type]
    begin = log.begin(StartKind.LATEST)
    assert log.look(begin, None) == SplitRange(begin, begin, rows=0)
    partition.messages, partition.hidden = [MessageAsId(10, 3), MessageAsId(21, 0)], None
    if restarts:
        log = PartitionLog(partition, "clicks", told.append)  # type: ignore[arg-type]
    found = log.look(begin, None)
    assert (found.position, found.rows) == (position_at(21, 0), 1)
    assert all(lost.was_end for lost in told)
