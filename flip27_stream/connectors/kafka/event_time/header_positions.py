"""Positions by event time that the headers of record batches prove, for all partitions together in columns.

A result for a partition equals that of a search in its records (``SplitSearch``). There is no result for a partition
whose first record is not known, that has an implausible time or more records to read than were fetched, or whose
position is inside a batch; such a partition must be searched.
"""

from __future__ import annotations

import numpy as np

from flip27_stream.arrays import Flags, Int64s
from flip27_stream.connectors.kafka.records.batch_header_columns import BatchHeaderColumns


class HeaderPositions:
    """The positions of one plan in logs whose batch headers are known. Indexes are those of the logs.

    Args:
        headers: The batches from ``positions`` on.
        positions: The first offset of the range of each log.
        ends: The end of each range (exclusive).
        budget: The greatest number of records of a log that can be read; ``None`` for no limit.
        plausible_until: Event times after this time (ms) are ignored as implausible; ``None`` for no bound.

    Attributes:
        known: Whether the headers have the first and the greatest event time of each range.
        next: The first event time (ms) of each range, where ``known``.
        reach: The greatest event time (ms) of each range, where ``known``.
    """

    def __init__(
        self,
        headers: BatchHeaderColumns,
        positions: Int64s,
        ends: Int64s,
        budget: int | None,
        plausible_until: int | None,
    ) -> None:
        self._positions = positions
        self._limits = ends if budget is None else np.minimum(ends, positions + budget)
        inside = headers.only(headers.stops <= ends[headers.logs])
        data = inside.only(inside.has_data)
        self.known = _covered(inside, ends) & _plausible(data, plausible_until, len(ends))
        self.next, self.reach = np.full((2, len(ends)), -1, np.int64)
        first = _firsts(data.logs)
        logs = data.logs[first]
        certain = data.has_first[first] & (data.first_offsets[first] >= positions[logs])
        certain &= data.first_times[first] >= 0
        has_first = np.zeros(len(ends), bool)
        has_first[logs] = certain
        self.known &= has_first
        self.next[logs] = data.first_times[first]
        if len(first):
            self.reach[logs] = np.maximum.reduceat(data.greatest, first)
        self._data = data.only(self.known[data.logs])

    def first_at_or_after(self, event_time: int) -> tuple[Int64s, Flags]:
        """Returns for each log the first position with an event time at or above ``event_time`` (ms).

        The second array says whether each position is proven. It is not proven if the record is not the first one of
        its batch, or if the log is not :attr:`known`.
        """
        event_time = max(event_time, 0)
        positions, proven = self._limits.copy(), self.known.copy()
        reaching = self._data.only(self._data.greatest >= event_time)
        first = _firsts(reaching.logs)
        logs, offsets = reaching.logs[first], reaching.first_offsets[first]
        at_first = reaching.has_first[first] & (reaching.first_times[first] >= event_time)
        beyond = offsets >= self._limits[logs]
        proven[logs] = at_first | beyond
        positions[logs] = np.minimum(offsets, self._limits[logs])
        return positions, proven

    def rows_to(self, positions: Int64s) -> Int64s:
        """Returns the number of offsets before ``positions`` in each range."""
        return positions - self._positions


def _covered(inside: BatchHeaderColumns, ends: Int64s) -> Flags:
    """Returns for each log whether its batches reach the end of its range."""
    covered = np.zeros(len(ends), bool)
    covered[inside.logs[inside.stops == ends[inside.logs]]] = True
    return covered


def _plausible(data: BatchHeaderColumns, plausible_until: int | None, logs: int) -> Flags:
    """Returns for each log whether all its batches have timestamps, none of which is implausible."""
    plausible = np.ones(logs, bool)
    wrong = data.greatest < 0
    if plausible_until is not None:
        wrong |= data.greatest > plausible_until
    plausible[data.logs[wrong]] = False
    return plausible


def _firsts(logs: Int64s) -> Int64s:
    """Returns the index of the first batch of each log that has a batch."""
    return np.flatnonzero(np.append(True, logs[1:] != logs[:-1])[: len(logs)])
