"""Positions are numbers that grow along a partition. Entries of closed ledgers are counted by halving."""

from __future__ import annotations

import itertools

import pytest

from flip27_stream.connectors.pulsar.planning.cursors import last_whole_entry
from flip27_stream.connectors.pulsar.planning.enumerator_state import (
    PulsarEnumeratorState,
    PulsarEnumeratorStateSerializer,
)
from flip27_stream.connectors.pulsar.planning.ledgers import Ledgers
from flip27_stream.connectors.pulsar.positions import (
    EARLIEST,
    described,
    entry_of,
    index_of,
    ledger_of,
    position_at,
)
from flip27_stream.connectors.pulsar.split import PulsarPartitionSplit, PulsarPartitionSplitSerializer
from flip27_stream.errors import CorruptCheckpointError


def test_positions_keep_the_order_of_message_ids() -> None:
    ids = [(3, 0, 0), (3, 0, 1), (3, 0, 1000), (3, 1, 0), (3, 2**40, 5), (4, 0, 0), (2**62, 2**62, 2**31)]
    positions = [position_at(*parts) for parts in ids]
    assert positions == sorted(positions)
    assert [(ledger_of(p), entry_of(p), index_of(p)) for p in positions] == ids
    assert position_at(3, 7, -1) == position_at(3, 7, 0)
    assert [described(p) for p in (EARLIEST, positions[1])] == ["earliest", "3:0:1"]


SIZES = {10: 5, 11: 1, 14: 3000, 20: 9}


def _first_at(position: int) -> int | None:
    ledger, entry = ledger_of(position), entry_of(position)
    if SIZES.get(ledger, 0) > entry:
        return position_at(ledger, entry)
    return next((position_at(later, 0) for later in sorted(SIZES) if later > ledger), None)


def test_entries_are_counted_over_ledgers() -> None:
    entries = [position_at(ledger, entry) for ledger, size in SIZES.items() for entry in range(size)]
    for i, j in itertools.combinations([0, 3, 4, 5, 6, 7, 1500, 3005, 3006, 3014], 2):
        ledgers = Ledgers(_first_at)
        assert ledgers.entries_between(entries[i], entries[j]) == j - i
        assert _first_at(ledgers.after_entries(entries[i], j - i, entries[-1])) == entries[j]
    assert Ledgers(_first_at).after_entries(entries[0], 10_000, entries[-1]) == entries[-1]


@pytest.mark.parametrize("size", [1, 7, 50_000])
def test_a_plan_asks_little_about_thousands_of_ledgers(size: int) -> None:
    """An estimate stands for the ledgers that are not searched. Further plans search on, each ledger with two calls."""
    count, calls = 3000, list[int]()

    def first_at(position: int) -> int | None:
        calls.append(position)
        ledger, entry = ledger_of(position), entry_of(position)
        if entry >= size:
            ledger, entry = ledger + 2 - ledger % 2, 0
        return position_at(ledger, entry) if ledger < 2 * count else None

    ledgers, begin, end = Ledgers(first_at), position_at(0, 0), position_at(2 * count - 2, size - 1)
    wanted, most = size * count - 1, 200
    assert ledgers.entries_between(begin, end) == pytest.approx(wanted, rel=0.05)
    assert len(calls) <= most
    found = ledgers.after_entries(begin, wanted, end)
    for _ in range(60):
        ledgers.begin_plan()
        before, calls[:] = found, []
        found = ledgers.after_entries(begin, wanted, end)
        assert len(calls) <= most
        assert before <= found <= end
    assert ledger_of(found) > count
    ledgers.begin_plan()
    found = ledgers.after_entries(begin, 10 * size, end)
    assert (ledger_of(found), entry_of(found)) == (20, 0)


@pytest.mark.parametrize(
    ("position", "following", "expected"),
    [
        (position_at(5, 3, 1), [], position_at(5, 3)),
        (position_at(5, 3, 1), [position_at(5, 4)], position_at(5, 3)),
        (position_at(5, 3, 1), [position_at(5, 3, 1)], position_at(5, 2)),
        (position_at(5, 3, 0), [position_at(5, 3)], position_at(5, 2)),
        (position_at(5, 0, 0), [position_at(5, 0)], None),
    ],
)
def test_only_whole_entries_are_acknowledged(
    position: int, following: list[int], expected: int | None
) -> None:
    assert last_whole_entry(position, following) == expected


def test_states_and_splits_come_back_equal() -> None:
    """PU-03: the states before and after the first discovery, and a split, survive. Damaged data are refused."""
    states = PulsarEnumeratorStateSerializer()
    for state in (PulsarEnumeratorState(), PulsarEnumeratorState(frozenset("ab"), frozenset("c"))):
        assert states.deserialize(1, states.serialize(state)) == state
    splits = PulsarPartitionSplitSerializer()
    split = PulsarPartitionSplit("persistent://public/default/t", initial=False)
    assert splits.deserialize(1, splits.serialize(split)) == split
    for serializer in (states, splits):
        with pytest.raises(CorruptCheckpointError):
            serializer.deserialize(1, ["t"])
