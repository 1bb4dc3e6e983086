"""Mutants of a group member, each with one error. Each breaks an invariant in the simulation of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest

from flip27_stream.spark.planning.group.group_wait import GroupWait
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.group_lives import random_group
from tests.watermark_alignment.support.group_world import BEAT, TIMEOUT, GroupQuery, GroupWorld, Seat
from tests.watermark_alignment.support.simulator import LifeSettings, SimulatedMember, SplitLog
from watermark_alignment.group import group_view as group
from watermark_alignment.group.group_reads import GroupReads
from watermark_alignment.group.group_view import Entry

_LIVES = 150


def random_life(rng: Random) -> GroupWorld:
    return random_group(rng, 150)


def seat(name: str, times: list[int], limit: int | None = None, drift: int = 10, **changes: Any) -> Seat:
    settings = LifeSettings(max_drift=drift, idle_timeout=0, limit=limit)
    return Seat(
        SimulatedMember(settings, {name: SplitLog([*times])}), entry(name, timeout_ms=TIMEOUT), **changes
    )


def life_of_ties(rng: Random) -> GroupWorld:
    """Runs a life in which a run waits for a member that reads many rows of one event time, one in each of its
    batches.
    """
    slow = seat("slow", [5] * 40, limit=1, interval=rng.choice([5, BEAT, 2 * BEAT]))
    fast = seat("fast", [100, 200], update_ms=rng.choice([100, 1000]))
    fast.member.freeze()
    world = GroupWorld([slow, fast])
    for _ in range(300):
        world.tick()
    return world


def life_of_siblings(rng: Random) -> GroupWorld:
    """Runs a life in which a run waits for a member of another query, while batches of another source of its own
    query take long.
    """
    other = seat("other", [5])
    busy = seat("busy", [*range(5, 200, 20)], limit=1, drift=1000, length=rng.choice([30, 3 * TIMEOUT]))
    fast = seat("fast", [300, 400], update_ms=rng.choice([100, 1000]))
    for each in (fast, busy):
        each.member.freeze()
    world = GroupWorld([other, fast, busy], [GroupQuery([other]), GroupQuery([fast, busy])])
    for _ in range(400):
        world.tick()
    return world


def life_of_a_late_former_run(rng: Random) -> GroupWorld:
    """Runs a life in which a member is restarted by a clock that is behind that of its former run, which it cannot
    see at first.
    """
    slow, fast = seat("slow", [5]), seat("fast", [100, 200])
    world = GroupWorld([slow, fast])
    for _ in range(rng.randrange(20, 30)):
        world.tick()
    world.stop(world.queries[0], says_so=False)
    world.is_readable = False
    world.tick()
    world.restart(world.queries[0], clock=-1000)
    world.tick()
    world.runs_again()
    for _ in range(3 * TIMEOUT):
        world.tick()
    return world


@dataclass(frozen=True)
class GroupMutant:
    """An error in one attribute: ``change`` takes what ``holder`` has under ``name`` and returns the wrong
    replacement.
    """

    what: str
    caught_by: str
    holder: Any
    name: str
    change: Callable[[Any], Any]
    life: Callable[[Random], GroupWorld] = random_life


def takes_itself_for_heard(after: Any) -> Any:
    return lambda self, *args, can_write, **more: after(self, *args, can_write=True, **more)


def counts_every_gap(after: Any) -> Any:
    return lambda self, *args, **more: after(replace(self, longest_gap_ms=10**9), *args, **more)


def counts_batches(_: Any) -> Any:
    def mutant(self: GroupWait, batch: int, now: int, readable_ms: int | None) -> int:
        last, self._readable_ms = self._readable_ms, readable_ms
        return readable_ms - last if readable_ms is not None and last is not None else 0

    return mutant


def only_the_watermark(_: Any) -> Any:
    return property(lambda entry: (entry.watermark, None))


MUTANTS = [
    GroupMutant("silence while nobody can write counts", "I3", GroupReads, "after", takes_itself_for_heard),
    GroupMutant("time in which a member stood still counts", "I3", GroupReads, "after", counts_every_gap),
    GroupMutant(
        "a restarted member is mute", "I3", group, "resumed_progress", lambda _: lambda *args: (None, None)
    ),
    GroupMutant("the time of a batch counts", "I11", GroupWait, "_passed", counts_batches),
    GroupMutant("that of a sibling counts", "I11", GroupWait, "_passed", counts_batches, life_of_siblings),
    GroupMutant("a tie is no progress", "I11", Entry, "member_progress", only_the_watermark, life_of_ties),
    GroupMutant(
        "a former run that was seen late is not followed",
        "I3",
        GroupReads,
        "in_place",
        lambda _: lambda self, own, since: own,
        life_of_a_late_former_run,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.what)
def test_each_mutant_of_the_group_is_caught(mutant: GroupMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one random life with the mutant breaks the invariant that ``caught_by`` names."""
    original = getattr(mutant.holder, mutant.name)
    monkeypatch.setattr(mutant.holder, mutant.name, mutant.change(original))
    for seed in range(_LIVES):
        if mutant.life(Random(seed)).breached(mutant.caught_by):
            return
    pytest.fail(f"no life of {_LIVES} broke {mutant.caught_by}")


@pytest.mark.parametrize("life", [life_of_ties, life_of_siblings, life_of_a_late_former_run])
def test_the_unchanged_rule_breaks_no_invariant(life: Callable[[Random], GroupWorld]) -> None:
    """Without a mutant, the lives that are made for one break no invariant."""
    for seed in range(10):
        assert life(Random(seed)).breaches == []
