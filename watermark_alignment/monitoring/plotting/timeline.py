"""The times in which a source ran, and in which its splits waited.

Times without recordings are not drawn as progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from watermark_alignment.group.member_news import entries_told_of
from watermark_alignment.table.recordings import Member

if TYPE_CHECKING:
    from numpy.typing import NDArray

_USUAL: Final = 3
"""If a batch was recorded after more than this many usual intervals, no batch ran in the time before it."""
_SHORTEST_GAP: Final = np.timedelta64(10, "s")
_ONE_BATCH: Final = np.timedelta64(1, "s")


class Pause(NamedTuple):
    """A time in which splits waited for another split while their source was alive.

    Attributes:
        begin: When the source reported it.
        end: The time until which it is known.
        splits: The indices of the splits.
    """

    begin: np.datetime64
    end: np.datetime64
    splits: Sequence[int]


def begins(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """Returns when each batch began, estimated from the times at which batches were recorded.

    A batch is recorded at its end. It began at the end of the batch before. If that was unusually long ago, nothing ran
    between the two, and the batch is assumed to have taken a usual interval. A single interval is always usual.
    """
    if not len(times):
        return times
    intervals = np.diff(times)
    usual = np.sort(intervals)[(len(intervals) - 1) // 2] if len(intervals) else _ONE_BATCH
    is_gap = intervals > max(_USUAL * usual, _SHORTEST_GAP)
    first = times[0] - (intervals[0] if len(intervals) and not is_gap[0] else usual)
    return np.concatenate([[first], np.where(is_gap, times[1:] - usual, times[:-1])])


def pauses(commits: Iterable[Mapping[str, Any]], member: Member, splits: Sequence[str]) -> list[Pause]:
    """Returns the times in which splits of a source waited.

    The log of a table covers about a quarter of an hour. Earlier pauses are unknown.

    Args:
        commits: The commits of the table, newest first.
        member: The source.
        splits: The ids of its splits.
    """
    told = [(at, entry) for at, entry in entries_told_of(commits) if (entry.group, entry.source) == member]
    told.reverse()
    ends = [at for at, _ in told[1:]] + [at for at, _ in told[-1:]]
    found = []
    for (at, entry), end in zip(told, ends, strict=True):
        waiting = [number for number, split in enumerate(splits) if entry.has_waiting(split)]
        if waiting and not entry.left:
            until = min(end, at + entry.timeout_ms)
            found.append(Pause(np.datetime64(at, "ms"), np.datetime64(until, "ms"), waiting))
    return found
