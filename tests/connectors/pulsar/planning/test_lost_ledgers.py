"""What planning says of ledgers that were trimmed: an error if messages are lost, or may be, and a warning if this
process saw that nothing followed. No test here needs a server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flip27_stream.connectors.pulsar.planning.enumerator import PulsarSourceEnumerator
from flip27_stream.connectors.pulsar.positions import ledger_of, position_at
from flip27_stream.errors import DataLossError
from tests.connectors.pulsar.support.memory_partition import SPLIT, MemoryPartition, MessageAsId, enumerators

DRAINED = "No message of persistent://public/default/clicks followed 10:4:1 at the last plan"
END = position_at(10, 4) + 1


@pytest.fixture
def partition() -> MemoryPartition:
    return MemoryPartition([MessageAsId(10, 3), MessageAsId(10, 4)])


@pytest.fixture
def enumerator(partition: MemoryPartition) -> Iterator[PulsarSourceEnumerator]:
    yield from enumerators(partition)


def look(enumerator: PulsarSourceEnumerator, position: int = END) -> tuple[int, int]:
    found = enumerator.split_ranges({SPLIT: position})[SPLIT.split_id]
    return found.position, found.end


@pytest.mark.parametrize("more", [{}, {"predefinedSubscription": "ours"}])
def test_a_drained_query_warns_once(
    partition: MemoryPartition, caplog: pytest.LogCaptureFixture, more: dict[str, str]
) -> None:
    """A query with a subscription warns, too: messages expire, and others may skip them."""
    for enumerator in enumerators(partition, **more):
        assert look(enumerator) == (END, END)
        assert not caplog.text
        partition.messages = [MessageAsId(15, 0)]
        for _ in range(3):
            assert look(enumerator) == (position_at(15, 0), position_at(15, 0) + 1)
    assert caplog.text.count(DRAINED) == 1


def test_the_end_of_the_last_range_was_seen(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition, caplog: pytest.LogCaptureFixture
) -> None:
    """The query has not looked since it read the last message. It saw at its last look that nothing followed that."""
    assert look(enumerator, position_at(10, 3)) == (position_at(10, 3), END)
    partition.messages = []
    assert [look(enumerator) for _ in range(3)] == [(END, END)] * 3
    assert caplog.text.count(f"{DRAINED}, and ledger 10 does not exist any more, and no message is left") == 1


def test_a_query_that_was_started_again_fails(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """It fails whether or not messages came since."""
    for partition.messages in ([], [MessageAsId(15, 0)]):
        with pytest.raises(DataLossError, match="wanted from 10:4:1 on, but ledger 10 does not exist"):
            look(enumerator)


def test_messages_that_were_seen_and_trimmed_are_lost(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """Nothing followed at the look before, but this look has seen a message that it cannot read any more."""
    look(enumerator)
    partition.messages, partition.trims = [MessageAsId(15, 0)], True
    with pytest.raises(DataLossError, match="are lost, or may be"):
        look(enumerator)


def test_ids_below_the_position_are_of_another_topic(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    look(enumerator)
    partition.messages = [MessageAsId(3, 0), MessageAsId(3, 1)]
    with pytest.raises(DataLossError, match="the last existing message is at 3:1:0, before that"):
        look(enumerator)


def test_a_query_that_may_lose_messages_warns_once(
    partition: MemoryPartition, caplog: pytest.LogCaptureFixture
) -> None:
    partition.messages = []
    for enumerator in enumerators(partition, failOnDataLoss="false"):
        assert [look(enumerator) for _ in range(3)] == [(END, END)] * 3
        partition.messages = [MessageAsId(15, 0)]
        assert ledger_of(look(enumerator)[0]) == 15
    assert caplog.text.count("are lost, or may be") == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_an_entry_of_a_transaction_shows_that_its_ledger_exists(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    partition.messages, partition.hidden = [], MessageAsId(10, 7)
    assert look(enumerator) == (END, END)
    partition.hidden = MessageAsId(15, 0)
    assert look(enumerator) == (END, END), "seen in this process"
    partition.hidden = None
    assert look(enumerator) == (END, END), "warned of"


def test_behind_an_entry_of_a_transaction_a_missing_ledger_is_found(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    partition.messages, partition.hidden = [], MessageAsId(15, 0)
    with pytest.raises(DataLossError, match="wanted from 10:4:1 on"):
        look(enumerator)


def test_no_message_is_left_is_said_only_if_it_is_so(
    enumerator: PulsarSourceEnumerator, partition: MemoryPartition
) -> None:
    """The last message is not known behind an entry of a transaction."""
    partition.messages, partition.hidden = [MessageAsId(15, 0)], MessageAsId(20, 0)
    with pytest.raises(DataLossError, match=r"but ledger 10 does not exist any more\. They are"):
        look(enumerator)
