"""``DataclassSerializer`` stores dataclasses in offsets."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError
from flip27_stream.reader import DataclassSerializer, RangeSplit
from tests.reader.support.kit import Numbers


@dataclass(frozen=True)
class State:
    names: tuple[str, ...]
    pairs: tuple[tuple[str, int], ...] = ()
    seen_at: int | None = None


def test_a_dataclass_comes_back_equal() -> None:
    """A dataclass that is stored and read is equal to the first one. Tuples stay tuples."""
    serializer = DataclassSerializer(State)
    state = State(("a", "b"), (("c", 1),))
    stored = serializer.serialize(state)
    assert stored == {"names": ["a", "b"], "pairs": [["c", 1]], "seen_at": None}
    assert serializer.deserialize(serializer.version, stored) == state
    assert hash(serializer.deserialize(1, stored)) == hash(state)


def test_the_range_of_a_split_is_not_stored() -> None:
    serializer = DataclassSerializer(Numbers)
    split: RangeSplit = Numbers(number=3, start=5, end=9)
    assert isinstance(split, Numbers)
    assert serializer.serialize(split) == {"number": 3}
    assert serializer.deserialize(1, {"number": 3}) == Numbers(number=3)


@pytest.mark.parametrize(
    "damaged", [None, 3, [], {}, {"number": "3"}, {"number": True}, {"number": 3, "end": 4}]
)
def test_damaged_documents_are_refused(damaged: object) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"^A Numbers in the checkpoint is corrupt: [^.]*\.$"):
        DataclassSerializer(Numbers).deserialize(1, damaged)  # type: ignore[arg-type]


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(NewerCheckpointError, match="has version 2; this release reads up to 1"):
        DataclassSerializer(Numbers).deserialize(2, {"number": 3})
