"""The rule of alignment: every micro-batch reads all splits up to a common event time, the horizon.

Spark moves its watermark only between micro-batches, so alignment has to hold at batch boundaries:

1. For each batch choose an event time H, the *horizon*, and read every split up to its first record with
   event time >= H.
2. H is the greatest event time whose rows fit the read limit; so the limit, never the drift, sets the speed
   of catching up.
3. H is at most the *cap*: the least *reach* (greatest known event time) of a split that counts, plus max-drift,
   plus 1. So a split that has nothing more to read, and is not idle, holds the others back.
4. If not even one step fits the limit, the splits with records in that step share the limit and are cut
   inside it.
5. A split is PAUSED only if its next record is known to be at or above H. It is IDLE only if its log end has
   not moved for longer than the idle timeout. Idle and finished splits do not count, and neither does a split
   without any known event time.

:func:`plan` is a pure function: no clock, no I/O, no Spark. Flink (FLIP-182, FLIP-217) also pauses splits by the
group's least watermark, but after records were read; a planned batch is cut exactly.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from watermark_alignment.states import SplitStatus

PositionsAt = Callable[[int], Mapping[str, tuple[int, int]]]
"""The type of a function from an event time H (ms) to the first position with event time >= H, and the cost (rows) of
reading up to it.

