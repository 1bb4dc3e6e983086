"""The times in which a source ran, and in which its splits waited.

Times without recordings are not drawn as progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from watermark_alignment.group.member_info import entries_in
from watermark_alignment.table.recordings import Member

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Times = NDArray[np.datetime64]

_USUAL: Final = 3
"""The number of usual intervals without a batch after which the time before a batch counts as an outage."""
SHORTEST_GAP: Final = np.timedelta64(10, "s")
_ONE_BATCH: Final = np.timedelta64(1, "s")


class Pause(NamedTuple):
    """A time in which splits waited for another split while their source was alive.

    Attributes:
        begin: The time at which the source reported the wait.
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


def begins(times: Times, starts: Times | None = None, plans: Times | None = None) -> Times:
    """Returns the time at which each batch began, estimated from the times at which batches were recorded.

    A batch is recorded at its end. It began when it was planned. If the time of the plan is unknown, it began at the
    end of the batch before, or at the later start of its query. If that end was unusually long before, the batch is
    assumed to have taken a usual interval. A single interval is always usual.

    Args:
        times: The times at which the batches were recorded, in order.
        starts: The known times at which the query was started.
        plans: The time at which each batch was planned; NaT if unknown.
    """
    if not len(times):
        return times
    before = _starts_between(times, starts if starts is not None else times[:0])
    planned = plans[1:] if plans is not None else np.full(len(before), np.datetime64("NaT"))
    is_planned = (planned > times[:-1]) & (planned <= times[1:])
    before = np.where(is_planned & (planned > before), planned, before)
    is_started = before - times[:-1] > SHORTEST_GAP
    before = np.where(is_started, before, times[:-1])
    took = times[1:] - before
    usual = np.sort(took)[(len(took) - 1) // 2] if len(took) else _ONE_BATCH
    is_long = ~is_planned & (took > max(_USUAL * usual, SHORTEST_GAP))
    first = times[0] - (took[0] if len(took) and not (is_long | is_started)[0] else usual)
    return np.concatenate([[first], np.where(is_long, times[1:] - usual, before)])


def _starts_between(times: Times, starts: Times) -> Times:
    """Returns the last start between each two of these times; without a start, the first of the two."""
    known = np.concatenate([times[:1], np.sort(starts)])
    between: Times = np.maximum(known[np.searchsorted(known[1:], times[1:])], times[:-1])
    return between


def starts(commits: Iterable[Mapping[str, Any]], member: Member) -> Times:
    """Returns the times in the log of a table at which the query of a source was started.

    Args:
        commits: The commits of the table.
        member: The source.
    """
    began = {entry.began for _, entry in entries_in(commits) if (entry.group, entry.source) == member}
    return np.array(sorted(began), "datetime64[ms]").astype("datetime64[us]")


def plans(commits: Iterable[Mapping[str, Any]], member: Member, batches: Sequence[int]) -> Times:
    """Returns the times at which batches of a source were planned; NaT if the log of its table does not have the time.

    Args:
        commits: The commits of the table, newest first.
        member: The source.
        batches: The numbers of the batches.
    """
    found: dict[int | None, int] = {}
    for at, entry in entries_in(commits):
        if (entry.group, entry.source) == member:
            found[entry.progress] = at
    times = [np.datetime64(found[batch], "ms") if batch in found else None for batch in batches]
    return np.array(times, "datetime64[us]")


def pauses(commits: Iterable[Mapping[str, Any]], member: Member, splits: Sequence[str]) -> list[Pause]:
    """Returns the times in which splits of a source waited.

    The log of a table covers about a quarter of an hour. Earlier pauses are unknown.

    Args:
        commits: The commits of the table, newest first.
        member: The source.
        splits: The ids of its splits.
    """
    entries = [(at, entry) for at, entry in entries_in(commits) if (entry.group, entry.source) == member]
    entries.reverse()
    ends = [at for at, _ in entries[1:]] + [at for at, _ in entries[-1:]]
    found = []
    for (at, entry), end in zip(entries, ends, strict=True):
        waiting = [number for number, split in enumerate(splits) if entry.has_waiting(split)]
        if waiting and entry.held_by is not None and not entry.left:
            until = np.datetime64(min(end, at + entry.timeout_ms), "ms")
            found.append(Pause(np.datetime64(at, "ms"), until, waiting, entry.waiting, entry.held_by))
    return found
