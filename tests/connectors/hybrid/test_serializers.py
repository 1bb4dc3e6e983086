"""Serializers of a checkpoint's content: the splits and the enumerator's state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flip27_stream.connectors.hybrid import ExactSeam, HybridSource
from flip27_stream.connectors.hybrid.planning.enumerator_state import (
    HybridEnumeratorState,
    HybridEnumeratorStateSerializer,
)
from flip27_stream.connectors.hybrid.planning.source_end import SourceEnd, TailSplit
from flip27_stream.connectors.hybrid.split import HybridSourceSplit, SerializedSplit
from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError
from tests.connectors.hybrid.support.kit import NotingFactory, history
from tests.spark.support.sources.memory_source import MemorySplit

HYBRID = HybridSource.builder(history("old", {})).add_source(NotingFactory({})).build()
CHAIN = HYBRID._sources

SPLITS: list[tuple[HybridSourceSplit, Any]] = [
    (HybridSourceSplit.of(CHAIN.active(0), MemorySplit("a")), [0, 1, "a"]),
    (HybridSourceSplit.of(CHAIN.active(1, 17), MemorySplit("b")), [1, 1, "b", None, 17]),
    (
        HybridSourceSplit.of(CHAIN.active(1, 17), MemorySplit("b"), ((0, 4), (6, 9))),
        [1, 1, "b", None, 17, [[0, 4], [6, 9]]],
    ),
    (
        HybridSourceSplit(0, None, SerializedSplit("x", 3, {"file": "y"}), active=CHAIN.active(0)),
        [0, 3, "x", {"file": "y"}],
    ),
]


@pytest.mark.parametrize(("split", "written"), SPLITS)
def test_hy_16_a_split_is_written_and_read_back(split: HybridSourceSplit, written: Any) -> None:
    """HY-16: a split is written in this form, and read back as it was. Later releases must read every form."""
    serializer = HYBRID.split_serializer
    assert serializer.serialize(split) == written
    read = serializer.deserialize(1, json.loads(json.dumps(written)))
    assert read == split
    assert hash(read) == hash(split)
    assert read.split_id == split.split_id == f"{written[0]}:{written[2]}"
    assert serializer.serialize(read) == written


def test_a_deserialized_split_has_the_split_of_its_source() -> None:
    read = HYBRID.split_serializer.deserialize(1, [0, 1, "a"])
    assert read.split == MemorySplit("a")
    assert read.between(2, 5).split == MemorySplit("a", 2, 5)


SEAMS = [
    SourceEnd(),
    SourceEnd(greatest=5, blind=True),
    SourceEnd(
        greatest=9,
        tail={
            "f": TailSplit(SerializedSplit("f", 2, [1, "f"]), 0, 7, 9),
            "g": TailSplit(SerializedSplit("g", 2, "g"), 3, 4),
        },
        overlap_ms=50,
    ),
    SourceEnd(ends={"a-0": 7}, seam=ExactSeam("{topic}-{partition}", "offset")),
]


@pytest.mark.parametrize("seam", SEAMS)
@pytest.mark.parametrize("end", [None, 17, {"version": 3}])
def test_a_state_is_written_and_read_back(seam: SourceEnd, end: Any) -> None:
    state = HybridEnumeratorState(1, 4, {"n": 2}, "Kafka x", end, seam, {"b": ((0, 4), (6, 9))})
    serializer = HybridEnumeratorStateSerializer()
    assert serializer.deserialize(3, json.loads(json.dumps(serializer.serialize(state)))) == state


def test_a_state_is_written_in_this_form() -> None:
    written = HybridEnumeratorStateSerializer().serialize(
        HybridEnumeratorState(1, 4, ["x"], "made", 17, SEAMS[2], {"b": ((0, 4),)})
    )
    assert written == {
        "index": 1,
        "source": "made",
        "state": [4, ["x"]],
        "end": 17,
        "greatest": 9,
        "tail": {"f": [2, [1, "f"], 0, 7, 9], "g": [2, "g", 3, 4, None]},
        "overlap": 50,
        "known": {"b": [[0, 4]]},
    }
    exact = HybridEnumeratorStateSerializer().serialize(
        HybridEnumeratorState(0, 4, 5, "old", source_end=SEAMS[3])
    )
    assert exact == {
        "index": 0,
        "source": "old",
        "state": [4, 5],
        "ends": {"a-0": 7},
        "seam": ["{topic}-{partition}", "offset"],
    }


def test_hy_16_other_versions_are_refused() -> None:
    """HY-16: the error names the version, and the versions that this release reads."""
    for serializer, version in ((HYBRID.split_serializer, 1), (HYBRID.enumerator_checkpoint_serializer, 3)):
        newer = f"has version {version + 1}; this release reads up to {version}"
        with pytest.raises(NewerCheckpointError, match=newer):
            serializer.deserialize(version + 1, [])
        with pytest.raises(CorruptCheckpointError, match="versions start at 1"):
            serializer.deserialize(0, [])


@pytest.mark.parametrize(
    "data",
    [None, "a", [], [0, 1], ["0", 1, "a"], [0, 1, "a", None, None, None, 5], [2, 1, "a"], [-1, 1, "a"]],
)
def test_damaged_splits_are_refused(data: Any) -> None:
    with pytest.raises(CorruptCheckpointError):
        HYBRID.split_serializer.deserialize(1, data)


@pytest.mark.parametrize(
    "change",
    [
        {"index": "0"},
        {"state": 5},
        {"greatest": "5"},
        {"tail": [1]},
        {"tail": {"f": [1]}},
        {"overlap": "5"},
        {"seam": "offset"},
        {"seam": ["{a}"]},
        {"known": 5},
    ],
)
def test_damaged_states_are_refused(change: dict[str, Any]) -> None:
    right: dict[str, Any] = {"index": 0, "source": "x", "state": [1, None]}
    HybridEnumeratorStateSerializer().deserialize(1, right)
    with pytest.raises(CorruptCheckpointError):
        HybridEnumeratorStateSerializer().deserialize(1, right | change)
