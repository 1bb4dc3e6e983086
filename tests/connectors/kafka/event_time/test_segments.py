"""Searches in many segments together give the results of a loop over each segment."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.event_time.segments import elements, first_accepted, lower_bound

COLUMNS = st.lists(st.lists(st.integers(-3, 30), max_size=40), max_size=6)


def bounds(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns all numbers as a column, and the begin and the end of each list in it."""
    ends = np.cumsum([len(numbers) for numbers in lists], dtype=np.int64)
    begins = ends - np.array([len(numbers) for numbers in lists], np.int64)
    return np.array([n for numbers in lists for n in numbers], np.int64), begins, ends


@given(COLUMNS, st.integers(-4, 31))
def test_lower_bound_is_that_of_a_loop(lists: list[list[int]], wanted: int) -> None:
    column, begins, ends = bounds([sorted(numbers) for numbers in lists])
    found = lower_bound(column, begins, ends, np.full(len(lists), wanted))
    below = [sum(n < wanted for n in numbers) for numbers in lists]
    assert (found - begins).tolist() == below


@given(COLUMNS, st.integers(-4, 31))
def test_first_accepted_element_is_that_of_a_loop(lists: list[list[int]], wanted: int) -> None:
    column, begins, ends = bounds(lists)
    found = first_accepted(begins, ends, lambda index: column[index] >= wanted)
    for at, numbers, begin in zip(found, lists, begins, strict=True):
        first = next((i for i, n in enumerate(numbers) if n >= wanted), len(numbers))
        assert at - begin == first


@given(COLUMNS)
def test_elements_are_all_indexes_with_their_segments(lists: list[list[int]]) -> None:
    column, begins, ends = bounds(lists)
    index, owner = elements(begins, ends)
    assert index.tolist() == list(range(len(column)))
    assert (begins[owner] <= index).all()
    assert (index < ends[owner]).all()
