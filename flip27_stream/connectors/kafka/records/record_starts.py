"""Finds the beginnings of records in batches, the only step of decoding that goes from record to record.

Each record begins with its length, so a loop can find the records one after the other. There are three faster ways. If
many records of a batch have the same length, one comparison finds all of them. Small batches are often laid out like
the first one. And several loops can go at the same time, in numpy. Each way is a guess that the lengths have to prove:
from the first byte of a batch to its last, each record ends where the next one begins.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.kafka.records.record_lanes import (
    SMALLEST_RECORD,
    STRIDES,
    BatchSpans,
    follow_in_lanes,
    long_strides,
)
from flip27_stream.connectors.kafka.records.varints import (
    INT_BYTES,
    Bytes,
    MalformedError,
    byte_pairs,
    read_varint,
)

_MANY = 512  # The number of records in a batch from which on a check for equal lengths saves time.
_FEWEST_RUNS, _SHORT_RUN, _LONG_RUN = 8, 64, 1024


def find_records(buffer: Bytes, batches: BatchSpans) -> tuple[Int64s, Int64s]:
    """Returns the position after the length of each record, and the end of each record.

    Args:
        buffer: The decompressed records.
        batches: The places of the batches in ``buffer``; no count is 0.

    Raises:
        MalformedError: The records cannot be in the spans, or their lengths do not fill them.
        IndexError: A record exceeds the buffer.
    """
    lows, highs, counts = batches
    if (counts * SMALLEST_RECORD > highs - lows).any():
        raise MalformedError(f"{counts.sum()} records can't be in {(highs - lows).sum()} bytes")
    total = int(counts.sum())
    bodies, ends = np.empty(total, np.int64), np.empty(total, np.int64)
    missing = np.arange(len(counts))
    for guess in (_like_the_first, _runs, follow_in_lanes):
        some = BatchSpans(lows[missing], highs[missing], counts[missing])
        starts = guess(buffer, some)
        if starts is not None:
            rows = _rows_of(missing, counts)
            bodies[rows], ends[rows], proven = _linked(buffer, starts, some)
            missing = missing[~proven]
        if not len(missing):
            return bodies, ends
    rows = _rows_of(missing, counts)
    bodies[rows], ends[rows] = _followed(buffer, BatchSpans(lows[missing], highs[missing], counts[missing]))
    return bodies, ends


def _rows_of(some: Int64s, counts: Int64s) -> slice | npt.NDArray[np.bool_]:
    """Returns the rows of some of the batches."""
    if len(some) == len(counts):
        return slice(None)
    chosen = np.zeros(len(counts), bool)
    chosen[some] = True
    return np.repeat(chosen, counts)


def _linked(
    buffer: Bytes, starts: Int64s, batches: BatchSpans
) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Returns the position after the length of each record, its end, and for each batch whether these are right."""
    behind = np.cumsum(batches.counts)
    first = behind - batches.counts
    pairs = byte_pairs(buffer)[starts]
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[behind - 1] = batches.highs
    strides, heads = STRIDES.take(pairs), 1 + (pairs >> 7 & 1)
    if len(long := np.flatnonzero(strides == 0)):
        strides[long], heads[long] = long_strides(buffer, starts[long])
    wrong = starts + strides != ends
    wrong[first] |= starts[first] != batches.lows
    proven = np.add.reduceat(wrong, first) == 0 if wrong.any() else np.ones(len(first), bool)
    return starts + heads, ends, proven


def _like_the_first(buffer: Bytes, batches: BatchSpans) -> Int64s | None:
    """Returns where records begin if all batches are laid out like the first one.

    Returns ``None`` if less than half of the batches have its size, or if its records are of many lengths.
    """
    lows, highs, counts = batches
    count, size = int(counts[0]), int(highs[0] - lows[0])
    alike = (counts == count) & (highs - lows == size)
    if 2 * alike.sum() <= len(counts) or len(counts) == 1:
        return None
    data, first = buffer[lows[0] : highs[0]], np.zeros(count, np.int64)
    if count < _MANY:
        ends = array("q")
        _follow(data.data, 0, count, array("q"), ends)
        first[1:] = ends[:-1]
    elif not _add_runs(data, first):
        return None
    starts = np.repeat(lows, counts)
    starts[np.repeat(alike, counts)] += np.tile(first, alike.sum())
    return starts


def _runs(buffer: Bytes, batches: BatchSpans) -> Int64s | None:
    """Returns where records begin if the records of each batch have few different lengths, and batches are large."""
    lows, counts = batches.lows, batches.counts
    if counts.sum() < _MANY * len(counts):
        return None
    starts, row = np.repeat(lows, counts), 0
    for low, high, count in np.stack(batches, axis=1).tolist():
        if not _add_runs(buffer[low:high], starts[row : row + count]):
            break
        row += count
    return starts if row else None


def _add_runs(data: Bytes, starts: Int64s) -> bool:
    """Adds to ``starts`` where the records of ``data`` begin. Returns whether they have few different lengths."""
    at = row = runs = 0
    while row < len(starts):
        if runs >= _FEWEST_RUNS and row < _SHORT_RUN * runs:
            return False
        length, body = read_varint(data[at : at + INT_BYTES].tobytes(), 0)
        stride = body + length
        most = min(len(starts) - row, (len(data) - at) // stride if length > 0 else 0)
        if most < 1:
            raise MalformedError("a record lies outside the bytes of its batch")
        for window in (_SHORT_RUN, _LONG_RUN, most):
            rows = min(window, most)
            run = _same(data[at : at + rows * stride].reshape(rows, stride)[:, :body])
            if run < window:
                break
        starts[row : row + run] += np.arange(at, at + run * stride, stride)
        at, row, runs = at + run * stride, row + run, runs + 1
    return True


def _same(heads: Bytes) -> int:
    """Returns the number of first rows that are equal."""
    differs = np.zeros(len(heads), bool)
    for column in heads.T:
        differs |= column != column[0]
    first = int(differs.argmax())
    return first if differs[first] else len(heads)


def _followed(buffer: Bytes, batches: BatchSpans) -> tuple[Int64s, Int64s]:
    """Returns the bodies and the ends of records, found one after the other."""
    bodies, ends = array("q"), array("q")
    for low, high, count in np.stack(batches, axis=1).tolist():
        _follow(buffer.data, low, count, bodies, ends)
        if ends[-1] != high:
            raise MalformedError("record lengths contradict each other")
    return np.frombuffer(bodies, np.int64), np.frombuffer(ends, np.int64)


def _follow(data: memoryview, at: int, count: int, bodies: array[int], ends: array[int]) -> None:
    """Follows the lengths of ``count`` records, of which the first one begins at ``at``.

    Args:
        data: The decompressed records.
        at: The first byte of the first record.
        count: The number of records.
        bodies: The position after the length of each record is appended here.
        ends: The end of each record is appended here.
    """
    for _ in range(count):
        low = data[at]
        if low < 0x80:
            raw, at = low, at + 1
        elif (high := data[at + 1]) < 0x80:
            raw, at = low & 0x7F | high << 7, at + 2
        elif (third := data[at + 2]) < 0x80:
            raw, at = low & 0x7F | (high & 0x7F) << 7 | third << 14, at + 3
        else:
            length, at = read_varint(data, at)
            raw = 2 * length if length >= 0 else -2 * length - 1  # in zigzag encoding again
        if raw & 1:  # Zigzag encoding has the sign in the lowest bit.
            raise MalformedError("a record has a negative length")
        bodies.append(at)
        at += raw >> 1
        ends.append(at)
