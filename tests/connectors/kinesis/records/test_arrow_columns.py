"""Columns of Arrow that are made without pandas equal those of PyArrow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flip27_stream.arrow_columns import binaries, longs, texts


@pytest.mark.parametrize("values", [[], [""], ["a", "", "bcd"], ["ü", "", "日本", "a"]])
def test_texts_and_binaries(values: list[str]) -> None:
    assert texts(values).equals(pa.array(values, pa.string()))
    coded = [value.encode() for value in values]
    assert binaries(coded).equals(pa.array(coded, pa.binary()))
    texts(values).validate(full=True)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_numbers_that_are_not_known_are_null(count: int) -> None:
    values = np.arange(count, dtype=np.int64) - 3
    known = values % 3 != 0
    assert longs(values).equals(pa.array(values))
    assert longs(values, known).equals(pa.array(values, mask=~known))
    assert longs(values, known).null_count == count - int(known.sum())
