"""Faults drawn from a seed: which comes when, at which link, for how long."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flip27_stream.testing.faulty_network.faults import (
    BlackHole,
    CutAfter,
    Delay,
    Fault,
    HalfOpen,
    HangInTls,
    Refuse,
    Silence,
    Throttle,
    Unreachable,
)


@dataclass(frozen=True)
class PlannedFault:
    """A fault to come.

    Attributes:
        at_s: when it begins, in seconds from the beginning.
        link: the name of the link.
        fault: what happens to it.
        lasts_s: seconds until it is healed.
    """

    at_s: float
    link: str
    fault: Fault
    lasts_s: float


KINDS: Sequence[Callable[[random.Random], Fault]] = (
    lambda chance: Refuse(),
    lambda chance: Unreachable(),
    lambda chance: Silence(),
    lambda chance: HangInTls(),
    lambda chance: Delay(chance.uniform(0.02, 1), chance.uniform(0, 0.5), chance.randrange(1 << 16)),
    lambda chance: Throttle(
        chance.uniform(2_000, 200_000), chance.choice(("to_server", "to_client", "both"))
    ),
    lambda chance: BlackHole(
        chance.choice(("to_server", "to_client", "both")), chance.choice(("deliver", "reset"))
    ),
    lambda chance: CutAfter(
        int(2 ** chance.uniform(0, 18)), chance.choice((1, 3, None)), chance.choice(("reset", "close"))
    ),
    lambda chance: HalfOpen(chance.choice(("client", "server", "neither"))),
)
"""One drawing for each kind of fault."""


def fault_schedule(
    seed: int | str,
    links: Sequence[str],
    seconds: float,
    *,
    every_s: float = 10.0,
    lasts_s: tuple[float, float] = (1.0, 5.0),
    kinds: Sequence[Callable[[random.Random], Fault]] = KINDS,
) -> list[PlannedFault]:
    """The faults of so many seconds, by when they begin; the same arguments give the same ones.

    Args:
        seed: all is drawn from it.
        links: the names of the links that faults may strike.
        every_s: the mean time in seconds between the beginnings of two faults.
        lasts_s: the shortest and the longest time in seconds that a fault lasts; none outlasts ``seconds``.
        kinds: what may happen; each makes a fault from what chance gives.
    """
    chance = random.Random(seed)
    planned = []
    at_s = chance.expovariate(1 / every_s)
    while at_s < seconds:
        fault = chance.choice(kinds)(chance)
        lasting = min(chance.uniform(*lasts_s), seconds - at_s)
        planned.append(PlannedFault(at_s, chance.choice(links), fault, lasting))
        at_s += chance.expovariate(1 / every_s)
    return planned
