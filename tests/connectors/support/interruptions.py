"""Faults of the network from which a client must recover by itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from flip27_stream.testing import CutAfter, Delay, Fault
from flip27_stream.testing.faulty_network import PlannedFault, fault_schedule

_SECONDS = 60.0
_KINDS: Sequence[Callable[[random.Random], Fault]] = (
    lambda chance: Delay(chance.uniform(0.002, 0.02), chance.uniform(0, 0.02), chance.randrange(1 << 16)),
    lambda chance: CutAfter(
        int(2 ** chance.uniform(0, 14)), chance.choice((1, 2, 4)), chance.choice(("reset", "close"))
    ),
)


def interruptions(seed: str, links: Iterable[str]) -> Sequence[PlannedFault]:
    """Returns a minute in which answers are late, or connections are cut after some bytes, most of the time."""
    return fault_schedule(seed, sorted(links), _SECONDS, every_s=0.5, lasts_s=(0.1, 0.6), kinds=_KINDS)
