"""The functions that make and read columns without pandas give the same as ``pa.array`` and ``to_numpy``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flip27_stream.arrow_columns import binaries, flags, ints, longs, numbers_of, repeated, texts


@pytest.mark.parametrize("values", [[], [""], ["a", "", "bcd"], ["ü", "", "日本", "a"]])
def test_texts_and_binaries(values: list[str]) -> None:
    assert texts(values).equals(pa.array(values, pa.string()))
    coded = [value.encode() for value in values]
    assert binaries(coded).equals(pa.array(coded, pa.binary()))
    texts(values).validate(full=True)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("text", ["", "a", "日本"])
def test_repeated_texts(text: str, count: int) -> None:
    assert repeated(text, count).equals(pa.array([text] * count, pa.string()))
    repeated(text, count).validate(full=True)


@pytest.mark.parametrize("values", [[None], [b"a", None, b"", b"bcd", None], [None] * 9])
def test_binaries_may_be_null(values: list[bytes | None]) -> None:
    assert binaries(values).equals(pa.array(values, pa.binary()))
    assert binaries(values).null_count == values.count(None)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_numbers_that_are_not_known_are_null(count: int) -> None:
    values = np.arange(count, dtype=np.int64) - 3
    known = values % 3 != 0
    assert longs(values).equals(pa.array(values))
    assert longs(values, known).equals(pa.array(values, mask=~known))
    assert longs(values, known).null_count == count - int(known.sum())


@pytest.mark.parametrize("count", [0, 1, 8, 9])
def test_flags(count: int) -> None:
    values = np.arange(count) % 3 == 0
    assert flags(values).equals(pa.array(values))


@pytest.mark.parametrize("step", [1, 2, -1])
def test_numbers_may_be_parts_of_an_array(step: int) -> None:
    values = np.arange(10)[::step]
    assert longs(values).equals(pa.array(values))
    small = values.astype(np.int32)[::step]
    assert ints(small).equals(pa.array(small))


@pytest.mark.parametrize("values", [[], [3], [None], [1, None, 3, None, 5, 6, 7, 8, 9, None]])
@pytest.mark.parametrize("first", [0, 1, 9])
def test_numbers_of_a_column(values: list[int | None], first: int) -> None:
    column = pa.array(values, pa.int64()).slice(first)
    expected = [-1 if value is None else value for value in values[first:]]
    assert numbers_of(column, null=-1).tolist() == expected
