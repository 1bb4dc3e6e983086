"""The faults of a link, as small frozen values.

Four of them affect connections that are made while they are applied: :class:`Refuse`, :class:`Unreachable`,
:class:`Silence`, :class:`HangInTls`. Existing connections continue; :meth:`Link.cut` ends them.

Five of them affect the bytes on every connection: :class:`Delay`, :class:`Throttle`, :class:`BlackHole`,
:class:`CutAfter`, and :class:`HalfOpen`, which affects the connections that exist when it is applied.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Literal

Direction = Literal["to_server", "to_client"]
"""The direction of requests, and the direction of answers."""

Directions = Literal["to_server", "to_client", "both"]

Side = Literal["client", "server"]

HEAD = 5
"""The number of bytes at the beginning of a flow that identify it, which is the size of the header of a TLS record."""

_TLS_HANDSHAKE = b"\x16\x03"


class Admission(Enum):
    """The treatment of a new connection."""

    PASS = "is connected with the server"
    SILENCE = "is accepted and never answered"
    IGNORE = "gets no answer"
    REFUSE = "is refused"


class End(Enum):
    """The end of a connection when no more bytes can pass."""

    HOLD = "the bytes wait"
    CLOSE = "both sides get an end of file"
    RESET = "both sides get a reset"


@dataclass(frozen=True)
class Flow:
    """One direction of one connection, as a fault sees it.

    Attributes:
        direction: The direction of the bytes.
        head: The first bytes that arrived, at most :data:`HEAD`.
        passed: The number of bytes that were passed on since the fault was applied.
        is_new: Whether the connection was made after the fault was applied.
        cuts: The number of connections that the fault has cut.
    """

    direction: Direction
    head: bytes
    passed: int
    is_new: bool
    cuts: int


@dataclass(frozen=True)
class Fault:
    """A fault of a link while it is applied. This base class changes nothing.

    Attributes:
        admission: The treatment of new connections.
        end: The way in which a connection ends when :meth:`allowance` returns 0.
        resets_on_heal: Whether connections are reset when the fault ends. Otherwise waiting bytes are passed on.
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
        """The side whose end of each open connection is closed when the fault is applied; ``None`` to close no end."""
        return None

    def delay_s(self, direction: Direction, chance: random.Random) -> float:
        """Returns how long (s) a piece waits from its arrival."""
        return 0.0

    def bytes_per_s(self, direction: Direction) -> float | None:
        """Returns how many bytes can pass in a second, or ``None`` for any number."""
        return None

    def allowance(self, flow: Flow) -> int | None:
        """Returns how many more bytes can pass, or ``None`` for any number."""
        return None


@dataclass(frozen=True)
class Refuse(Fault):
    """New connections are refused, as if no process listened."""

    admission: ClassVar[Admission] = Admission.REFUSE


@dataclass(frozen=True)
class Unreachable(Fault):
    """New connections get no answer, as from a host that is switched off. Connecting ends with a time-out.

    A client that still tries when this ends is then connected, by the next packet that it repeats (after 1, 3, 7 s).
    """

    admission: ClassVar[Admission] = Admission.IGNORE


@dataclass(frozen=True)
class Silence(Fault):
    """New connections are accepted and never answered, as by a load balancer whose server does not respond.

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
    """Each piece arrives later by ``seconds``, plus up to ``jitter_s``, which is drawn from ``seed``.

    A piece is the result of one read of a socket, at most 64 KiB. Pieces are delayed at the same time, like on a long
    line. So the latency rises and the throughput does not fall. Their order is kept.
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
    """Each connection passes on at most ``bytes_per_second``, in pieces of a fiftieth of that."""

    bytes_per_second: float
    direction: Directions = "to_client"

    def bytes_per_s(self, direction: Direction) -> float | None:
        return self.bytes_per_second if self.direction in (direction, "both") else None


@dataclass(frozen=True)
class BlackHole(Fault):
    """Nothing arrives in a direction, not even the end of a connection. The sent bytes wait.

    On heal they are passed on, because TCP sends unacknowledged bytes again. With ``on_heal="reset"`` the connections
    are reset and the sent bytes are lost, as if one side had given up. New connections can be made, unless
    :class:`Unreachable` is applied as well.
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
    """Connections end after they have passed on ``count`` bytes in a direction.

    The bytes are counted from when the fault was applied.

    Args:
        count: The number of bytes that still arrive; 0 ends the connection at the next byte.
        times: How many connections are cut, before all pass; ``None`` to cut all.
        how: Whether both sides get a reset or an end of file.
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
    """The open connections are broken. At most one side is notified, whose end is closed.

    The other side keeps an open connection on which nothing arrives, and its bytes are lost. This happens when a
    host loses its power, or when a firewall drops an idle connection ("neither" side is notified). New connections
    work. On heal, a side that was not notified gets a reset.
    """

    closed: Literal[Side, "neither"] = "server"

    @property
    def severs(self) -> Literal[Side, "neither"] | None:
        return self.closed
