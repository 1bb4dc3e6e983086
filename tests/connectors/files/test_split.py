"""The splits of files and their serializer."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.api import JsonValue
from flip27_stream.connectors.files.split import FileSplit, FileSplitSerializer
from flip27_stream.errors import CorruptCheckpointError, NewerCheckpointError

SPLITS = FileSplitSerializer()


@given(
    st.text(min_size=1),
    st.integers(-(2**62), 2**62),
    st.integers(0, 2**62),
    st.dictionaries(st.text(), st.none() | st.text()),
    st.integers(0, 2**62),
)
def test_fi11_a_split_comes_back_equal(
    path: str, modified: int, size: int, partition: dict[str, str | None], length: int
) -> None:
    """FI-11: a split comes back with every field equal, with and without values of partitions, for any path."""
    split = FileSplit(path, modified, size, tuple(partition.items()), length)
    stored = json.loads(json.dumps(SPLITS.serialize(split)))
    assert SPLITS.deserialize(1, stored) == split
    assert pickle.loads(pickle.dumps(split)) == split


def test_fi11_a_split_that_is_serialized_twice_has_one_form() -> None:
    """FI-11: a split that is serialized twice has the same form, and its id is made once."""
    split = FileSplit("/data/a@1+2.parquet", 1700000000000, 4711, length=9)
    assert split.split_id is split.split_id
    assert SPLITS.serialize(split) == SPLITS.serialize(split) == [split.split_id, 9]
    assert split.split_id == "/data/a@1+2.parquet@1700000000000+4711"


def test_fi13_a_range_is_not_part_of_the_id() -> None:
    """FI-13: a range says which part of a split is read. It is part neither of the split's id
    nor of its stored form.
    """
    split = FileSplit("/a", 1, 10_000)
    first = split.between(123, 456)
    moved = first.between(1234, 7566)
    assert [(s.start, s.end) for s in (split, first, moved)] == [(0, 0), (123, 456), (1234, 7566)]
    assert split.split_id == first.split_id == moved.split_id
    assert SPLITS.serialize(moved) == SPLITS.serialize(split)


def test_a_file_with_another_time_or_size_is_another_split() -> None:
    """FI-04: a file that was written anew under its path is another split."""
    ids = {FileSplit("/a", *version).split_id for version in ((1, 10), (2, 10), (1, 11))}
    assert len(ids) == 3


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        "/a@1+1",
        *([text, 0] for text in ("", "/a", "/a@1", "/a@x+1", "@1+1", 5)),
        ["/a@1+1"],
        ["/a@1+1", "9"],
        ["/a@1+1", 9, 5],
        ["/a@1+1", 9, [["x"]]],
        ["/a@1+1", 9, [["x", 1]]],
    ],
)
def test_a_corrupt_split_is_refused(data: JsonValue) -> None:
    with pytest.raises(CorruptCheckpointError, match="file split"):
        SPLITS.deserialize(1, data)


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(NewerCheckpointError, match="version 9; this release reads up to 2"):
        SPLITS.deserialize(9, ["/a@1+1", 0])
    with pytest.raises(CorruptCheckpointError, match="version 0"):
        SPLITS.deserialize(0, ["/a@1+1", 0])
