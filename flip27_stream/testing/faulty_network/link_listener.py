"""The listening socket of a link."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from flip27_stream.testing.faulty_network.faults import Admission

_BACKLOG = 128
_CONNECTS_S = 0.05  # On the loopback, a connection is made at once or not at all.


class LinkListener:
    """Accepts connections, leaves them without an answer, or refuses them. Its address stays reserved all the time.

    ``entered`` is called with the socket of each accepted connection.
    """

    def __init__(self, host: str, port: int, entered: Callable[[socket.socket], None]) -> None:
        self._where, self._entered = (host, port), entered
        self._loop = asyncio.get_running_loop()
        self._socket = self._bound()
        self._accepting: asyncio.Task[None] | None = None
        self._fillers: list[socket.socket] = []

    async def set(self, admission: Admission) -> None:
        """Sets the treatment of new connections from now on."""
        await self._stop()
        if admission is Admission.REFUSE:
            return
        if admission is Admission.IGNORE:
            await self._fill()
            return
        self._socket.listen(_BACKLOG)
        self._accepting = self._loop.create_task(self._accept())

    async def close(self) -> None:
        await self._stop()
        self._socket.close()

    async def _accept(self) -> None:
        while True:
            client, _ = await self._loop.sock_accept(self._socket)
            self._entered(client)

    async def _stop(self) -> None:
        """Stops listening. Connections that were not accepted yet are reset."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._accepting = None
        for filler in self._fillers:
            filler.close()
        self._fillers = []
        self._socket.close()
        self._socket = self._bound()

    async def _fill(self) -> None:
        """Fills the queue of connections that wait to be accepted. The system then does not answer further ones."""
        self._socket.listen(0)
        connected = True
        while connected:
            filler = _nonblocking()
            self._fillers.append(filler)
            connected = False
            with suppress(asyncio.TimeoutError, OSError):
                await asyncio.wait_for(self._loop.sock_connect(filler, self._where), _CONNECTS_S)
                connected = True

    def _bound(self) -> socket.socket:
        made = _nonblocking()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(self._where)
        return made


def _nonblocking() -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    return made
