"""What happens when: drawn from a seed, before anything has begun."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from flip27_stream.testing import PlannedFault, fault_schedule

Kill = Literal["kill worker", "kill planner", "kill driver", "kill broker"]
Stop = Literal["stop worker", "stop planner", "stop driver", "stop broker"]
Change = Literal["hide folder", "touch file", "remove file", "compact table", "checkpoint table"]
Turn = Literal["remake table", "empty table", "empty folder", "remake hybrid", "nothing"]

_STORM_S = 45.0, 75.0
_FAULT_S = 1.0, 15.0
_MOST_BEFORE_QUIET_S = 8.0  # a driver program that is killed takes so long to be there again
_KILLS: Sequence[Kill] = (
    *("kill worker",) * 8,
    *("kill planner",) * 5,
    *("kill broker",) * 2,
    "kill driver",  # takes long to be there again
)
_STOPS: Sequence[Stop] = ("stop worker", "stop planner", "stop planner", "stop driver", "stop broker")
_CHANGES: Sequence[Change] = (
    "hide folder",
    "touch file",
    "remove file",
    "compact table",
    "compact table",
    "checkpoint table",
)
_TURNS: Sequence[Turn] = ("remake table", "empty table", "empty folder", "remake hybrid", "nothing")
_LASTS_S = {
    "kill worker": (0.0, 0.0),
    "kill planner": (0.0, 0.0),
    "kill driver": (0.2, 3.0),
    "kill broker": (1.0, 6.0),
    "stop worker": (1.0, 12.0),
    "stop planner": (1.0, 15.0),
    "stop driver": (1.0, 10.0),
    "stop broker": (1.0, 12.0),
    "hide folder": (0.5, 6.0),
}


@dataclass(frozen=True)
class Blow:
    """A kill, a stop or a change.

    Attributes:
        at_s: when, in seconds from the beginning of the storm.
        what: happens.
        pick: from 0 up to 1: which, of those that there are then.
        lasts_s: until what was killed is started again, what was stopped goes on, what was hidden is shown.
    """

    at_s: float
    what: Kill | Stop | Change
    pick: float
    lasts_s: float


@dataclass(frozen=True)
class Storm:
    """What happens between two accounts.

    Attributes:
        turns: happen first, while all is quiet.
        seconds: how long the storm takes.
        faults: of links.
        blows: everything else.
    """

    turns: Sequence[Turn]
    seconds: float
    faults: Sequence[PlannedFault]
    blows: Sequence[Blow]


@dataclass(frozen=True)
class Pace:
    """Mean seconds between two faults, kills, stops and changes."""

    fault_s: float = 5.0
    kill_s: float = 6.0
    stop_s: float = 15.0
    change_s: float = 10.0


def storms(
    seed: int, links: Sequence[str], pace: Pace, seconds: tuple[float, float] = _STORM_S
) -> Iterator[Storm]:
    """For ever; the same arguments give the same ones. ``seconds`` are the shortest and the longest storm."""
    chance = random.Random(f"chaos {seed}")
    number = 0
    while True:
        lasting = chance.uniform(*seconds)
        faults = fault_schedule(f"{seed} {number}", links, lasting, every_s=pace.fault_s, lasts_s=_FAULT_S)
        blows = [
            *_drawn(chance, _KILLS, lasting - _MOST_BEFORE_QUIET_S, pace.kill_s),
            *_drawn(chance, _STOPS, lasting, pace.stop_s),
            *_drawn(chance, _CHANGES, lasting, pace.change_s),
        ]
        turns = [chance.choice(_TURNS)] if number else []
        yield Storm(turns, lasting, faults, sorted(blows, key=lambda blow: blow.at_s))
        number += 1


def _drawn(
    chance: random.Random,
    kinds: Sequence[Kill] | Sequence[Stop] | Sequence[Change],
    seconds: float,
    every_s: float,
) -> Iterator[Blow]:
    at_s = chance.expovariate(1 / every_s)
    while at_s < seconds:
        what = chance.choice(kinds)
        lasts_s = min(chance.uniform(*_LASTS_S.get(what, (0.0, 0.0))), seconds - at_s)
        yield Blow(at_s, what, chance.random(), lasts_s)
        at_s += chance.expovariate(1 / every_s)