The result has every split with something to read, by id. Both numbers never fall as H grows. A cut inside a
step moves one position per unit of cost. A position whose cost is the whole limit may be before H.
"""


@dataclass(frozen=True)
class SparsePositions:
    """The functions that plan splits whose positions do not count records, such as sequence numbers.

    The costs of such splits are estimates, and the limit applies to the estimates. Exact positions
    (:data:`PositionsAt`) are looked up only for the chosen horizon.

    Attributes:
        rows_before: Returns the estimated cost of reading each split up to an event time (ms), by split id. It
            never falls as the event time grows.
        after: Returns the position up to which to read each split for a given cost, by split id. It is behind at least
            one record, and not behind the end of the split.
    """

    rows_before: Callable[[int], Mapping[str, int]]
    after: Callable[[Mapping[str, int]], Mapping[str, int]]


GROUP = "<group>"
"""The value of :attr:`Plan.held_by` if another member of the group holds splits back."""

BACKLOG = "<backlog>"
"""The value of :attr:`Plan.held_by` if splits of this source that are not assigned yet hold splits back."""

NO_SPLITS = frozenset({GROUP, BACKLOG})
"""The values of :attr:`Plan.held_by` that are not split ids; no split may have such an id."""

END_OF_TIME = 2**63 - 1
"""A horizon above every event time. It is only compared, never used in sums."""


@dataclass(frozen=True)
class SplitView:
    """The input of the planner about one split, at one moment. Times are in ms; ``None`` stands for unknown.

    Attributes:
        id: The id of the split.
        position: The next position to read.
        end: The first position that cannot be read now; equal to ``position`` if nothing can be read or the split is
            unknown.
        read_max: The greatest event time read.
        next: The event time of the next record that has one.
        reach: The greatest event time known to be before ``end``, read or not.
        quiet_since: The time at which the log end was first found at ``position``; ``None`` if it was elsewhere.
        final: Whether the split ends at ``end``, because it is bounded or a trigger has frozen its end.
    """

    id: str
    position: int
    end: int
    read_max: int | None = None
    next: int | None = None
    reach: int | None = None
    quiet_since: int | None = None
    final: bool = False

    @property
    def front(self) -> int | None:
        """The greater of :attr:`read_max` and :attr:`next`; ``None`` if both are unknown."""
        return greater_known(self.read_max, self.next)


@dataclass(frozen=True)
class Plan:
    """The plan of one micro-batch: how far it reads each split, and the states of the splits.

    Attributes:
        horizon: H (ms); ``None`` if the batch has no bound in event time.
        ends: The position up to which each split is read, by split id.
        states: The status of each split, by split id.
        fronts: The front (ms) of each split before the batch, by split id; ``None`` if unknown.
        own_watermark: The least watermark (ms) of the splits that count, for the other members of the group;
            ``None`` if no split counts.
        held_by: The id of the split that holds the others back by its lag, or one of :data:`NO_SPLITS`; ``None`` if
            only the limit bounds the batch.
        cut: The ids of the splits that are cut inside the smallest step because it does not fit the limit.
    """

    horizon: int | None
    ends: Mapping[str, int]
    states: Mapping[str, SplitStatus]
    fronts: Mapping[str, int | None]
    own_watermark: int | None
    held_by: str | None
    cut: frozenset[str] = frozenset()

    @property
    def waiting(self) -> int:
        """The number of splits that wait for :attr:`held_by`."""
        return 0 if self.held_by is None else list(self.states.values()).count(SplitStatus.PAUSED)


def plan(
    splits: Sequence[SplitView],
    at: PositionsAt,
    *,
    limit: int | None,
    max_drift: int,
    out_of_orderness: int,
    idle_timeout: int,
    now: int,
    floor: int | None,
    sparse: SparsePositions | None = None,
) -> Plan:
    """Returns the plan of one micro-batch.

    Args:
        splits: The splits, in any order.
        at: Finds positions by event time; see :data:`PositionsAt`.
        limit: The greatest cost of the batch; ``None`` for no limit.
        max_drift: The greatest allowed difference (ms) between the greatest event time read and the least front.
        out_of_orderness: The greatest time (ms) by which event times fall back within a split.
        idle_timeout: The time (ms) after which a split without new data is idle; 0 if it never becomes idle.
        now: The query's clock (ms).
        floor: The lower bound of the event times (ms) that the other members of the group have still to read, which is
            their least watermark; ``None`` without other members. It bounds the horizon from above (rule 2).
        sparse: The functions for positions that do not count records; ``None`` if positions count records.
    """
    views = sorted(splits, key=lambda v: v.id)
    fronts = {v.id: v.front for v in views}
    fixed = {v.id: state for v in views if (state := resting_state(v, idle_timeout, now)) is not None}
    counting = [v for v in views if v.id not in fixed and fronts[v.id] is not None]
    cap, holder = cap_of(counting, floor, max_drift, out_of_orderness)
    readable = [v for v in views if v.position < v.end]
    horizon, ends, cut = search_horizon(
        readable, lambda: _next_and_reach(readable), at, limit, cap, out_of_orderness, sparse
    )
    states = {v.id: fixed.get(v.id) or moving_state(v, ends.get(v.id, v.position), horizon) for v in views}
    held = horizon == cap and SplitStatus.PAUSED in states.values()
    least = min((front for v in counting if (front := fronts[v.id]) is not None), default=None)
    return Plan(
        horizon=horizon,
        ends={v.id: ends.get(v.id, v.position) for v in views},
        states=states,
        fronts=fronts,
        own_watermark=None if least is None else least - out_of_orderness - 1,
        held_by=holder if held else None,
        cut=cut,
    )


def resting_state(view: SplitView, idle_timeout: int, now: int) -> SplitStatus | None:
    """Returns FINISHED or IDLE, the states in which a split does not count; ``None`` if the split must be planned."""
    if view.position < view.end:
        return None
    if view.final:
        return SplitStatus.FINISHED
    proven_quiet = view.quiet_since is not None and now - view.quiet_since > idle_timeout
    return SplitStatus.IDLE if idle_timeout > 0 and proven_quiet else None


def moving_state(view: SplitView, end: int, horizon: int | None) -> SplitStatus:
    """Returns PAUSED if the split is not read because its next record is at or above the horizon; else ACTIVE."""
    stands = end == view.position < view.end
    proven = horizon is not None and view.next is not None and view.next >= horizon
    return SplitStatus.PAUSED if stands and proven else SplitStatus.ACTIVE


def cap_of(
    counting: Sequence[SplitView], floor: int | None, max_drift: int, out_of_orderness: int
) -> tuple[int | None, str | None]:
    """Returns the cap of the horizon (ms) and the split or the group that sets it; ``(None, None)`` without a cap.

    A split that will be finished at its end sets no cap: it is read to its end, or paused above the horizon.

    Args:
        counting: The splits that count.
        floor: The lower bound of the event times (ms) that the other members of the group have still to read, which is
            their least watermark; ``None`` without other members. It bounds the horizon from above (rule 2).
        max_drift: See :func:`plan`.
        out_of_orderness: See :func:`plan`.
    """
    reaches = [(reach, v.id) for v in counting if not v.final and (reach := _reach(v)) is not None]
    caps = [(reach + max_drift + 1, split) for reach, split in reaches]
    if floor is not None:
        caps.append((floor + out_of_orderness + max_drift + 2, GROUP))
    cap, holder = min(caps, default=(None, None))
    return (None, None) if cap is None or cap >= END_OF_TIME else (cap, holder)


def _next_and_reach(readable: Sequence[SplitView]) -> tuple[int | None, int | None]:
    """Returns the least next event time (ms) of splits and their greatest reach, of those that are known."""
    reaches = [reach for v in readable if (reach := _reach(v)) is not None]
    return min((v.next for v in readable if v.next is not None), default=None), max(reaches, default=None)


def search_horizon(
    readable: Sequence[SplitView],
    next_and_reach: Callable[[], tuple[int | None, int | None]],
    at: PositionsAt,
    limit: int | None,
    cap: int | None,
    out_of_orderness: int,
    sparse: SparsePositions | None,
) -> tuple[int | None, dict[str, int], frozenset[str]]:
    """Returns the horizon, the ends of the readable splits, and the ids of the splits that are cut below it.

    Args:
        readable: The splits with something to read; used only if the smallest step does not fit the limit.
        next_and_reach: Returns their least next event time (ms), and their greatest reach; see :class:`SplitView`.
        at: See :data:`PositionsAt`.
        limit: See :func:`plan`.
        cap: The greatest horizon (ms); ``None`` for no cap.
        out_of_orderness: See :func:`plan`.
        sparse: See :func:`plan`.
    """
    if not readable:
        return cap, {}, frozenset()
    highest = END_OF_TIME if cap is None else cap
    guess = at if sparse is None else _estimated(sparse)
    lowest = _HorizonPositions.of(highest, guess)
    if limit is None or lowest.cost <= limit:
        return cap, _ends(lowest, at, sparse), frozenset()
    earliest, latest = next_and_reach()
    if earliest is not None and latest is not None and earliest + 1 < highest:
        above_all = latest + out_of_orderness + 1
        best = _greatest_fitting(earliest, min(above_all, highest), lowest.cost, guess, limit)
        if best is not None:
            return best.horizon, _ends(best, at, sparse), frozenset()
        lowest = _HorizonPositions.of(earliest + 1, guess)
    if sparse is not None:
        lowest = _HorizonPositions.of(lowest.horizon, at)
        ends = share_sparsely(readable, lowest.positions, limit, sparse)
    else:
        ends = share(readable, lowest.positions, limit)
    cut = frozenset(v.id for v in readable if ends[v.id] < lowest.positions[v.id][0])
    return cap if lowest.horizon == highest else lowest.horizon, ends, cut


@dataclass(frozen=True)
class _HorizonPositions:
    """The result of ``at`` for one horizon, with the cost of all splits."""

    horizon: int
    positions: Mapping[str, tuple[int, int]]
    cost: int

    @staticmethod
    def of(horizon: int, at: PositionsAt) -> _HorizonPositions:
        positions = at(horizon)
        return _HorizonPositions(horizon, positions, sum([cost for _, cost in positions.values()]))

    @property
    def ends(self) -> dict[str, int]:
        return {split: position for split, (position, _) in self.positions.items()}


def _estimated(sparse: SparsePositions) -> PositionsAt:
    """Returns a function that estimates the cost of each split up to a horizon.

    The function returns pairs of a position and a cost, as :data:`PositionsAt` does. The positions are 0: they have no
    meaning and must not be used.
    """
    return lambda horizon: {split: (0, rows) for split, rows in sparse.rows_before(horizon).items()}


def _ends(step: _HorizonPositions, at: PositionsAt, sparse: SparsePositions | None) -> dict[str, int]:
    return step.ends if sparse is None else _HorizonPositions.of(step.horizon, at).ends


def _greatest_fitting(
    low: int, high: int, cost: int, at: PositionsAt, limit: int
) -> _HorizonPositions | None:
    """Returns the step of the greatest horizon between ``low`` and ``high`` that fits ``limit``; ``None`` without one.

    Each call of ``at`` is a round trip to the external system, so there should be few. The search interpolates the
    cost linearly between two known horizons (regula falsi with the Illinois rule, aimed half a unit above the
    limit). After the first four guesses, if two guesses have not halved the bracket, the next guess is its middle.

    Args:
        low: A horizon with almost no cost.
        high: A horizon whose cost is above ``limit``.
        cost: The cost of ``high``.
        at: See :data:`PositionsAt`.
        limit: The greatest cost.
    """
    best: _HorizonPositions | None = None
    width, spare, excess = high - low, 2 * limit + 1, 2 * (cost - limit) - 1
    fitted: bool | None = None
    guesses = 0
    while high - low > 1 and (best is None or best.cost < limit):
        slow = (high - low) << max(0, guesses - 4) // 2 > width
        part, whole = (1, 2) if slow else (spare, spare + excess)
        step = _HorizonPositions.of(min(max(low + (high - low) * part // whole, low + 1), high - 1), at)
        fits = step.cost <= limit
        if fits:
            best, low, spare = step, step.horizon, 2 * (limit - step.cost) + 1
            excess = max(1, excess // 2) if fitted else excess
        else:
            high, excess = step.horizon, 2 * (step.cost - limit) - 1
            spare = max(1, spare // 2) if fitted is False else spare
        fitted, guesses = fits, guesses + 1
    return best


def share(
    readable: Sequence[SplitView], positions: Mapping[str, tuple[int, int]], limit: int
) -> dict[str, int]:
    """Returns the ends of the splits for a step that does not fit the limit; the splits share the limit equally.

    The part of the limit that a split does not need goes to the others. The remainder rotates: the sum of all
    positions, which grows with every batch, selects the splits that get it. So every split moves at some time, even
    if the limit is less than the number of splits.
    """
    given = _shares(readable, positions, limit, sum)
    return {v.id: min(v.position + given[v.id], positions[v.id][0]) for v in readable}


def share_sparsely(
    readable: Sequence[SplitView],
    positions: Mapping[str, tuple[int, int]],
    limit: int,
    sparse: SparsePositions,
) -> dict[str, int]:
    """Returns the ends as :func:`share` does, with estimated costs, for positions that do not count records.

    A checksum of the positions selects the splits that get the remainder, because the sum of such positions can be
    even in every batch.
    """
    given = _shares(readable, positions, limit, lambda seen: zlib.crc32(" ".join(map(str, seen)).encode()))
    fed = {split: rows for split, rows in given.items() if rows > 0}
    cuts = sparse.after(fed) if fed else {}
    return {v.id: min(cuts.get(v.id, v.position), positions[v.id][0]) for v in readable}


def _shares(
    readable: Sequence[SplitView],
    positions: Mapping[str, tuple[int, int]],
    limit: int,
    turn_of: Callable[[Iterable[int]], int],
) -> dict[str, int]:
    """Returns the part of the limit that each split gets, by split id.

    The remainder begins with the split whose number is the result of ``turn_of`` for the positions, modulo the number
    of splits.
    """
    given = {v.id: 0 for v in readable}
    unserved = [v for v in readable if positions[v.id][1] > 0]
    turn = turn_of(v.position for v in unserved)
    left = limit
    while unserved and left >= len(unserved):
        part = min(left // len(unserved), min(positions[v.id][1] - given[v.id] for v in unserved))
        for v in unserved:
            given[v.id] += part
        left -= part * len(unserved)
        unserved = [v for v in unserved if given[v.id] < positions[v.id][1]]
    for i in range(left if unserved else 0):
        given[unserved[(turn + i) % len(unserved)].id] += 1
    return given


def _reach(view: SplitView) -> int | None:
    return greater_known(view.front, view.reach)


def greater_known(one: int | None, other: int | None) -> int | None:
    """Returns the greater of two numbers, of which ``None`` is unknown; ``None`` if both are unknown."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
