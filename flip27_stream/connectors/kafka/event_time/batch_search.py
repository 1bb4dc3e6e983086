"""Searches in the known batches of many logs together. They send no requests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flip27_stream.arrays import Flags, Int64s
from flip27_stream.connectors.kafka.event_time.known_batches import UNKNOWN_TIME, KnownBatches
from flip27_stream.connectors.kafka.event_time.segments import elements, first_accepted, lower_bound

NO_TIME = -1
"""The event time of a result without a record."""
_NO_BATCH = -1


class Step(NamedTuple):
    """The state of the search in each log.

    Attributes:
        offsets: The offset of the record that was found, or the offset from which the search goes on.
        times: The event time (ms) of the record that was found, or :data:`NO_TIME`.
        undecoded: The index of the batch at ``offsets`` whose records must be decoded first; -1 without one.
        is_unknown: Whether the batch at ``offsets`` is not known.
    """

    offsets: Int64s
    times: Int64s
    undecoded: Int64s
    is_unknown: Flags


def search_batches(
    known: KnownBatches, logs: Int64s, event_time: int, low: Int64s, plausible_until: int
) -> Step:
    """Searches each log for the first record at or above an event time, as far as its batches are known.

    Args:
        known: The batches of all logs.
        logs: The logs to search in.
        event_time: The least event time (ms), not negative.
        low: The first offset of the search in each of them.
        plausible_until: The greatest event time (ms); records above it are ignored.
    """
    batches, first, run_end = known.ordered.batches, *_run(known, logs, low)
    greatest = batches["greatest"]
    rows = first_accepted(first, run_end, lambda index: greatest[index] >= event_time)
    hits = np.flatnonzero(rows < run_end)
    offsets, times = _run_stops(known, first, run_end, low), np.full(len(logs), NO_TIME)
    undecoded, is_unknown = np.full(len(logs), _NO_BATCH), rows == run_end
    batch, start = batches[rows[hits]], low[hits]
    at_first = batch["has_first"] & (batch["first_offset"] >= start)
    at_first &= (batch["first_time"] >= event_time) & (batch["first_time"] <= plausible_until)
    is_decoded = batch["record_end"] >= 0
    offsets[hits] = np.where(is_decoded & ~at_first, batch["stop"], np.maximum(batch["first_offset"], start))
    times[hits[at_first]] = batch["first_time"][at_first]
    undecoded[hits] = np.where(is_decoded | at_first, _NO_BATCH, rows[hits])
    inside = np.flatnonzero(is_decoded & ~at_first)
    if len(inside):
        ends = batch["record_end"][inside]
        begins = lower_bound(known.offsets, batch["record"][inside], ends, start[inside])

        def fits(index: Int64s) -> Flags:
            found = known.times[index]
            return (found >= event_time) & (found <= plausible_until)

        records = first_accepted(begins, ends, fits)
        is_found = records < ends
        found, records = hits[inside[is_found]], records[is_found]
        offsets[found], times[found] = known.offsets[records], known.times[records]
    return Step(offsets, times, undecoded, is_unknown)


def known_until(known: KnownBatches, logs: Int64s, low: Int64s) -> Int64s:
    """Returns for each of ``logs`` the first offset at or after ``low`` that is not known."""
    return _run_stops(known, *_run(known, logs, low), low)


def _run(known: KnownBatches, logs: Int64s, low: Int64s) -> tuple[Int64s, Int64s]:
    """Returns the known batch at ``low`` in each log, and the end of the batches that follow it without a gap.

    Both are equal if no batch is known there.
    """
    begins, ends = known.ordered.begins[logs], known.ordered.begins[logs + 1]
    first = lower_bound(known.ordered.batches["stop"], begins, ends, low + 1)
    run_end = first.copy()
    inside = np.flatnonzero(first < ends)
    covered = inside[known.ordered.batches["start"][first[inside]] <= low[inside]]
    run_end[covered] = known.ordered.run_ends[first[covered]]
    return first, run_end


def _run_stops(known: KnownBatches, first: Int64s, run_end: Int64s, low: Int64s) -> Int64s:
    """Returns the offset after each run of batches, which is ``low`` for an empty one."""
    stops: Int64s = low.copy()
    runs = np.flatnonzero(first < run_end)
    stops[runs] = known.ordered.batches["stop"][run_end[runs] - 1]
    return stops


def greatest_times(known: KnownBatches, low: Int64s, high: Int64s, plausible_until: int) -> Int64s:
    """Returns the greatest known event time (ms) of each log from ``low`` up to ``high``, or :data:`NO_TIME`.

    Batches that are partly outside, or may have implausible times, are decoded for it.

    Args:
        known: The batches of all logs.
        low: The first offset in each log.
        high: The end of the offsets in each log (exclusive).
        plausible_until: The greatest event time (ms); records above it are ignored.
    """
    greatest = np.full(len(low), NO_TIME)
    is_whole, rows = _whole_and_part(known, low, high, plausible_until)
    if len(undecoded := rows[known.ordered.batches["record_end"][rows] < 0]):
        known.decode(undecoded)
        is_whole, rows = _whole_and_part(known, low, high, plausible_until)
    whole = known.ordered.batches[is_whole]
    np.maximum.at(greatest, whole["log"], whole["greatest"])
    rows = rows[known.ordered.batches["greatest"][rows] > greatest[known.ordered.batches["log"][rows]]]
    parts = known.ordered.batches[rows]
    begins = lower_bound(known.offsets, parts["record"], parts["record_end"], low[parts["log"]])
    ends = lower_bound(known.offsets, begins, parts["record_end"], high[parts["log"]])
    some = np.flatnonzero(begins < ends)
    last = known.times[ends[some] - 1]
    at_end = (last == parts["greatest"][some]) & (last <= plausible_until)  # As in most batches.
    begins = begins.copy()
    begins[some[at_end]] = ends[some[at_end]] - 1
    index, owner = elements(begins[some], ends[some])
    times = known.times[index]
    times = np.where(times <= plausible_until, times, NO_TIME)
    np.maximum.at(greatest, parts["log"][some][owner], times)
    return greatest


def _whole_and_part(
    known: KnownBatches, low: Int64s, high: Int64s, plausible_until: int
) -> tuple[Flags, Int64s]:
    """Divides the known batches that reach into the ranges from ``low`` to ``high`` of their logs.

    Returns:
        Which batches are wholly in their range and have a plausible greatest event time; and the indexes of the others,
        whose records must be looked at.
    """
    batches = known.ordered.batches
    low, high = low[batches["log"]], high[batches["log"]]
    inside = (batches["stop"] > low) & (batches["start"] < high) & (batches["greatest"] >= 0)
    whole = inside & (batches["first_offset"] >= low) & (batches["stop"] <= high)
    whole &= (batches["greatest"] <= plausible_until) & (batches["greatest"] != UNKNOWN_TIME)
    return whole, np.flatnonzero(inside & ~whole)
