"""The faults that are applied to a link: their combined effect on a flow, and notifications of changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from flip27_stream.testing.faulty_network.faults import Admission, Delay, Direction, End, Fault, Flow


class CountedDirection(Protocol):
    """One direction of a connection, with the number of bytes that it has passed on."""

    direction: Direction
    head: bytes
    passed: int


class Application:
    """A fault that was applied to a link.

    Attributes:
        cuts: The number of connections that it has cut.
        is_on: Whether it is still applied.
    """

    def __init__(self, fault: Fault, standing: Mapping[CountedDirection, int]) -> None:
        self.fault, self.cuts, self.is_on = fault, 0, True
        self._standing = standing
        self._chance = random.Random(fault.seed if isinstance(fault, Delay) else 0)

    def allowance(self, of: CountedDirection) -> int | None:
        """Returns how many more bytes the fault lets pass, or ``None`` for any number."""
        passed, is_new = of.passed - self._standing.get(of, 0), of not in self._standing
        return self.fault.allowance(Flow(of.direction, of.head, passed, is_new, self.cuts))

    def delay_s(self, direction: Direction) -> float:
        return self.fault.delay_s(direction, self._chance)


class AppliedFaults:
    """All faults that are applied now. Only the thread of the event loop uses it."""

    def __init__(self) -> None:
        self._on: list[Application] = []
        self._change = asyncio.Event()

    def add(self, application: Application) -> None:
        self._on.append(application)
        self._changed()

    def remove(self, application: Application) -> None:
        application.is_on = False
        self._on.remove(application)
        self._changed()

    def all(self) -> list[Application]:
        return list(self._on)

    @property
    def admission(self) -> Admission:
        """The worst treatment of new connections among all faults."""
        order = list(Admission)
        return max((each.fault.admission for each in self._on), key=order.index, default=Admission.PASS)

    def delays(self, direction: Direction) -> list[tuple[Application, float]]:
        """Returns the faults that delay a piece that has just arrived, with the delay (s) of each."""
        drawn = [(each, each.delay_s(direction)) for each in self._on]
        return [(each, seconds) for each, seconds in drawn if seconds]

    def bytes_per_s(self, direction: Direction) -> float | None:
        rates = (each.fault.bytes_per_s(direction) for each in self._on)
        return min((rate for rate in rates if rate is not None), default=None)

    def room(self, of: CountedDirection) -> int | None:
        """Returns how many more bytes can pass, or ``None`` for any number."""
        left = (each.allowance(of) for each in self._on)
        return min((bytes_left for bytes_left in left if bytes_left is not None), default=None)

    def cutting(self, of: CountedDirection) -> Application | None:
        """Returns the fault that ends a connection now, or ``None``."""
        ending = (each for each in self._on if each.fault.end is not End.HOLD)
        return next((each for each in ending if each.allowance(of) == 0), None)

    async def changed(self, timeout_s: float | None = None) -> None:
        """Returns when a fault was applied or healed, or after ``timeout_s`` seconds."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._change.wait(), timeout_s)

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
