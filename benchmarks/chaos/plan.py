"""The plan of a run: faults, kills and changes with their times, drawn from a seed before the run begins."""

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

_PERIOD_S = 45.0, 75.0
_FAULT_S = 1.0, 15.0
_MOST_BEFORE_QUIET_S = 8.0  # the time that a killed driver program needs until it runs again
_KILLS: Sequence[Kill] = (
    *("kill worker",) * 8,
    *("kill planner",) * 5,
    *("kill broker",) * 2,
    "kill driver",  # it needs a long time until it runs again
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
class Disruption:
    """A kill, a stop or a change.

    Attributes:
        at_s: The time, in seconds from the beginning of the fault period.
        what: The kind of act.
        pick: A number from 0 up to 1 that selects the process, broker or file among those that exist at that time.
        lasts_s: The seconds until the act is undone: a restart, a continuation, or files that are shown again.
    """

    at_s: float
    what: Kill | Stop | Change
    pick: float
    lasts_s: float


@dataclass(frozen=True)
class FaultPeriod:
    """The time between two comparisons of rows, in which faults happen.

    Attributes:
        turns: Changes that happen first, while there is no fault.
        seconds: The length of the period.
        faults: The faults of links.
        disruptions: Kills, stops and changes.
    """

    turns: Sequence[Turn]
    seconds: float
    faults: Sequence[PlannedFault]
    disruptions: Sequence[Disruption]


@dataclass(frozen=True)
class Pace:
    """The mean seconds between two faults, two kills, two stops and two changes."""

    fault_s: float = 5.0
    kill_s: float = 6.0
    stop_s: float = 15.0
    change_s: float = 10.0


def fault_periods(
    seed: int, links: Sequence[str], pace: Pace, seconds: tuple[float, float] = _PERIOD_S
) -> Iterator[FaultPeriod]:
    """Yields fault periods without end, the same for the same arguments.

    ``seconds`` are the shortest and the longest length.
    """
    chance = random.Random(f"chaos {seed}")
    number = 0
    while True:
        lasting = chance.uniform(*seconds)
        faults = fault_schedule(f"{seed} {number}", links, lasting, every_s=pace.fault_s, lasts_s=_FAULT_S)
        disruptions = [
            *_drawn(chance, _KILLS, lasting - _MOST_BEFORE_QUIET_S, pace.kill_s),
            *_drawn(chance, _STOPS, lasting, pace.stop_s),
            *_drawn(chance, _CHANGES, lasting, pace.change_s),
        ]
        turns = [chance.choice(_TURNS)] if number else []
        yield FaultPeriod(turns, lasting, faults, sorted(disruptions, key=lambda disruption: disruption.at_s))
        number += 1


def _drawn(
    chance: random.Random,
    kinds: Sequence[Kill] | Sequence[Stop] | Sequence[Change],
    seconds: float,
    every_s: float,
) -> Iterator[Disruption]:
    at_s = chance.expovariate(1 / every_s)
    while at_s < seconds:
        what = chance.choice(kinds)
        lasts_s = min(chance.uniform(*_LASTS_S.get(what, (0.0, 0.0))), seconds - at_s)
        yield Disruption(at_s, what, chance.random(), lasts_s)
        at_s += chance.expovariate(1 / every_s)
