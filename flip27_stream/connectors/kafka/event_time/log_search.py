"""Searches by event time in many logs together, which read what is not known yet.

A search goes forward through the known batches of a log. Where they end, it asks the time index of the broker for the
place from which to read on (ListOffsets), and reads further batches there.

ListOffsets answers with the first matching record of the whole log. This may be a transaction marker, an aborted
record, a record with an implausible timestamp, or a record before the position. So the answer is only the offset at
which to begin reading, or shows that no record matches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flip27_stream.arrays import Flags, Int64s
from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP, OffsetAndTimestamp
from flip27_stream.connectors.kafka.event_time.batch_search import (
    NO_TIME,
    greatest_times,
    known_until,
    search_batches,
)
from flip27_stream.connectors.kafka.event_time.known_batches import UNKNOWN_TIME, KnownBatches
from flip27_stream.connectors.kafka.event_time.position_reads import PROBE_BYTES, SCAN_BYTES, PositionReads
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.in_order import found_in

_ROUND_BYTES = 64 << 20
_TAIL_RECORDS = 64
_TAIL_TRIES = 6
_NO_BOUND = 2**63 - 1
_NO_ANSWER = OffsetAndTimestamp(-1, -1)


class Answer(NamedTuple):
    """The positions of all logs for one event time.

    Attributes:
        positions: The first position at or above the event time, or the end of the search; or the first unknown offset,
            if a leader did not answer.
        times: The event time (ms) of the record at each position, or :data:`NO_TIME`.
    """

    positions: Int64s
    times: Int64s


class LogSearch:
    """Finds positions by event time for one plan, in all its logs together.

    Arrays in arguments and results have an element for each log, unless stated otherwise.

    Args:
        known: The batches that are known. Batches that the searches read are added.
        reads: Sends the requests.
        plausible_until: The greatest event time (ms); records above it are ignored. ``None`` for no bound.
    """

    def __init__(self, known: KnownBatches, reads: PositionReads, plausible_until: int | None) -> None:
        self.plausible_until = _NO_BOUND if plausible_until is None else plausible_until
        self._known = known
        self._reads = reads

    def first(self, event_time: int, low: Int64s, high: Int64s) -> Answer:
        """Returns the first positions from ``low`` to ``high`` at or above ``event_time`` (ms).

        If it is 0, batches are read in order. Otherwise the time index of the broker is asked before unknown batches
        are read.
        """
        low, times = np.minimum(low, high), np.full_like(low, NO_TIME)
        may_ask, must_keep = np.full((2, len(low)), event_time > 0)
        sizes = np.full(len(low), PROBE_BYTES)
        logs = np.flatnonzero(low < high)
        while len(logs):
            step = search_batches(self._known, logs, event_time, low[logs], self.plausible_until)
            ends = high[logs]
            low[logs] = np.minimum(step.offsets, ends)
            is_found = (step.offsets < ends) & (step.times != NO_TIME)
            times[logs[is_found]] = step.times[is_found]
            is_open = (step.offsets < ends) & ~is_found
            logs, unknown = logs[is_open], logs[is_open & step.is_unknown]
            undecoded = step.undecoded[is_open & (step.undecoded >= 0)]
            if len(undecoded):  # Decoded records are used before other batches are read, which may drop them.
                undecoded = self._with_uncertain(undecoded)
                again = self._known.ordered.batches["log"][undecoded]
                again = again[~self._known.decode(undecoded)]
                may_ask[again], must_keep[again] = False, True
                continue
            ask, read = unknown[may_ask[unknown]], unknown[~may_ask[unknown]]
            self._ask_index(ask, event_time, low, high)
            may_ask[ask] = False
            kept = read[must_keep[read]]
            if len(kept):
                read = kept[: _fitting(sizes[kept])]
            silent = self._read(read, low, sizes, if_room=not len(kept))
            logs = logs[~np.isin(logs, silent)] if len(silent) else logs
        return Answer(low, times)

    def _with_uncertain(self, undecoded: Int64s) -> Int64s:
        """Returns batches to decode, with those that a search may have to decode next, one after the other.

        These are batches whose headers have no time, or an implausible one, in logs in which such a batch is decoded.
        """
        batches = self._known.ordered.batches
        is_uncertain = (batches["greatest"] > self.plausible_until) | (batches["greatest"] == UNKNOWN_TIME)
        is_uncertain &= batches["record_end"] < 0
        logs = batches["log"][undecoded[is_uncertain[undecoded]]]
        if not len(logs):
            return undecoded
        return np.union1d(undecoded, np.flatnonzero(is_uncertain & np.isin(batches["log"], logs)))

    def greatest(self, low: Int64s, high: Int64s, first: Answer) -> Int64s:
        """Returns the greatest known event times (ms) from ``low`` to ``high``, or :data:`NO_TIME`.

        If not all batches of a log are known, the others are read if they seem few; then one with the greatest event
        time, or one near ``high``.

        Args:
            low: The first offset of each log.
            high: The end of the offsets of each log (exclusive).
            first: The first positions that have an event time.
        """
        logs, gaps = self._gaps(np.flatnonzero(first.times != NO_TIME), first.positions, high)
        is_short = (high[logs] - gaps) * self._known.mean_record_size <= PROBE_BYTES
        if is_short.any():
            self._read_unknown(logs[is_short], first.positions, high)
            logs, _ = self._gaps(logs, first.positions, high)
        if not len(logs):
            return greatest_times(self._known, low, high, self.plausible_until)
        found, timestamps, _ = self._lookups(logs, MAX_TIMESTAMP)
        is_inside = (first.positions[logs] <= found) & (found < high[logs])
        inside, at, latest = logs[is_inside], low.copy(), np.full_like(low, _NO_BOUND)
        at[inside], latest[inside] = found[is_inside], timestamps[is_inside]
        self._read_unknown(inside, at, at + 1)
        known = greatest_times(self._known, low, high, self.plausible_until)
        logs = logs[known[logs] < latest[logs]]
        if not len(logs):
            return known
        self._look_at_tails(logs, first.positions, high)
        return greatest_times(self._known, low, high, self.plausible_until)

    def _look_at_tails(self, logs: Int64s, first: Int64s, high: Int64s) -> None:
        """Reads some records before ``high`` in each of ``logs``, and further back until one has an event time."""
        back = _TAIL_RECORDS
        for _ in range(_TAIL_TRIES):
            low = np.maximum(first, high - back)
            known = greatest_times(self._known, low, high, self.plausible_until)
            logs = logs[(low[logs] > first[logs]) & (known[logs] == NO_TIME)]
            logs = logs[~np.isin(logs, self._read_unknown(logs, low, high))]
            back *= 8

    def _read_unknown(self, logs: Int64s, low: Int64s, high: Int64s) -> Int64s:
        """Reads the first unknown batch from ``low`` to ``high`` in each of ``logs``; returns the unanswered ones."""
        logs, gaps = self._gaps(logs, low, high)
        at = low.copy()
        at[logs] = gaps
        return self._read(logs, at, np.full(len(at), PROBE_BYTES), if_room=True)

    def _gaps(self, logs: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
        """Returns the logs that are not wholly known from ``low`` to ``high``, and the first unknown offset of each."""
        until = known_until(self._known, logs, low[logs])
        is_open = until < high[logs]
        return logs[is_open], until[is_open]

    def _read(self, logs: Int64s, offsets: Int64s, sizes: Int64s, *, if_room: bool) -> Int64s:
        """Reads batches at ``offsets`` in each of ``logs``, and returns those that were not answered.

        ``sizes`` has the greatest size of each answer in bytes, which grows with each read.
        """
        if not len(logs):
            return logs
        self._known.free_memory()
        partitions = self._partitions(logs)
        at, most = offsets[logs].tolist(), sizes[logs].tolist()
        answered = self._reads.batches(partitions, at, most, self._known, if_room=if_room)
        sizes[logs] = np.minimum(4 * sizes[logs], SCAN_BYTES)
        return logs[[tp not in answered for tp in partitions]] if len(answered) < len(logs) else logs[:0]

    def _ask_index(self, logs: Int64s, event_time: int, low: Int64s, high: Int64s) -> None:
        """Moves ``low`` of some logs to the first record at or above ``event_time``, as the time index says."""
        found, _, is_answered = self._lookups(logs, event_time)
        ends = high[logs]
        at = np.where(found < 0, ends, np.clip(found, low[logs], ends))
        low[logs] = np.where(is_answered, at, low[logs])

    def _lookups(self, logs: Int64s, timestamp: int) -> tuple[Int64s, Int64s, Flags]:
        """Asks the time index for a timestamp (ms) in each of ``logs``.

        Returns:
            The offset and the timestamp of the record that was found in each log, both -1 without one; and whether the
            log was answered.
        """
        if not len(logs):
            return logs, logs, np.ones(0, bool)
        partitions = self._partitions(logs)
        answers = self._reads.lookups(dict.fromkeys(partitions, timestamp))
        found = [answer or _NO_ANSWER for answer in found_in(partitions, answers)]
        offsets = np.fromiter([answer.offset for answer in found], np.int64, len(found))
        times = np.fromiter([answer.timestamp for answer in found], np.int64, len(found))
        is_answered = np.array([answer is not _NO_ANSWER for answer in found], bool)
        return offsets, times, is_answered

    def _partitions(self, logs: Int64s) -> list[TopicPartition]:
        partitions = self._known.partitions
        return partitions if len(logs) == len(partitions) else [partitions[log] for log in logs.tolist()]


def _fitting(sizes: Int64s) -> int:
    """Returns the number of reads of these sizes (bytes) that can be kept together, at least one."""
    return max(1, int(np.searchsorted(np.cumsum(sizes), _ROUND_BYTES, side="right")))
