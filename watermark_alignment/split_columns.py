"""The rule of alignment for very many splits, computed in columns.

:func:`watermark_alignment.planner.plan` plans split by split, and is easy to read. :func:`plan_in_columns` returns
equal plans with a few operations on whole columns; the tests compare the two. Both use the planner's search for the
horizon, and its shares of splits that are cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from flip27_stream.arrays import Flags, Int64s
from flip27_stream.in_order import found_in
from watermark_alignment.planner import (
    END_OF_TIME,
    GROUP,
    Plan,
    PositionsAt,
    SplitView,
    search_horizon,
)
from watermark_alignment.states import SplitStatus

UNKNOWN = -(2**63)
"""The number in a column of times that stands for an unknown time. No time is less."""


@dataclass(frozen=True)
class SplitColumns:
    """The inputs of the planner about all splits, in columns: the fields of :class:`SplitView`. Times are in ms.

    Attributes:
        ids: The ids of the splits, sorted.
        positions: The next position to read of each split.
        ends: The first position that cannot be read now.
        read_max: The greatest event time read, or :data:`UNKNOWN`.
        next: The event time of the next record that has one, or :data:`UNKNOWN`.
        reach: The greatest event time known to be before the end, or :data:`UNKNOWN`.
        quiet_since: The time at which the log end was first found at the position, or :data:`UNKNOWN`.
        final: Whether the split ends at its end.
    """

    ids: Sequence[str]
    positions: Int64s
    ends: Int64s
    read_max: Int64s
    next: Int64s
    reach: Int64s
    quiet_since: Int64s
    final: Flags

    @staticmethod
    def of(views: Sequence[SplitView]) -> SplitColumns | None:
        """Returns the columns of splits in any order; ``None`` if a number does not fit 64 bits."""
        ordered = sorted(views, key=lambda view: view.id)
        rows = [(v.position, v.end, v.read_max, v.next, v.reach, v.quiet_since, v.final) for v in ordered]
        return SplitColumns.of_rows([view.id for view in ordered], rows)

    @staticmethod
    def of_rows(ids: Sequence[str], rows: Sequence[tuple[int | None, ...]]) -> SplitColumns | None:
        """Returns the columns of rows; a row has the fields of a :class:`SplitView` after its id.

        Args:
            ids: The ids of the splits, sorted.
            rows: A row for each split.

        Returns:
            The columns; ``None`` if a number does not fit 64 bits, such as a sequence number of Kinesis.
        """
        columns = zip(*rows, strict=True) if rows else ((),) * 7
        try:
            position, end, read_max, after, reach, quiet_since, final = (column_of(c) for c in columns)
        except OverflowError:
            return None
        return SplitColumns(ids, position, end, read_max, after, reach, quiet_since, final.astype(bool))

    @property
    def fronts(self) -> Int64s:
        """The greater of ``read_max`` and ``next`` of each split, or :data:`UNKNOWN`."""
        return np.maximum(self.read_max, self.next)

    def read_max_after(self, ends: Int64s, horizon: int | None) -> Int64s:
        """Returns the greatest event time of each split that is proven to be read after a batch, or :data:`UNKNOWN`.

        Args:
            ends: The position up to which the batch reads each split.
            horizon: The horizon of the batch (ms); ``None`` without one.
        """
        read = np.where(ends == self.ends, self.reach, self.next)
        proven = (ends != self.positions) & (read != UNKNOWN)
        if horizon is not None:
            proven &= read < horizon
        return np.where(proven, np.maximum(self.read_max, read), self.read_max)

    def views(self, indexes: Int64s) -> list[SplitView]:
        """Returns the :class:`SplitView` of each of the splits at ``indexes``."""
        ids = [self.ids[index] for index in indexes.tolist()]
        places = self.positions[indexes].tolist(), self.ends[indexes].tolist()
        times = (known_times(c[indexes]) for c in (self.read_max, self.next, self.reach, self.quiet_since))
        return list(map(SplitView, ids, *places, *times, self.final[indexes].tolist()))


class _Views(Sequence[SplitView]):
    """The views of some splits, which are made at the first access."""

    def __init__(self, columns: SplitColumns, indexes: Int64s) -> None:
        self._columns = columns
        self._indexes = indexes
        self._made: list[SplitView] | None = None

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, index: int) -> SplitView: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SplitView]: ...
    def __getitem__(self, index: int | slice) -> SplitView | Sequence[SplitView]:
        return self._views[index]

    def __iter__(self) -> Iterator[SplitView]:
        return iter(self._views)

    @property
    def _views(self) -> list[SplitView]:
        if self._made is None:
            self._made = self._columns.views(self._indexes)
        return self._made


def plan_in_columns(
    splits: SplitColumns,
    at: PositionsAt,
    *,
    limit: int | None,
    max_drift: int,
    out_of_orderness: int,
    idle_timeout: int,
    now: int,
    floor: int | None,
) -> Plan:
    """Returns the plan of one micro-batch, with the arguments of :func:`watermark_alignment.planner.plan`.

    Positions must count records (no :class:`SparsePositions`).
    """
    fronts = splits.fronts
    finished, idle = _resting(splits, idle_timeout, now)
    counting = (fronts != UNKNOWN) & ~(finished | idle)
    cap, holder = _cap(splits, counting, floor, max_drift, out_of_orderness)
    indexes = np.flatnonzero(splits.positions < splits.ends)
    readable = _Views(splits, indexes)
    horizon, read_to, cut = search_horizon(
        readable, lambda: _next_and_reach(splits, indexes), at, limit, cap, out_of_orderness, None
    )
    positions = splits.positions.tolist()
    found = found_in(list(splits.ids), read_to)
    ends = [at if end is None else end for at, end in zip(positions, found, strict=True)]
    paused = _paused(splits, np.array(ends, np.int64), horizon)
    least = int(fronts[counting].min()) if counting.any() else None
    return Plan(
        horizon=horizon,
        ends=dict(zip(splits.ids, ends, strict=True)),
        states=_states(splits.ids, paused, idle, finished),
        fronts=dict(zip(splits.ids, known_times(fronts), strict=True)),
        own_watermark=None if least is None else least - out_of_orderness - 1,
        held_by=holder if horizon == cap and paused.any() else None,
        cut=cut,
    )


def column_of(numbers: Collection[int | None]) -> Int64s:
    """Returns a column of numbers, with :data:`UNKNOWN` for ``None``.

    Raises:
        OverflowError: A number does not fit 64 bits.
    """
    known = list(numbers)
    unknown = known.count(None)
    if unknown == len(known):
        return np.full(unknown, UNKNOWN)
    if unknown:
        known = [UNKNOWN if number is None else number for number in known]
    return np.fromiter(known, np.int64, len(known))


def known_times(times: Int64s) -> list[int | None]:
    """Returns the times (ms) of a column; ``None`` for :data:`UNKNOWN`."""
    found: list[int | None] = times.tolist()
    for index in np.flatnonzero(times == UNKNOWN).tolist():
        found[index] = None
    return found


def _resting(splits: SplitColumns, idle_timeout: int, now: int) -> tuple[Flags, Flags]:
    """Returns which splits are FINISHED and which are IDLE."""
    at_end = splits.positions >= splits.ends
    finished = at_end & splits.final
    if idle_timeout <= 0:
        return finished, np.zeros(len(finished), bool)
    long_ago = (splits.quiet_since != UNKNOWN) & (splits.quiet_since < max(now - idle_timeout, UNKNOWN))
    return finished, at_end & ~splits.final & long_ago


def _cap(
    splits: SplitColumns, counting: Flags, floor: int | None, max_drift: int, out_of_orderness: int
) -> tuple[int | None, str | None]:
    """Returns the cap of the horizon (ms) and the split or group that sets it; see ``planner.cap_of``."""
    caps: list[tuple[int, str]] = []
    setting = np.flatnonzero(counting & ~splits.final)
    if len(setting):
        reaches = np.maximum(splits.fronts, splits.reach)[setting]
        first = int(reaches.argmin())
        caps.append((int(reaches[first]) + max_drift + 1, splits.ids[int(setting[first])]))
    if floor is not None:
        caps.append((floor + out_of_orderness + max_drift + 2, GROUP))
    cap, holder = min(caps, default=(None, None))
    return (None, None) if cap is None or cap >= END_OF_TIME else (cap, holder)


def _next_and_reach(splits: SplitColumns, indexes: Int64s) -> tuple[int | None, int | None]:
    """Returns the least next event time (ms) of some splits and their greatest reach, of those that are known."""
    following, reaches = splits.next[indexes], np.maximum(splits.fronts, splits.reach)[indexes]
    following, reaches = following[following != UNKNOWN], reaches[reaches != UNKNOWN]
    least = int(following.min()) if len(following) else None
    return least, int(reaches.max()) if len(reaches) else None


def _paused(splits: SplitColumns, ends: Int64s, horizon: int | None) -> Flags:
    """Returns which splits are PAUSED: they can be read, but their next record is at or above the horizon."""
    stands = (ends == splits.positions) & (splits.positions < splits.ends)
    if horizon is None:
        return np.zeros(len(stands), bool)
    proven: Flags = stands & (splits.next != UNKNOWN) & (splits.next >= horizon)
    return proven


def _states(ids: Sequence[str], paused: Flags, idle: Flags, finished: Flags) -> dict[str, SplitStatus]:
    """Returns the state of each split, by id. A split that is not paused, idle or finished is ACTIVE."""
    states = dict.fromkeys(ids, SplitStatus.ACTIVE)
    marked = (paused, SplitStatus.PAUSED), (idle, SplitStatus.IDLE), (finished, SplitStatus.FINISHED)
    for flags, status in marked:
        states.update((ids[index], status) for index in np.flatnonzero(flags).tolist())
    return states
