"""A link: an address through which clients reach one server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flip27_stream.testing.faulty_network.applied_faults import Application, AppliedFaults, CountedDirection
from flip27_stream.testing.faulty_network.connection import LinkConnection
from flip27_stream.testing.faulty_network.faults import Admission, End, Fault
from flip27_stream.testing.faulty_network.link_listener import LinkListener
from flip27_stream.testing.faulty_network.schedule import PlannedFault

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


class AppliedFault:
    """A fault that is applied to a link until it is healed.

    As a context manager it is healed at the end of the block.
    """

    def __init__(self, link: Link, application: Application) -> None:
        self._link, self._application = link, application

    @property
    def fault(self) -> Fault:
        return self._application.fault

    @property
    def cuts(self) -> int:
        """The number of connections that the fault has cut."""
        return self._application.cuts

    def heal(self) -> None:
        """Ends the fault. Does nothing if it has ended."""
        self._link._heal([self._application])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


class Link:
    """A link, made by :meth:`FaultyNetwork.link`. It passes on everything until a fault is applied.

    A client is connected before the server is. If no server listens, the client's connection is made and reset at once.

    Attributes:
        name: The name of the link in its network.
        target: The address of the server, as ``host:port``.
        host: The host on which clients reach the server.
        port: The port on which clients reach the server.
        accepted: The number of connections that clients have made.
    """

    def __init__(self, name: str, target: str, host: str, port: int, run: Run[Any]) -> None:
        self.name, self.target, self.host, self.port = name, target, host, port
        self.accepted = 0
        self._run = run
        self._connections: set[LinkConnection] = set()
        self._serving: set[asyncio.Task[None]] = set()
        run(self._open())

    @property
    def address(self) -> str:
        """The address for clients, as ``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def connections(self) -> int:
        """The number of connections that are open or half-open now."""
        return len(self._connections)

    def apply(self, fault: Fault) -> AppliedFault:
        """Applies a fault in addition to those that are applied already. It is in effect when this returns."""
        application: Application = self._run(self._apply(fault))
        return AppliedFault(self, application)

    def heal(self) -> None:
        """Ends all faults."""
        self._heal(None)

    def cut(self, how: Literal["reset", "close"] = "reset") -> None:
        """Ends all connections at once. New ones can be made."""
        self._run(self._cut(End.RESET if how == "reset" else End.CLOSE, lambda connection: True))

    def close(self) -> None:
        """Ends all connections, and stops listening."""
        self._run(self._close())

    async def play(self, planned: PlannedFault) -> None:
        """Applies a fault when it is due, and heals it when its time is over. Runs in the network's event loop."""
        await asyncio.sleep(planned.at_s)
        application = await self._apply(planned.fault)
        await asyncio.sleep(planned.lasts_s)
        await self._end([application])

    def _heal(self, applications: list[Application] | None) -> None:
        self._run(self._end(applications))

    async def _open(self) -> None:
        self._faults = AppliedFaults()
        self._listener = LinkListener(self.host, self.port, self._enter)
        await self._listener.set(Admission.PASS)

    async def _close(self) -> None:
        await self._listener.close()
        await self._cut(End.RESET, lambda connection: True)
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _apply(self, fault: Fault) -> Application:
        before = self._faults.admission
        pipes: dict[CountedDirection, int] = {
            pipe: pipe.passed for connection in self._connections for pipe in connection.pipes
        }
        application = Application(fault, pipes)
        self._faults.add(application)
        await self._admit(before)
        if fault.severs is not None:
            for connection in list(self._connections):
                if connection.severed_by is None:
                    await connection.sever(fault.severs, application)
        return application

    async def _end(self, applications: list[Application] | None) -> None:
        before = self._faults.admission
        for application in self._faults.all() if applications is None else applications:
            if application.is_on:
                resets = application.fault.resets_on_heal
                if resets:
                    await self._cut(End.RESET, lambda connection: True)
                self._faults.remove(application)
                await self._cut(End.RESET, lambda c, ended=application: c.severed_by is ended)  # type: ignore[misc]
        await self._admit(before)

    async def _admit(self, before: Admission) -> None:
        """Changes the treatment of new connections, if the faults now require another one."""
        now, open_to_all = self._faults.admission, (Admission.PASS, Admission.SILENCE)
        if now is not before and not (now in open_to_all and before in open_to_all):
            await self._listener.set(now)

    async def _cut(self, how: End, which: Callable[[LinkConnection], bool]) -> None:
        for connection in [each for each in self._connections if which(each)]:
            await connection.close(how)
            self._connections.discard(connection)

    def _enter(self, client: socket.socket) -> None:
        self.accepted += 1
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: socket.socket) -> None:
        silent = [each for each in self._faults.all() if each.fault.admission is Admission.SILENCE]
        try:
            server = None if silent else await self._connected()
        except BaseException:
            client.close()
            raise
        connection = LinkConnection(client, server, self._faults)
        if silent:
            connection.severed_by = silent[0]
            self._connections.add(connection)
        elif server is None:
            await connection.close(End.RESET)
        else:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(connection)
            await connection.serve()
            if not connection.is_open:
                self._connections.discard(connection)

    async def _connected(self) -> socket.socket | None:
        """Returns a connection to the server, or ``None`` if the server refuses it."""
        host, _, port = self.target.rpartition(":")
        server = socket.socket()
        server.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(server, (host.strip("[]"), int(port)))
        except BaseException as error:
            server.close()
            if isinstance(error, OSError):
                return None
            raise
        return server


Through = Callable[[str, str], Link]
"""A function that makes a link with a name to ``host:port``; see :meth:`FaultyNetwork.link`."""
