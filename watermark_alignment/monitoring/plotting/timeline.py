"""When a source ran, and when its splits waited: time in which nothing was recorded is not drawn as progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from watermark_alignment.group.member_news import entries_told_of
from watermark_alignment.table.recordings import Member

if TYPE_CHECKING:
    from numpy.typing import NDArray

_USUAL: Final = 3
"""A batch that was recorded after more than so many times the usual interval followed a time in which nothing ran."""
_SHORTEST_GAP: Final = np.timedelta64(10, "s")
_ONE_BATCH: Final = np.timedelta64(1, "s")


class Pause(NamedTuple):
    """A time in which splits waited for another, while their source was there and ran no batch or a batch.

    Attributes:
        begin: when the source told so.
        end: up to when that is known to have been so.
        splits: the numbers of the splits.
    """

    begin: np.datetime64
    end: np.datetime64
    splits: Sequence[int]


def begins(times: NDArray[np.datetime64]) -> NDArray[np.datetime64]:
    """When each batch began, as far as can be told from when batches were recorded.

    A batch is recorded at its end. It began at the end of the one before; where that is unusually long ago, nothing
    ran between the two, and the batch took as long as is usual.
    """
    if not len(times):
        return times
    intervals = np.diff(times)
    usual = np.median(intervals.astype(np.int64)).astype("timedelta64[us]") if len(intervals) else _ONE_BATCH
    is_gap = intervals > max(_USUAL * usual, _SHORTEST_GAP)
    first = times[0] - (intervals[0] if len(intervals) and not is_gap[0] else usual)
    return np.concatenate([[first], np.where(is_gap, times[1:] - usual, times[:-1])])


def pauses(commits: Iterable[Mapping[str, Any]], member: Member, splits: Sequence[str]) -> list[Pause]:
    """When splits of a source waited, by what it told in commits, which are given newest first.

    The log of a table goes back for a quarter of an hour or so; what was before is not known.
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
