"""A connection through a link: two sockets, and a pipe for each direction."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from flip27_stream.testing.faulty_network.applied_faults import Application, AppliedFaults
from flip27_stream.testing.faulty_network.faults import HEAD, Direction, End, Side

_PIECE = 1 << 16
_UNDER_WAY = (
    64  # The greatest number of waiting pieces. The sender's own buffers fill then, as on a real network.
)
_SLICES_A_SECOND = 50
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ConnectionCutError(Exception):
    """The error that ends a connection; ``how`` is the way in which it ends."""

    def __init__(self, how: End) -> None:
        super().__init__(how.value)
        self.how = how


class _Piece(NamedTuple):
    """The result of one read: bytes, no bytes for an end of file, or ``None`` for a reset."""

    came: float
    delays: list[tuple[Application, float]]
    data: bytes | None


class Pipe:
    """One direction of a connection.

    Attributes:
        head: The first bytes that arrived, at most :data:`HEAD`.
        passed: The number of bytes that were passed on.
    """

    def __init__(
        self, direction: Direction, source: socket.socket, sink: socket.socket, faults: AppliedFaults
    ) -> None:
        self.direction, self.head, self.passed = direction, b"", 0
        self._source, self._sink, self._faults = source, sink, faults
        self._loop = asyncio.get_running_loop()
        self._under_way: asyncio.Queue[_Piece] = asyncio.Queue(_UNDER_WAY)

    async def run(self) -> None:
        """Passes on the arriving bytes, until the end of file.

        Raises:
            ConnectionCutError: A fault or one of the sides has ended the connection.
        """
        async with _BackgroundTask(self._take()):
            while data := await self._next():
                await self._give(data)
        with suppress(OSError):
            self._sink.shutdown(socket.SHUT_WR)

    async def _take(self) -> None:
        data: bytes | None = b"-"
        while data:
            try:
                data = await self._loop.sock_recv(self._source, _PIECE)
            except OSError:
                data = None
            self.head = (self.head + (data or b"")[:HEAD])[:HEAD]
            piece = _Piece(self._loop.time(), self._faults.delays(self.direction), data)
            await self._under_way.put(piece)

    async def _next(self) -> bytes:
        """Returns the next piece when it is due; no bytes at the end of file."""
        piece = await self._under_way.get()
        while (wait_s := _due(piece) - self._loop.time()) > 0:
            await self._faults.changed(wait_s)
        if not piece.data:
            while self._faults.room(self) == 0 and not self._faults.cutting(self):
                await self._faults.changed()
        if piece.data is None:
            raise ConnectionCutError(End.RESET)
        return piece.data

    async def _give(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            size = await self._room(len(rest))
            try:
                await self._loop.sock_sendall(self._sink, rest[:size])
            except OSError as error:
                raise ConnectionCutError(End.RESET) from error
            self.passed += size
            rest = rest[size:]
            self._cut_if_due()
            if rate := self._faults.bytes_per_s(self.direction):
                await self._faults.changed(size / rate)

    async def _room(self, wanted: int) -> int:
        """Returns how many of ``wanted`` bytes can be passed on now. Waits until at least one can."""
        while True:
            self._cut_if_due()
            room = self._faults.room(self)
            if room != 0:
                break
            await self._faults.changed()
        if rate := self._faults.bytes_per_s(self.direction):
            wanted = min(wanted, max(int(rate / _SLICES_A_SECOND), 1))
        return wanted if room is None else min(wanted, room)

    def _cut_if_due(self) -> None:
        if cutting := self._faults.cutting(self):
            cutting.cuts += 1
            raise ConnectionCutError(cutting.fault.end)


class LinkConnection:
    """The sockets of a client and, if it is connected, of the server, and the pipes between them.

    Attributes:
        severed_by: The fault that closed one end or did not open it; ``None`` if the connection is intact.
    """

    def __init__(self, client: socket.socket, server: socket.socket | None, faults: AppliedFaults) -> None:
        self._sockets: dict[Side, socket.socket] = {"client": client}
        self._pumps: list[asyncio.Task[None]] = []
        self.pipes: list[Pipe] = []
        self.severed_by: Application | None = None
        if server is not None:
            self._sockets["server"] = server
            self.pipes = [
                Pipe("to_server", client, server, faults),
                Pipe("to_client", server, client, faults),
            ]

    async def serve(self) -> None:
        """Passes on the arriving bytes, until both sides have ended, or the connection is cut or severed."""
        self._pumps = [asyncio.create_task(pipe.run()) for pipe in self.pipes]
        done, _ = await asyncio.wait(self._pumps, return_when=asyncio.FIRST_EXCEPTION)
        if any(pump.cancelled() for pump in done):
            return
        errors = [error for pump in done if (error := pump.exception()) is not None]
        await self.close(next((e.how for e in errors if isinstance(e, ConnectionCutError)), End.CLOSE))

    async def sever(self, side: Side | Literal["neither"], fault: Application) -> None:
        """Closes the socket of one side, or of neither.

        Nothing passes from now on, and the other side is not notified.
        """
        self.severed_by = fault
        await self._stop()
        if side != "neither":
            self._close(side, End.CLOSE)

    async def close(self, how: End) -> None:
        """Closes the sockets that are still open."""
        await self._stop()
        for side in list(self._sockets):
            self._close(side, how)

    @property
    def is_open(self) -> bool:
        return bool(self._sockets)

    async def _stop(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)

    def _close(self, side: Side, how: End) -> None:
        closed = self._sockets.pop(side, None)
        if closed is None:
            return
        with suppress(OSError):
            if how is End.RESET:
                closed.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            else:
                closed.shutdown(socket.SHUT_WR)
        closed.close()


class _BackgroundTask:
    """Runs a coroutine during the block, and cancels it at the end."""

    def __init__(self, beside: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.ensure_future(beside)

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def _due(piece: _Piece) -> float:
    return piece.came + sum(seconds for fault, seconds in piece.delays if fault.is_on)
