"""The times in which a source ran, and in which its splits waited.

Times without recordings are not drawn as progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.member_info import entries_in
from watermark_alignment.table.recordings import Member

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.datetime64]

_USUAL: Final = 3
"""The number of usual intervals without a batch after which the time before a batch counts as an outage."""
SHORTEST_GAP: Final = np.timedelta64(10, "s")
_ONE_BATCH: Final = np.timedelta64(1, "s")


class Span(NamedTuple):
    """A time from ``begin`` to ``end``."""

    begin: np.datetime64
    end: np.datetime64


class Pause(NamedTuple):
    """A time in which splits waited for another split while their source was alive.

    Attributes:
        begin: The time since which these splits waited, or at which the source reported the wait.
        end: The time until which the wait is known.
        splits: The indices of the known splits.
        waiting: The number of splits that waited.
        held_by: As in :class:`watermark_alignment.planner.Plan`.
    """

    begin: np.datetime64
    end: np.datetime64
    splits: Sequence[int]
    waiting: int
    held_by: str


@dataclass(frozen=True)
class SourceTimes:
    """The times of one source, by its entries.

    Attributes:
        starts: The times at which its query was started, in order.
        plans: The time at which each batch was planned; NaT if unknown.
        lives: The time of each run, from its start to its last entry, or to now if it is there.
        pauses: The times in which splits waited.
    """

    starts: Times
    plans: Times
    lives: Sequence[Span]
    pauses: Sequence[Pause]


def source_times(
    commits: Iterable[Mapping[str, Any]],
    member: Member,
    splits: Sequence[str],
    batches: Sequence[int],
    now: int,
) -> SourceTimes:
    """Returns the times of a source, by the log of a table.

    The log covers about a quarter of an hour. Each entry says when its run began, and since when splits wait, so what
    lasts until now is known from its beginning. What ended before is unknown.

    Args:
        commits: The commits of the table, newest first.
        member: The source.
        splits: The ids of its splits.
        batches: The numbers of its batches.
        now: The present time (ms since the epoch).
    """
    entries = [(at, entry) for at, entry in entries_in(commits) if (entry.group, entry.source) == member]
    entries.reverse()
    runs = _runs(entries, now)
    began = sorted({entry.began for _, entry in entries})
    return SourceTimes(
        starts=np.array(began, "datetime64[ms]").astype("datetime64[us]"),
        plans=_plans(entries, batches),
        lives=_lives(runs),
        pauses=_pauses(runs, splits, max(batches, default=-1)),
    )


def begins(times: Times, starts: Times | None = None, plans: Times | None = None) -> Times:
    """Returns the time at which each batch began, estimated from the times at which batches were recorded.

    A batch is recorded at its end. It began when it was planned. If the time of the plan is unknown, it began at the
    end of the batch before, or at the later start of its query. If that end was unusually long before, the batch is
    assumed to have taken a usual interval. So is the first batch, unless its query started later. A single interval is
    usual only if the start of the last query is known: otherwise the two batches can be of two runs.

    Args:
        times: The times at which the batches were recorded, in order.
        starts: The known times at which the query was started.
        plans: The time at which each batch was planned; NaT if unknown.
    """
    if not len(times):
        return times
    starts = starts if starts is not None else times[:0]
    before = _starts_between(times, starts)
    planned = plans[1:] if plans is not None else np.full(len(before), np.datetime64("NaT"))
    is_planned = (planned > times[:-1]) & (planned <= times[1:])
    before = np.where(is_planned & (planned > before), planned, before)
    is_started = before - times[:-1] > SHORTEST_GAP
    before = np.where(is_started, before, times[:-1])
    took = times[1:] - before
    is_known = len(took) > 1 or bool((starts <= times[-1]).any())
    usual = usual_interval(took) if is_known else _ONE_BATCH
    is_long = ~is_planned & (took > longest_usual(usual))
    first = max([times[0] - usual, *starts[starts <= times[0]]])
    return np.concatenate([[first], np.where(is_long, times[1:] - usual, before)])


def usual_interval(took: NDArray[np.timedelta64]) -> np.timedelta64:
    """Returns the median of the durations of batches, the lower one of two; without a batch, one second."""
    return np.sort(took)[(len(took) - 1) // 2] if len(took) else _ONE_BATCH


def longest_usual(usual: np.timedelta64) -> np.timedelta64:
    """Returns the longest time without a recording that is no outage, given the usual interval of batches."""
    return max(_USUAL * usual, SHORTEST_GAP)


def joined(spans: Iterable[Span]) -> list[Span]:
    """Returns spans in order. Those that overlap, or are at most :data:`SHORTEST_GAP` apart, are one span."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin - found[-1].end <= SHORTEST_GAP:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def clipped(spans: Iterable[tuple[Any, ...]], begin: np.datetime64, end: np.datetime64) -> list[Span]:
    """Returns the parts of spans, or of pauses, between two times."""
    parts = (Span(max(span[0], begin), min(span[1], end)) for span in spans)
    return [part for part in parts if part.begin < part.end]


