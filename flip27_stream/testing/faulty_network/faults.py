"""What can go wrong with a link, as small frozen values.

Four concern connections that are made while they last: :class:`Refuse`, :class:`Unreachable`, :class:`Silence`,
:class:`HangInTls`. Connections that stand go on; :meth:`Link.cut` ends those.

Five concern what passes over every connection: :class:`Delay`, :class:`Throttle`, :class:`BlackHole`,
:class:`CutAfter`, and :class:`HalfOpen`, which concerns the connections that stand when it is applied.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Literal

Direction = Literal["to_server", "to_client"]
"""The way of requests, and the way of answers."""

Directions = Literal["to_server", "to_client", "both"]

Side = Literal["client", "server"]

HEAD = 5
"""So many bytes at the beginning of a flow tell what it is: the header of a TLS record."""

_TLS_HANDSHAKE = b"\x16\x03"


class Admission(Enum):
    """What becomes of a new connection."""

    PASS = "is connected with the server"
    SILENCE = "is accepted, and that is all"
    IGNORE = "gets no answer"
    REFUSE = "is refused"


class End(Enum):
    """What becomes of a connection when no more bytes may pass."""

    HOLD = "the bytes wait"
    CLOSE = "both sides get an end of file"
    RESET = "both sides get a reset"


@dataclass(frozen=True)
class Flow:
    """One direction of one connection, as a fault sees it.

    Attributes:
        direction: where the bytes go.
        head: the first bytes that came, at most :data:`HEAD`.
        passed: how many bytes were passed on since the fault was applied.
        is_new: whether the connection was made since the fault was applied.
        cuts: how many connections the fault has cut by now.
    """

    direction: Direction
    head: bytes
    passed: int
    is_new: bool
    cuts: int


@dataclass(frozen=True)
class Fault:
    """What goes wrong with a link while it is applied; this one changes nothing, and is the base of the others.

    Attributes:
        admission: what becomes of new connections.
        end: what becomes of a connection of which :meth:`allowance` says that no more bytes may pass.
        resets_on_heal: whether connections are reset when the fault ends; otherwise what waited is passed on.
    """

    admission: ClassVar[Admission] = Admission.PASS

    @property
    def end(self) -> End:
        return End.HOLD

    @property
    def resets_on_heal(self) -> bool:
        return False

    @property
    def severs(self) -> Literal[Side, "neither"] | None:
        """The side whose end of each open connection is closed when the fault is applied, ``None`` if no end is."""
        return None

    def delay_s(self, direction: Direction, chance: random.Random) -> float:
        """How long a piece waits, from when it came."""
        return 0.0

    def bytes_per_s(self, direction: Direction) -> float | None:
        """How much may pass in a second; None: any number."""
        return None

    def allowance(self, flow: Flow) -> int | None:
        """How many bytes more may pass; None: any number."""
        return None


@dataclass(frozen=True)
class Refuse(Fault):
    """New connections are refused, as where no process listens."""

    admission: ClassVar[Admission] = Admission.REFUSE


@dataclass(frozen=True)
class Unreachable(Fault):
    """New connections get no answer at all, as from a host that is switched off: connecting takes until it times out.

    A client that still tries when this ends is connected then, by the next packet that it repeats (after 1, 3, 7 s).
    """

    admission: ClassVar[Admission] = Admission.IGNORE


@dataclass(frozen=True)
class Silence(Fault):
    """New connections are accepted and never answered, as by a load balancer whose server hangs.

    On heal they are reset.
    """

    admission: ClassVar[Admission] = Admission.SILENCE


@dataclass(frozen=True)
class HangInTls(Fault):
    """New TLS connections hang in their handshake: the server's first record arrives, the next ones wait.

    Connections that do not begin with a TLS handshake pass.
    """

    def allowance(self, flow: Flow) -> int | None:
        if not flow.is_new or flow.direction == "to_server" or not _TLS_HANDSHAKE.startswith(flow.head[:2]):
            return None
        record = HEAD + int.from_bytes(flow.head[3:], "big") if len(flow.head) == HEAD else 0
        return max(record - flow.passed, 0)


@dataclass(frozen=True)
class Delay(Fault):
    """Each piece arrives later by ``seconds``, and by up to ``jitter_s`` more, which is drawn from ``seed``.

    A piece is what one read of a socket gives, at most 64 KiB. Pieces are under way together, as on a long line: it
    is latency, which takes nothing from the throughput. Their order stays.
    """

    seconds: float
    jitter_s: float = 0.0
    seed: int = 0
    direction: Directions = "to_client"

    def delay_s(self, direction: Direction, chance: random.Random) -> float:
        if self.direction not in (direction, "both"):
            return 0.0
        return self.seconds + self.jitter_s * chance.random()


@dataclass(frozen=True)
class Throttle(Fault):
    """Each connection passes on ``bytes_per_second`` at most, in pieces of a fiftieth of it."""

    bytes_per_second: float
    direction: Directions = "to_client"

    def bytes_per_s(self, direction: Direction) -> float | None:
        return self.bytes_per_second if self.direction in (direction, "both") else None


@dataclass(frozen=True)
class BlackHole(Fault):
    """Nothing arrives in a direction, nor the news that a connection has ended; what was sent waits.

    On heal it is all passed on, as TCP sends again what was not acknowledged; with ``on_heal="reset"`` the connections
    are reset and what they sent is lost, as where one side has given up by then. A connection can still be made
    meanwhile: together with :class:`Unreachable` it can't.
    """

    direction: Directions = "both"
    on_heal: Literal["deliver", "reset"] = "deliver"

    @property
    def resets_on_heal(self) -> bool:
        return self.on_heal == "reset"

    def allowance(self, flow: Flow) -> int | None:
        return 0 if self.direction in (flow.direction, "both") else None


@dataclass(frozen=True)
class CutAfter(Fault):
    """Connections end once they have passed on ``count`` bytes in a direction, counted from when it was applied.

    Args:
        count: of bytes that still arrive; 0 cuts in place of the next byte.
        times: so many connections are cut, then all pass; None for all.
        how: both sides get a reset, or an end of file.
    """

    count: int = 0
    times: int | None = 1
    how: Literal["reset", "close"] = "reset"
    direction: Direction = "to_client"

    @property
    def end(self) -> End:
        return End.RESET if self.how == "reset" else End.CLOSE

    def allowance(self, flow: Flow) -> int | None:
        spent = self.times is not None and flow.cuts >= self.times
        return None if spent or flow.direction != self.direction else max(self.count - flow.passed, 0)


@dataclass(frozen=True)
class HalfOpen(Fault):
    """The connections that are open are broken, and at most one side is told: that side's end closes.

    The other side keeps an open connection on which nothing arrives, and what it sends is lost. This happens when a
    host loses its power, or when a firewall forgets an idle connection ("neither" side is told). New connections work.
    On heal, a side that was not told gets a reset.
    """

    closed: Literal[Side, "neither"] = "server"

    @property
    def severs(self) -> Literal[Side, "neither"] | None:
        return self.closed
