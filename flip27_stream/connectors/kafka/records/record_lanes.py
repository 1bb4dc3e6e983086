"""Follows the lengths of records in many batches at the same time, with numpy.

A lane is a batch, or a piece of a large batch. A step goes from one record to the next in every lane. Where a large
batch can be cut is guessed; a wrong cut shows afterwards, because the lane before it does not arrive there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.records.varints import Bytes, byte_pairs

SMALLEST_RECORD = 7
"""The size of a record with null key, null value and no headers, in bytes."""

_LONGEST_PAIR = 8191
"""The greatest length (bytes) that is written in two bytes. If records have more on average, lanes wait too often."""
_CUT_UP_TO = 1200
"""The average size (bytes) of records up to which large batches are cut: up to twice as many bytes are searched for a
cut, and each zero may be one.
"""
_RECORDS_OF_STEP = 20
"""The number of records that a loop finds in the time of one step, however few lanes there are."""
_RECORDS_OF_LANE = 128  # Records between two cuts of a large batch.
_STEPS = 8  # Steps before lanes that wait go on, and before the walk may end.
_HOPS = 6  # Records after which a path that begins at a guessed place is on the right one.


class BatchSpans(NamedTuple):
    """The places of batches of records in one buffer, in columns: the first byte, the end and the number of records."""

    lows: Int64s
    highs: Int64s
    counts: Int64s


def _strides() -> npt.NDArray[np.int32]:
    """Returns the size of a record by its first two bytes, the lower one first.

    The size is 0 if the two bytes are not a length, or if the length has more bytes.
    """
    pair = np.arange(1 << 16, dtype=np.int32)
    low, high = pair & 0xFF, pair >> 8
    two = low >> 7
    length = ((low & 0x7F) >> 1) + two * (high << 6)
    valid = (low & 1 == 0) & (two * high < 0x80) & (length >= SMALLEST_RECORD - 1)
    return np.where(valid, 1 + two + length, 0).astype(np.int32)


STRIDES = _strides()


def long_strides(buffer: Bytes, starts: Int64s) -> tuple[Int64s, Int64s]:
    """Returns the size of each record whose length takes three or four bytes, and the number of bytes of this length.

    The size is 0, and the number of bytes has no meaning, if the length takes another number of bytes or is impossible.

    Args:
        buffer: The decompressed records.
        starts: Where the records begin.
    """
    first, second, third, fourth = (buffer.take(starts + k, mode="clip").astype(np.int64) for k in range(4))
    four = third >> 7
    raw = first & 0x7F | (second & 0x7F) << 7 | (third & 0x7F) << 14 | four * fourth << 21
    valid = (first & second & 0x80 != 0) & (four * fourth < 0x80)
    valid &= (raw & 1 == 0) & (raw >> 1 >= SMALLEST_RECORD - 1)
    return np.where(valid, 3 + four + (raw >> 1), 0), 3 + four


def follow_in_lanes(buffer: Bytes, batches: BatchSpans) -> Int64s | None:
    """Returns where records begin, in the order of the buffer; those of a damaged batch may be wrong.

    Returns ``None`` if a loop is faster, or if the guess is wrong: another number of records was found.
    """
    lows, highs, counts = batches
    rows, size, longest = int(counts.sum()), int((highs - lows).sum()), int(counts.max())
    if can_cut := size <= _CUT_UP_TO * rows:
        longest = min(longest, 2 * _RECORDS_OF_LANE)
    if _RECORDS_OF_STEP * longest > rows or size > _LONGEST_PAIR * rows:
        return None
    begins, stops = _cut(buffer, batches) if can_cut else (lows, highs)
    visited = _walk(buffer, begins, stops, rows)
    found: Int64s = visited[visited <= (stops - SMALLEST_RECORD)[:, None]]
    return found if len(found) == rows else None


def _walk(buffer: Bytes, begins: Int64s, stops: Int64s, rows: int) -> Int64s:
    """Returns the places that each lane comes to, in a row for each lane. A lane may go on after its end.

    A lane waits before a record whose length takes three bytes or more, until the other lanes have made some steps. For
    each step of waiting it has ``len(buffer)``, where no record is, in its row.

    The walk ends when all lanes are at their ends, when one is where no record can begin, or when a loop would have
    ended: a lane takes a fourth of the time of a record in a loop for its step, and a step the time of some records at
    least. A loop is faster if many records are large and lanes are few, because lanes wait for each other.

    Args:
        buffer: The decompressed records.
        begins: The first byte of each lane.
        stops: The end of each lane.
        rows: The number of records in all lanes.
    """
    pairs = byte_pairs(buffer)
    last = len(pairs) - 1
    stops = np.minimum(stops, last)  # No lane comes further, also where a batch ends with the buffer.
    at, steps, has_waited = begins, list[Int64s](), False
    while (at < stops).any() and max(len(at) / 4, _RECORDS_OF_STEP) * (len(steps) - _STEPS) <= rows:
        for _ in range(_STEPS):
            steps.append(at)
            at = at + STRIDES.take(pairs[at])
            np.minimum(at, last, out=at)
        if len(waiting := np.flatnonzero((at == steps[-1]) & (at < stops))):
            has_waited, (strides, _heads) = True, long_strides(buffer, at[waiting])
            at[waiting] = np.minimum(at[waiting] + strides, last)
            if not strides.all():
                break
    visited = np.stack(steps, axis=1)
    if has_waited:
        visited[:, 1:][visited[:, 1:] == visited[:, :-1]] = len(buffer)
    return visited


def _cut(buffer: Bytes, batches: BatchSpans) -> tuple[Int64s, Int64s]:
    """Returns the first byte and the end of each lane.

    Bytes that look like the beginning of a record may be something else. So a lane begins some records later: after
    the first hops from a wrong place, nearly all paths are on the right one.
    """
    lows, highs, counts = batches
    pieces = np.maximum(counts // _RECORDS_OF_LANE, 1)
    if pieces.max() == 1:
        return lows, highs
    batch = np.repeat(np.arange(len(pieces)), pieces - 1)
    piece = 1 + np.arange(len(batch)) - np.repeat(np.cumsum(pieces - 1) - (pieces - 1), pieces - 1)
    near = lows[batch] + (highs - lows)[batch] * piece // pieces[batch]
    window = min(2 * int((highs - lows).sum() // counts.sum()) + 16, len(buffer) // 2)
    cuts = _starts_near(buffer, np.minimum(near, len(buffer) - window), window, highs[batch])
    begins = np.sort(np.concatenate([lows, cuts]))
    stops = np.append(begins[1:], highs[-1])
    stops[np.searchsorted(begins, lows[1:]) - 1] = highs[:-1]
    return begins, stops


def _starts_near(buffer: Bytes, near: Int64s, window: int, highs: Int64s) -> Int64s:
    """Returns where a record probably begins after the places ``near``, and before the ends of their batches."""
    pairs = byte_pairs(buffer)
    windows = np.ndarray((len(buffer) - window + 1,), f"V{window}", buffer.data, 0, (1,))[near]
    zero = windows.view(np.uint8).reshape(len(near), window) == 0
    lane: Int64s
    lane, offset = np.nonzero(zero[:, 1:-1] | zero[:, 2:])  # a zero byte (attributes) follows the length
    at = near[lane] + offset
    highs = highs[lane]
    for _ in range(_HOPS):
        pair = pairs[at]
        attributes = buffer.take(at + 1 + (pair >> 7 & 1), mode="clip")
        following = at + STRIDES.take(pair)
        right = (attributes == 0) & (following > at) & (following < highs - 1)
        at, lane, highs = following[right], lane[right], highs[right]
    is_first: npt.NDArray[np.bool_] = np.ones(len(at), bool)
    is_first[1:] = lane[1:] != lane[:-1]
    return at[is_first]
