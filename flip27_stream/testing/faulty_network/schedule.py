"""Random faults from a seed, each with its link, its beginning and its duration."""

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
    """A planned fault.

    Attributes:
        at_s: When it begins (s from the beginning).
        link: The name of the link.
        fault: The fault.
        lasts_s: The time (s) until it is healed.
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
"""A function for each kind of fault that draws one."""


def fault_schedule(
    seed: int | str,
    links: Sequence[str],
    seconds: float,
    *,
    every_s: float = 10.0,
    lasts_s: tuple[float, float] = (1.0, 5.0),
    kinds: Sequence[Callable[[random.Random], Fault]] = KINDS,
) -> list[PlannedFault]:
    """Returns random faults in the order of their beginnings. The same arguments return the same faults.

    Args:
        seed: The seed of all random numbers.
        links: The names of the links that can have faults.
        seconds: The duration of the schedule (s).
        every_s: The mean time (s) between the beginnings of two faults.
        lasts_s: The shortest and the longest duration (s) of a fault. No fault outlasts ``seconds``.
        kinds: The kinds of faults. Each draws a fault with random numbers.
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
