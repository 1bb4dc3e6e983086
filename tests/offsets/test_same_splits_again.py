"""Offsets of one codec, most of which have the same splits: those are serialized once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import pytest

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from offsets import Offset, OffsetCodec, SplitState


@dataclass(frozen=True)
class LabelledSplit(SourceSplit):
    """A split with a label, which does not count in comparisons."""

    split_id: str = ""
    label: str = field(default="", compare=False)

    def between(self, start: int, end: int) -> LabelledSplit:
        return self


class CountingSerializer(SimpleVersionedSerializer[LabelledSplit]):
    """Counts the splits that it serializes."""

    version = 1

    def __init__(self) -> None:
        self.calls = 0

    def serialize(self, value: LabelledSplit) -> JsonValue:
        self.calls += 1
        return [value.split_id, value.label]

    def deserialize(self, version: int, data: JsonValue) -> LabelledSplit:
        raise AssertionError


class NoState(SimpleVersionedSerializer[None]):
    """The serializer of an enumerator without a state, which is always ``None``."""

    version = 1

    def serialize(self, value: None) -> JsonValue:
        return None

    def deserialize(self, version: int, data: JsonValue) -> None:
        return None


@pytest.fixture
def serializer() -> CountingSerializer:
    return CountingSerializer()


@pytest.fixture
def codec(serializer: CountingSerializer) -> OffsetCodec[LabelledSplit, None]:
    return OffsetCodec("logs", serializer, NoState())


def _offset(*splits: LabelledSplit, position: int = 1) -> Offset[None]:
    states = {split.split_id: SplitState(split, position) for split in splits}
    return Offset("logs", "9f86d081", 3, None, states, {}, None)


A, B, C = LabelledSplit("a"), LabelledSplit("b"), LabelledSplit("c")


def test_the_same_splits_are_serialized_once(
    codec: OffsetCodec[LabelledSplit, None], serializer: CountingSerializer
) -> None:
    assert codec.to_json(_offset(A, B))["splits"] == {
        "a": [1, None, None, None, ["a", ""]],
        "b": [1, None, None, None, ["b", ""]],
    }
    assert codec.to_json(_offset(B, A, position=7))["splits"] == {
        "a": [7, None, None, None, ["a", ""]],
        "b": [7, None, None, None, ["b", ""]],
    }
    assert serializer.calls == 2


@pytest.mark.parametrize(
    "later",
    [(), (A,), (B,), (A, B, C), (A, C), (A, dataclasses.replace(B, label="new"))],
    ids=["none", "one less", "the first less", "one more", "another one", "an equal one with other data"],
)
def test_other_splits_are_serialized_as_by_a_new_codec(
    codec: OffsetCodec[LabelledSplit, None], later: tuple[LabelledSplit, ...]
) -> None:
    new: OffsetCodec[LabelledSplit, None] = OffsetCodec("logs", CountingSerializer(), NoState())
    codec.to_json(_offset(A, B))
    assert codec.to_json(_offset(*later)) == new.to_json(_offset(*later))


def test_a_split_under_the_id_of_another_one_is_refused_after_a_good_offset(
    codec: OffsetCodec[LabelledSplit, None],
) -> None:
    codec.to_json(_offset(A, B))
    swapped = {"a": SplitState(B, 1), "b": SplitState(A, 1)}
    with pytest.raises(ValueError, match="stored with id 'a' has id 'b'"):
        codec.to_json(dataclasses.replace(_offset(A, B), splits=swapped))
    assert codec.to_json(_offset(A, B))["split_version"] == 1
