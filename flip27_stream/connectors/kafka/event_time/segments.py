"""Searches in many segments of a column together; a segment is a range of the column's elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Flags, Int64s

_FIRST_WINDOW, _GROWTH = 16, 8


def lower_bound(column: npt.NDArray[np.int64], begins: Int64s, ends: Int64s, wanted: Int64s) -> Int64s:
    """Returns for each segment the index of its first element that is at least ``wanted``, or its end.

    Args:
        column: The column, ascending within each segment.
        begins: The first index of each segment.
        ends: The end of each segment (exclusive).
        wanted: The least wanted value of each segment.
    """
    low, high = begins, ends
    while (is_open := low < high).any():
        middle = (low + high) >> 1
        below = is_open & (column[np.where(is_open, middle, 0)] < wanted)
        low = np.where(below, middle + 1, low)
        high = np.where(is_open & ~below, middle, high)
    return low


def first_accepted(begins: Int64s, ends: Int64s, accepted: Callable[[Int64s], Flags]) -> Int64s:
    """Returns for each segment the index of its first accepted element, or its end.

    Args:
        begins: The first index of each segment.
        ends: The end of each segment (exclusive).
        accepted: Says which of the elements with these indexes are accepted.
    """
    found, at, window = np.maximum(begins, ends), begins, _FIRST_WINDOW
    segments = np.flatnonzero(begins < ends)
    while len(segments):
        low = at[segments]
        high = np.minimum(low + window, ends[segments])
        index, owner = elements(low, high)
        hits = np.flatnonzero(accepted(index))
        firsts = hits[first_of_each(owner[hits])]
        hit = segments[owner[firsts]]
        found[hit] = index[firsts]
        is_left = high < ends[segments]
        is_left[owner[firsts]] = False
        at = at.copy()
        at[segments] = high
        segments, window = segments[is_left], window * _GROWTH
    return found


def first_of_each(groups: Int64s) -> Int64s:
    """Returns the index of the first element of each group; the elements of a group are next to each other."""
    return np.flatnonzero(np.append(True, groups[1:] != groups[:-1])[: len(groups)])


def elements(begins: Int64s, ends: Int64s) -> tuple[Int64s, Int64s]:
    """Returns the indexes of all elements of segments, and the number of the segment of each."""
    sizes = ends - begins
    behind = np.cumsum(sizes)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(len(owner)) + np.repeat(begins - behind + sizes, sizes), owner