def _starts_between(times: Times, starts: Times) -> Times:
    """Returns the last start between each two of these times; without a start, the first of the two."""
    known = np.concatenate([times[:1], np.sort(starts)])
    between: Times = np.maximum(known[np.searchsorted(known[1:], times[1:])], times[:-1])
    return between


def _plans(entries: Sequence[tuple[int, Entry]], batches: Sequence[int]) -> Times:
    """Returns the time of the first entry with each batch; NaT without one."""
    found: dict[int | None, int] = {}
    for at, entry in entries:
        found.setdefault(entry.progress, at)
    times = [np.datetime64(found[batch], "ms") if batch in found else None for batch in batches]
    return np.array(times, "datetime64[us]")


def _lives(runs: Sequence[_Run]) -> list[Span]:
    """Returns the time of each run: a run that published an entry has been alive since it began."""
    found = []
    for run in runs:
        began = min(entry.began for _, entry in run.entries)
        if began < run.ends[-1]:
            found.append(Span(_time(began), _time(run.ends[-1])))
    return found


class _Run(NamedTuple):
    """The entries of one run of a source, with their times (ms), in order.

    Attributes:
        entries: The times of the commits, and the entries.
        ends: The time (ms) until which what each entry says is known to hold.
    """

    entries: Sequence[tuple[int, Entry]]
    ends: Sequence[int]


def _runs(entries: Sequence[tuple[int, Entry]], now: int) -> list[_Run]:
    """Returns the runs of a source. The two runs of a self-join have one source and publish in turn.

    What an entry says holds until the next entry of the run, at most for the time-out of the source. What the last one
    says holds until ``now``, unless the run left, was silent for its time-out, or another query has replaced it.
    """
    by_run: dict[str, list[tuple[int, Entry]]] = {}
    for at, entry in entries:
        by_run.setdefault(entry.run, []).append((at, entry))
    found = []
    for of_run in by_run.values():
        ends = [min(following, at + entry.timeout_ms) for (at, entry), (following, _) in pairwise(of_run)]
        at, last = of_run[-1]
        is_there = not last.left and now - at <= last.timeout_ms
        is_replaced = any(_replaces(entry, last) for _, entry in entries)
        found.append(_Run(of_run, [*ends, max(at, now) if is_there and not is_replaced else at]))
    return found


def _replaces(entry: Entry, last: Entry) -> bool:
    """Returns whether ``entry`` is of a later run, and not of the other run of a self-join with the run of ``last``."""
    return last.is_before(entry) and (entry.lineage == last.lineage or entry.definition != last.definition)


def _pauses(runs: Sequence[_Run], splits: Sequence[str], newest: int) -> list[Pause]:
    return sorted(
        (pause for run in runs for pause in _pauses_of(run, splits, newest)), key=lambda pause: pause.begin
    )


def _pauses_of(run: _Run, splits: Sequence[str], newest: int) -> list[Pause]:
    """Returns the pauses of one run. Entries that repeat a wait are one pause.

    The last entry tells of no pause if it has the plan of a batch after batch ``newest``: that batch runs.
    """
    found: list[Pause] = []
    for (at, entry), end in zip(run.entries, run.ends, strict=True):
        waiting = [number for number, split in enumerate(splits) if entry.has_waiting(split)]
        if not waiting or entry.held_by is None or entry.left:
            continue
        if entry is run.entries[-1][1] and entry.progress is not None and entry.progress > newest:
            end = at
        since = (
            at if entry.waiting_since is None or end == at else max(entry.began, min(entry.waiting_since, at))
        )
        pause = Pause(_time(since), _time(end), waiting, entry.waiting, entry.held_by)
        if found and found[-1][2:] == pause[2:] and pause.begin <= found[-1].end:
            found[-1] = found[-1]._replace(end=max(found[-1].end, pause.end))
        else:
            found.append(pause)
    return found


def _time(ms: int) -> np.datetime64:
    return np.datetime64(ms, "ms")
