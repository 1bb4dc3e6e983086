"""The ranges that the batch between two offsets reads. They are a pure function of the two offsets (PY-14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import SourceSplit
from flip27_stream.errors import CorruptCheckpointError
from offsets import Offset, SplitState, ranges


@dataclass(frozen=True)
class PlainSplit(SourceSplit):
    name: str

    @property
    def split_id(self) -> str:
        return self.name

    def between(self, start: int, end: int) -> PlainSplit:
        return self


def _offset(
    batch: int, positions: Mapping[str, int], begin: Mapping[str, int] | None = None, lineage: str = "ab"
) -> Offset[None]:
    splits = {name: SplitState(PlainSplit(name), position) for name, position in positions.items()}
    return Offset("toy", lineage, batch, None, splits, begin or {}, None)


def test_first_batch_reads_from_begin() -> None:
    end = _offset(0, {"b": 5, "a": 7, "c": 2}, {"a": 0, "b": 3, "c": 2})
    assert ranges(None, end) == [(PlainSplit("a"), 0, 7), (PlainSplit("b"), 3, 5)]


def test_later_batch_reads_on_and_takes_in_discovered_and_moved_splits() -> None:
    start = _offset(3, {"a": 7, "gone": 9, "lost": 4, "still": 1}, {"a": 0})
    end = _offset(4, {"new": 6, "a": 9, "lost": 20, "still": 1}, {"new": 2, "lost": 15})
    assert ranges(start, end) == [
        (PlainSplit("a"), 7, 9),
        (PlainSplit("lost"), 15, 20),
        (PlainSplit("new"), 2, 6),
    ]


def test_a_recreated_split_may_begin_before_its_old_position() -> None:
    assert ranges(_offset(1, {"a": 90}), _offset(2, {"a": 4}, {"a": 0})) == [(PlainSplit("a"), 0, 4)]


def test_py_14_nothing_is_read_between_an_offset_and_itself() -> None:
    """The batch between an offset and itself reads nothing. Spark may ask for it, and the rows of batch 0 must
    not be read again.
    """
    offset = _offset(0, {"a": 7}, {"a": 0})
    assert ranges(offset, offset) == []
    assert ranges(None, None) == []


@given(st.lists(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 9)), min_size=1, max_size=8))
def test_every_position_is_read_once_over_a_lineage(steps: list[dict[str, int]]) -> None:
    """PY-14, I1: successive batches read each position of a split once and in order, from its begin to its last
    position. This holds whichever splits move in each batch.
    """
    start: Offset[None] | None = None
    positions: dict[str, int] = {}
    read: dict[str, int] = {}
    for batch, step in enumerate(steps):
        begin = {name: 100 for name in step if name not in positions}
        positions |= {name: positions.get(name, 100) + rows for name, rows in step.items()}
        end = _offset(batch, positions, begin)
        planned = ranges(start, end)
        assert planned == ranges(start, end)
        assert [r.split.split_id for r in planned] == sorted(r.split.split_id for r in planned)
        for split, first, last in planned:
            assert first == read.get(split.split_id, 100)
            read[split.split_id] = last
        start = end
    assert read == {name: position for name, position in positions.items() if position > 100}


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (_offset(1, {"a": 7}), _offset(2, {"a": 6}), "split 'a' would be read backwards, from 7 to 6"),
        (
            _offset(1, {"a": 7}),
            _offset(2, {"a": 8}, {"a": 9}),
            "split 'a' would be read backwards, from 9 to 8",
        ),
        (_offset(1, {"a": 7}), _offset(2, {"a": 7, "b": 1}), "split 'b' is new in batch 2 but has no begin"),
        (None, _offset(0, {"a": 7}), "split 'a' is new in batch 0 but has no begin"),
        (
            _offset(1, {}),
            _offset(2, {}, lineage="cd"),
            "of checkpoint 'ab', the end offset of checkpoint 'cd'",
        ),
        (_offset(2, {"a": 7}), _offset(1, {"a": 8}), "of batch 1, which is not after batch 2"),
        (_offset(2, {"a": 7}), _offset(2, {"a": 8}), "of batch 2, which is not after batch 2"),
        (_offset(2, {"a": 7}), None, "batch 2 is followed by the initial offset"),
    ],
)
def test_contradictory_offsets_are_refused(
    start: Offset[None] | None, end: Offset[None] | None, message: str
) -> None:
    with pytest.raises(CorruptCheckpointError, match=message):
        ranges(start, end)


def test_with_gaps_in_the_log_a_batch_reaches_over_offsets_that_are_not_in_it() -> None:
    """A split that began between two logged offsets is read from where it began, whether it is new, has lost records
    or was created again. Asynchronous progress tracking leaves such gaps between logged offsets.
    """
    start = _offset(3, {"a": 7, "lost": 4, "again": 90, "old": 1})
    end = replace(
        _offset(9, {"a": 9, "new": 6, "lost": 20, "again": 200, "old": 8, "newest": 3}, {"newest": 1}),
        earlier_begins={"new": (2, 4), "lost": (15, 9), "again": (0, 8), "old": (0, 3)},
    )
    assert ranges(start, end) == [
        (PlainSplit("a"), 7, 9),
        (PlainSplit("again"), 0, 200),
        (PlainSplit("lost"), 15, 20),
        (PlainSplit("new"), 2, 6),
        (PlainSplit("newest"), 1, 3),
        (PlainSplit("old"), 1, 8),
    ]


@pytest.mark.parametrize("begun", [{"unknown": (0, 1)}, {"a": (0, 1)}])
def test_a_split_has_one_begin(begun: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match=r"\['(unknown|a)'\]"):
        replace(_offset(2, {"a": 5}, {"a": 1}), earlier_begins=begun)
