"""Mutants of the planner and of its simulated world, each with one error, and the invariant that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, cast

import pytest

from tests.watermark_alignment.support.invariants import (
    AlignedMembers,
    endless_ties,
    littered_world,
    random_world,
)
from tests.watermark_alignment.support.simulator import Hidden, SimulatedMember, SplitLog
from watermark_alignment import planner
from watermark_alignment.planner import GROUP, PositionsAt, SplitView
from watermark_alignment.states import SplitStatus


@dataclass(frozen=True)
class Mutant:
    """An error in the planner or in its world: ``change`` takes what is at ``where`` and returns the wrong
    replacement.
    """

    name: str
    caught_by: str
    where: str
    change: Callable[[Any], Any]
    life: Callable[[Random], AlignedMembers] = random_world


def cap_moved_by(step: int) -> Callable[[Any], Any]:
    def change(cap_of: Any) -> Any:
        def mutant(*args: Any) -> tuple[int | None, str | None]:
            cap, holder = cap_of(*args)
            return (None if cap is None else cap + step), holder

        return mutant

    return change


def floor_moved_by(step: int) -> Callable[[Any], Any]:
    def change(cap_of: Any) -> Any:
        return lambda counting, floor, *args: cap_of(counting, None if floor is None else floor + step, *args)

    return change


def only_views(wanted: Callable[[SplitView], bool]) -> Callable[[Any], Any]:
    """Returns a change after which the cap is computed from some of the splits only."""
    return lambda cap_of: lambda counting, *args: cap_of([v for v in counting if wanted(v)], *args)


def changed_views(change_one: Callable[[SplitView], SplitView]) -> Callable[[Any], Any]:
    """Returns a change of a planner function that takes one view or several first: it sees changed views."""

    def change(original: Any) -> Any:
        def mutant(views: Any, *args: Any) -> Any:
            shown = change_one(views) if isinstance(views, SplitView) else [change_one(v) for v in views]
            return original(shown, *args)

        return mutant

    return change


def is_null_tail(view: SplitView) -> bool:
    return view.position < view.end and view.next is None


def group_is_named(cap_of: Any) -> Any:
    def mutant(counting: Sequence[SplitView], floor: int | None, *args: Any) -> tuple[int | None, str | None]:
        cap, holder = cap_of(counting, floor, *args)
        return cap, GROUP if holder is not None and floor is not None else holder

    return mutant


def idle_at_once(resting_state: Any) -> Any:
    def mutant(view: SplitView, idle_timeout: int, now: int) -> SplitStatus | None:
        state = resting_state(view, idle_timeout, now)
        quiet = view.position == view.end and state is None
        return SplitStatus.IDLE if quiet else state

    return mutant


def paused_turns_idle(resting_state: Any) -> Any:
    """A split turns idle after a time in which it was not read; the time counts as time without data."""
    since: dict[tuple[str, int], int] = {}

    def mutant(view: SplitView, idle_timeout: int, now: int) -> SplitStatus | None:
        first = since.setdefault((view.id, view.position), now)
        state = cast("SplitStatus | None", resting_state(view, idle_timeout, now))
        return SplitStatus.IDLE if now - first > idle_timeout else state

    return mutant


def idle_at_the_timeout(resting_state: Any) -> Any:
    return lambda view, idle_timeout, now: resting_state(view, idle_timeout, now + 1)


def never_finished(resting_state: Any) -> Any:
    def mutant(view: SplitView, idle_timeout: int, now: int) -> SplitStatus | None:
        return None if view.final else cast("SplitStatus | None", resting_state(view, idle_timeout, now))

    return mutant


def idle_counts(resting_state: Any) -> Any:
    def mutant(*args: Any) -> SplitStatus | None:
        state: SplitStatus | None = resting_state(*args)
        return None if state is SplitStatus.IDLE else state

    return mutant


def paused_without_evidence(moving_state: Any) -> Any:
    def mutant(view: SplitView, end: int, horizon: int | None) -> SplitStatus:
        return SplitStatus.PAUSED if end == view.position else SplitStatus.ACTIVE

    return mutant


def search_gives_up(greatest_fitting: Any) -> Any:
    """The search for a horizon returns the smallest step if that fits, although a greater one may fit."""

    def mutant(low: int, high: int, cost: int, at: PositionsAt, limit: int) -> Any:
        return greatest_fitting(low, min(low + 2, high), cost, at, limit)

    return mutant


def search_overshoots(greatest_fitting: Any) -> Any:
    def mutant(low: int, high: int, cost: int, at: PositionsAt, limit: int) -> Any:
        return greatest_fitting(low, high, cost, at, limit + 1)

    return mutant


def remainder_to_the_first(share: Any) -> Any:
    """The remainder of the limit always goes to the first splits, and not to all in turn."""

    def mutant(readable: Sequence[SplitView], positions: Mapping[str, tuple[int, int]], limit: int) -> Any:
        starts = {v.id: v.position for v in readable}
        at_zero = [replace(v, position=0, end=v.end - v.position) for v in readable]
        needs = {s: (position - starts[s], cost) for s, (position, cost) in positions.items()}
        return {s: starts[s] + given for s, given in share(at_zero, needs, limit).items()}

    return mutant


def first_takes_all(share: Any) -> Any:
    def mutant(readable: Sequence[SplitView], positions: Mapping[str, tuple[int, int]], limit: int) -> Any:
        ends = {}
        for v in readable:
            given = min(limit, positions[v.id][1])
            ends[v.id], limit = v.position + given, limit - given
        return ends

    return mutant


def unsorted(_: Any) -> Any:
    return lambda views, key: list(views)


def front_is_next(_: Any) -> Any:
    return property(lambda view: view.read_max if view.next is None else view.next)


def unknown_is_zero(front: Any) -> Any:
    return property(lambda view: front.fget(view) or 0)


def null_tail_unreadable(positions: Any) -> Any:
    def mutant(self: SimulatedMember, views: Sequence[SplitView], asked: list[int]) -> PositionsAt:
        at = positions(self, views, asked)
        stuck = {v.id: (v.position, 0) for v in views if v.position < v.end and v.next is None}
        return lambda horizon: {**at(horizon), **stuck}

    return mutant


def index_trusted(from_position: bool) -> Callable[[Any], Any]:
    """Returns a change by which a position is that of the first entry of any kind, also of one that is not a row or
    that is below the position of the split.
    """

    def indexed(log: SplitLog, start: int, end: int, horizon: int) -> int:
        times = [e.time if isinstance(e, Hidden) else e for e in log.entries[:end]]
        found = (p for p, t in enumerate(times) if p >= start and t is not None and t >= horizon)
        return next(found, end)

    def change(_: Any) -> Any:
        def mutant(self: SimulatedMember, views: Sequence[SplitView], asked: list[int]) -> PositionsAt:
            def at(horizon: int) -> dict[str, tuple[int, int]]:
                readable = [v for v in views if v.position < v.end]
                starts = {v.id: v.position if from_position else 0 for v in readable}
                ends = {v.id: indexed(self.logs[v.id], starts[v.id], v.end, horizon) for v in readable}
                return {v.id: (ends[v.id], max(0, ends[v.id] - v.position)) for v in readable}

            return at

        return mutant

    return change


def next_from_the_index(view_of: Any) -> Any:
    """The entry at the position is taken for a record, also if it is a marker."""

    def mutant(self: SimulatedMember, split: str, *args: Any) -> SplitView:
        view: SplitView = view_of(self, split, *args)
        entries = self.logs[split].entries
        entry = entries[view.position] if view.position < view.end else None
        return replace(view, next=entry.time) if isinstance(entry, Hidden) else view

    return mutant


def two_sources(rng: Random) -> AlignedMembers:
    return random_world(rng, members=2)


_NOT_FINAL = changed_views(lambda view: replace(view, final=False))
_EVERY_READ_IS_THE_REACH = changed_views(lambda view: replace(view, reach=None))
MUTANTS = [
    Mutant("idle at once", "I9", "planner.resting_state", idle_at_once),
    Mutant("idle at once loses rows", "I4", "planner.resting_state", idle_at_once),
    Mutant("idle when the timeout is reached", "I9", "planner.resting_state", idle_at_the_timeout),
    Mutant("paused turns idle", "I9", "planner.resting_state", paused_turns_idle),
    Mutant("paused turns idle and loses rows", "I4", "planner.resting_state", paused_turns_idle),
    Mutant("idle counts", "I6", "planner.resting_state", idle_counts),
    Mutant("null tail unreadable", "I6", "SimulatedMember.positions", null_tail_unreadable),
    Mutant("caught-up split forgotten", "I3", "planner.cap_of", only_views(lambda v: v.position < v.end)),
    Mutant("caught-up split's rows lost", "I4", "planner.cap_of", only_views(lambda v: v.position < v.end)),
    Mutant(
        "split never read forgotten", "I3", "planner.cap_of", only_views(lambda v: v.read_max is not None)
    ),
    Mutant(
        "index trusted below the position",
        "I1",
        "SimulatedMember.positions",
        index_trusted(from_position=False),
    ),
    Mutant("index trusted on a marker", "I6", "SimulatedMember.positions", index_trusted(from_position=True)),
    Mutant("pause on a marker", "I5", "SimulatedMember.view", next_from_the_index),
    Mutant(
        "pause on a marker changes other plans",
        "I12",
        "SimulatedMember.view",
        next_from_the_index,
        littered_world,
    ),
    Mutant(
        "index trusted changes other plans",
        "I12",
        "SimulatedMember.positions",
        index_trusted(from_position=True),
    ),
    Mutant("null tail forgotten", "I12", "planner.cap_of", only_views(lambda v: not is_null_tail(v))),
    Mutant("pause without evidence", "I5", "planner.moving_state", paused_without_evidence),
    Mutant("cap one too high", "I3", "planner.cap_of", cap_moved_by(1)),
    Mutant("cap one too high loses rows", "I4", "planner.cap_of", cap_moved_by(1)),
    Mutant("cap one too low", "I7", "planner.cap_of", cap_moved_by(-1)),
    Mutant("cap at the front", "I7", "planner.cap_of", _EVERY_READ_IS_THE_REACH),
    Mutant("no cap", "I3", "planner.cap_of", only_views(lambda v: False)),
    Mutant("floor one too high", "I3", "planner.cap_of", floor_moved_by(1), two_sources),
    Mutant("floor one too high loses rows", "I4", "planner.cap_of", floor_moved_by(1), two_sources),
    Mutant("floor one too low", "I7", "planner.cap_of", floor_moved_by(-1), two_sources),
    Mutant("group named for each holder", "I11", "planner.cap_of", group_is_named, two_sources),
    Mutant("final split holds", "I7", "planner.cap_of", _NOT_FINAL),
    Mutant("finished counts", "I11", "planner.resting_state", never_finished),
    Mutant("remainder to the first", "I6", "planner.share", remainder_to_the_first, endless_ties),
    Mutant("search gives up", "I7", "planner._greatest_fitting", search_gives_up),
    Mutant("search overshoots", "I2", "planner._greatest_fitting", search_overshoots),
    Mutant("first takes all", "I7", "planner.share", first_takes_all),
    Mutant("order matters", "I8", "planner.sorted", unsorted),
    Mutant("front falls", "I10", "SplitView.front", front_is_next),
    Mutant("unknown is zero", "I10", "SplitView.front", unknown_is_zero),
]


def apply(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = mutant.where.split(".")
    holder: Any = {"planner": planner, "SimulatedMember": SimulatedMember, "SplitView": SplitView}[owner]
    original = getattr(holder, name, None)
    monkeypatch.setattr(holder, name, mutant.change(original), raising=False)
