"""Record batches of many logs in columns, in the order of their logs and offsets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s

Batches = npt.NDArray[np.void]

BATCH = np.dtype(
    [
        ("start", np.int64),
        ("stop", np.int64),
        ("greatest", np.int64),
        ("latest", np.int64),
        ("first_offset", np.int64),
        ("first_time", np.int64),
        ("piece", np.int64),
        ("record", np.int64),
        ("record_end", np.int64),
        ("log", np.int32),
        ("place", np.int32),
        ("size", np.int32),
        ("has_first", np.bool_),
    ],
    align=True,
)
"""A batch, or several batches that were decoded together.

``log`` is the index of its log. All records of the log from offset ``start`` up to ``stop`` (exclusive) are in it, or
in batches before it. ``greatest`` is the greatest event time (ms), -1 if no record has one, and 2^63 - 1 if only its
records tell. Once these are decoded, it is the greatest plausible time, and ``latest`` the greatest time of all.
``first_offset`` and ``first_time`` are those of its first record, if ``has_first``; otherwise ``first_offset`` is not
above that of its first record. ``piece``, ``place`` and ``size`` say where its bytes are. ``record`` and ``record_end``
are the range of its records in the columns of records; both are -1 before they are decoded.
"""


@dataclass(frozen=True)
class OrderedBatches:
    """Batches that do not overlap; there may be gaps between them.

    Attributes:
        batches: The batches (:data:`BATCH`), those of one log next to each other.
        begins: The index of the first batch of each log, and the number of all batches.
        run_ends: For each batch the end (exclusive) of the batches that follow it without a gap.
    """

    batches: Batches
    begins: Int64s
    run_ends: Int64s

    @staticmethod
    def of(batches: Batches, logs: int) -> OrderedBatches:
        """Returns ``batches`` of the logs 0 to ``logs`` - 1 in order. What is there twice is removed."""
        log, start = batches["log"], batches["start"]
        if ((log[1:] < log[:-1]) | ((log[1:] == log[:-1]) & (start[1:] < start[:-1]))).any():
            batches = batches[np.lexsort((start, log))]
        batches = _without_overlaps(batches)
        log, start, stop = batches["log"], batches["start"], batches["stop"]
        same = log[1:] == log[:-1]
        ends = np.append(np.flatnonzero(~same | (start[1:] > stop[:-1])) + 1, len(log))
        run_ends = np.repeat(ends, np.diff(ends, prepend=0)) if len(log) else ends[:0]
        return OrderedBatches(batches, np.searchsorted(log, np.arange(logs + 1)), run_ends)


def _without_overlaps(batches: Batches) -> Batches:
    """Returns ordered batches of which each begins at or after the end of those before it in its log."""
    log, start = batches["log"], batches["start"]
    same = log[1:] == log[:-1]
    if not (same & (start[1:] < batches["stop"][:-1])).any():
        return batches
    reached, distance = batches["stop"].copy(), 1  # The greatest end up to each batch in its log.
    while (near := log[distance:] == log[:-distance]).any():
        reached[distance:][near] = np.maximum(reached[distance:], reached[:-distance])[near]
        distance *= 2
    start[1:][same] = np.maximum(start[1:], reached[:-1])[same]
    return batches[start < batches["stop"]]
