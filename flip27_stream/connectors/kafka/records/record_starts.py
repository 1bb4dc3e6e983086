"""Finds where the records of batches begin, which is the only step of decoding that goes from record to record.

Each record begins with its length, so a loop can find the records one after the other. Numpy is faster in two cases. If
many records have the same length, one comparison finds all of them: the encoded length is the same at every stride. If
records are small and have no headers, a search in all batches at once finds the bytes that surround each beginning. The
search then checks that the lengths link all places found, from the first byte of a batch to its last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flip27_stream.connectors.kafka.records.varints import (
    INT_BYTES,
    Bytes,
    Longs,
    MalformedError,
    read_varint,
)

SMALLEST_RECORD = 7
"""The size of a record with null key, null value and no headers, in bytes."""

# Average bytes per record up to which the search is faster than the loop.
_SEARCH_UP_TO = 600
_MANY = 512  # records of a batch from which on a check for equal lengths is worth its time
_FEWEST_RUNS, _SHORT_RUN = 8, 64
_MOST_PLACES = 3
_CHUNK = 1 << 18  # bytes that fit into the cache of the processor


def find_records(buffer: Bytes, spans: Sequence[tuple[int, int]], counts: Longs) -> tuple[Longs, Longs]:
    """Returns where each record begins, at its length, and where it ends.

    A record ends where the next one begins, or where its span ends. Only some lengths are checked against these ends;
    the caller has to check them all.

    Args:
        buffer: The decompressed records.
        spans: The first byte and the end of each batch in ``buffer``.
        counts: The number of records of each batch.

    Raises:
        MalformedError: The records cannot be in the spans.
        IndexError: A record leaves its batch.
    """
    lows, highs = np.array(spans, np.int64).T
    if (counts * SMALLEST_RECORD > highs - lows).any():
        raise MalformedError(f"{counts.sum()} records can't be in {(highs - lows).sum()} bytes")
    behind = np.cumsum(counts)
    starts = np.empty(int(behind[-1]), np.int64)
    missing = np.arange(len(spans))
    if len(starts) >= _MANY * len(spans):
        missing = _follow_runs(buffer, lows, highs, counts, starts)
    if len(missing) == len(spans) and (highs - lows).sum() <= _SEARCH_UP_TO * len(starts):
        missing = _search(buffer, lows, highs, counts, starts)
    for batch in missing.tolist():
        low, high = spans[batch]
        rows = starts[behind[batch] - counts[batch] : behind[batch]]
        rows[:] = _follow(buffer[low:high].data, len(rows))
        rows += low
    ends = np.roll(starts, -1)
    ends[behind - 1] = highs
    return starts, ends


def _follow_runs(buffer: Bytes, lows: Longs, highs: Longs, counts: Longs, starts: Longs) -> Longs:
    """Fills ``starts`` for the batches whose records have few different lengths.

    Returns the indexes of other batches.
    """
    behind = np.cumsum(counts)
    for batch, (low, high, end) in enumerate(np.stack([lows, highs, behind], axis=1).tolist()):
        if not _runs(buffer[low:high], starts[end - int(counts[batch]) : end]):
            return np.arange(batch, len(lows))
        starts[end - int(counts[batch]) : end] += low
    return np.empty(0, np.int64)


def _runs(data: Bytes, starts: Longs) -> bool:
    """Fills ``starts`` if the records have few different lengths. Returns whether that is so."""
    at = row = runs = 0
    while row < len(starts):
        if runs >= _FEWEST_RUNS and row < _SHORT_RUN * runs:
            return False
        length, body = read_varint(data[at : at + INT_BYTES].tobytes(), 0)
        stride = body + length
        most = min(len(starts) - row, (len(data) - at) // stride if length > 0 else 0)
        if most < 1:
            raise MalformedError("a record leaves its batch")
        for window in (min(most, _SHORT_RUN), most):
            run = _same(data[at : at + window * stride].reshape(window, stride)[:, :body])
            if run < window:
                break
        starts[row : row + run] = np.arange(at, at + run * stride, stride)
        at, row, runs = at + run * stride, row + run, runs + 1
    return True


def _same(heads: Bytes) -> int:
    """Returns how many of the first rows are equal."""
    differs = np.zeros(len(heads), bool)
    for column in heads.T:
        differs |= column != column[0]
    first = int(differs.argmax())
    return first if differs[first] else len(heads)


def _follow(data: memoryview, count: int) -> list[int]:
    """Returns the beginnings of ``count`` records, found one after the other."""
    starts, at = [], 0
    for _ in range(count):
        starts.append(at)
        low = data[at]
        if low < 0x80:
            at += (low >> 1) + 1
        elif (high := data[at + 1]) < 0x80:
            at += ((low & 0x7F) >> 1) + (high << 6) + 2
        else:
            length, at = read_varint(data, at)
            at += max(length, 0)
    return starts


def _search(buffer: Bytes, lows: Longs, highs: Longs, counts: Longs, starts: Longs) -> Longs:
    """Fills ``starts`` for the batches in which the search finds all records.

    Returns the indexes of the other batches.
    """
    places, ends = _places(buffer, lows, highs, _MOST_PLACES * len(starts))
    first, behind = np.searchsorted(places, lows), np.searchsorted(places, highs)
    found = behind - first == counts
    following = np.append(places[1:], -1)
    following[behind[found] - 1] = highs[found]
    # The number of places before each place that do not end where the next one begins. A batch must have none.
    broken = np.append(0, np.cumsum(ends != following))
    found &= broken[behind] == broken[first]
    found[found] = places[first[found]] == lows[found]
    if found.all() and len(places) == len(starts):
        starts[:] = places
        return np.empty(0, np.int64)
    rows = np.cumsum(counts)
    for batch in np.flatnonzero(found).tolist():
        starts[rows[batch] - counts[batch] : rows[batch]] = places[first[batch] : behind[batch]]
    return np.flatnonzero(~found)


def _places(buffer: Bytes, lows: Longs, highs: Longs, most: int) -> tuple[Longs, Longs]:
    """Returns the places where a record may begin, in order, and the ends of these records.

    A zero byte (attributes) follows the length at such a place. A zero byte (no headers) is before it, unless the first
    record of all has headers: then other records may have them, too. The first record of each batch is always
    included. A record ends at another place or at the end of a batch. The result is empty if there are more than
    ``most`` places, as in data full of zeros.
    """
    begin, end = int(lows[0]), int(highs[-1])
    data, lows, highs = buffer[begin:end], lows - begin, highs - begin
    may_begin = _marked(data)
    may_begin[lows] = True
    places = _true_positions(may_begin, most)
    may_begin[highs] = True
    places, ends = _lengths(data, places, may_begin)
    return places + begin, ends + begin


def _marked(data: Bytes) -> npt.NDArray[np.bool_]:
    """Returns for each byte, and for the end, whether a record may begin there; the first one is not looked at."""
    marked, is_bare = np.zeros(len(data) + 1, bool), _begins_bare(data)
    for at in range(1, len(data) - 2, _CHUNK):
        zero = data[at - 1 : at + _CHUNK + 2] == 0
        place = np.bitwise_or(zero[2:-1], zero[3:], out=marked[at : at + len(zero) - 3])
        if is_bare:
            place &= zero[:-3]
    return marked


def _begins_bare(data: Bytes) -> bool:
    """Returns whether the first record has no headers, so that it ends with a zero byte."""
    length, body = read_varint(data[:INT_BYTES].tobytes(), 0)
    return bool(data[body + length - 1] == 0)


def _true_positions(flags: npt.NDArray[np.bool_], most: int) -> Longs:
    """Returns the same as ``numpy.flatnonzero``, which is slow if few flags are true: it looks at 8 flags at once.

    The result is empty if more than ``most`` flags are true.
    """
    whole = len(flags) & ~7
    eights = flags[:whole].view(np.uint64)
    some = np.flatnonzero(eights != 0)
    if len(some) > most:
        return some[:0]
    inside = np.flatnonzero(eights.take(some).view(bool))
    positions = some.take(inside >> 3)
    positions <<= 3
    positions += inside & 7
    positions = np.append(positions, np.flatnonzero(flags[whole:]) + whole)
    return positions if len(positions) <= most else some[:0]


def _lengths(data: Bytes, places: Longs, may_begin: npt.NDArray[np.bool_]) -> tuple[Longs, Longs]:
    """Returns the places that have a length of one or two bytes before a zero byte, and the ends of these records.

    The others, most of which lie within a key or a value, and those whose record ends at no place are left out.
    """
    low, high = data.take(places), data.take(places + 1, mode="clip")
    two = low >> 7
    bodies = places + 1
    bodies += two
    lengths = (high * two).astype(np.uint16) << 6
    lengths += (low & 0x7F) >> 1
    ends = bodies + lengths
    valid = low & 1 == 0
    valid &= two & high >> 7 == 0
    valid &= lengths >= SMALLEST_RECORD - 1
    valid &= data.take(bodies, mode="clip") == 0
    valid &= ends < len(may_begin)
    valid &= may_begin.take(ends, mode="clip")
    if valid.all():
        return places, ends
    return places[valid], ends[valid]
