"""The network: an event loop in a thread of its own, and the links that live in it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flip27_stream.errors import ConnectorError
from flip27_stream.testing.faulty_network.link import Link
from flip27_stream.testing.faulty_network.schedule import PlannedFault
from flip27_stream.testing.free_ports import free_port

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_TIME_LIMIT_S = 30.0


class FaultyNetwork:
    """A context manager with TCP links on free loopback ports, and faults for them by command or by seed.

    ::

        with FaultyNetwork() as network:
            link = network.link("store", "127.0.0.1:9000")     # clients are given link.address
            with link.apply(Delay(0.3)):                       # healed with the block; faults may last together
                ...
            link.cut()                                         # ends all connections of the link
            with network.playing(fault_schedule(seed=7, links=["store"], seconds=60)):
                ...
            network.heal()

    Kafka brokers that advertise their links: ``KafkaCluster(through=network.link)``, whose links are "node-1", ...
    """

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="flip27-faulty-network", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._thread is not None
        for link in self._links.values():
            link.close()
        self._links = {}
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIME_LIMIT_S)
        self._loop.close()
        self._loop = self._thread = None

    @property
    def links(self) -> Mapping[str, Link]:
        """The links by name."""
        return MappingProxyType(self._links)

    def link(self, name: str, target: str, *, host: str = "127.0.0.1") -> Link:
        """Makes a link to ``target`` (``host:port``) that listens on a free port of ``host``.

        Raises:
            ValueError: There is a link with that name.
            ConnectorError: The context was not entered.
        """
        self._started()
        if name in self._links:
            raise ValueError(f"The network has a link '{name}' already, to {self._links[name].target}.")
        self._links[name] = Link(name, target, host, free_port(), self._run)
        return self._links[name]

    def heal(self) -> None:
        """Ends all faults of all links."""
        for link in self._links.values():
            link.heal()

    def cut(self, how: Literal["reset", "close"] = "reset") -> None:
        """Ends all connections of all links at once. New ones can be made."""
        for link in self._links.values():
            link.cut(how)

    @contextmanager
    def playing(self, plan: Sequence[PlannedFault]) -> Iterator[None]:
        """Applies planned faults until the block ends, each when it is due and for its duration. Then heals all faults.

        Raises:
            ValueError: The plan names a link that the network does not have.
        """
        if unknown := {planned.link for planned in plan} - self._links.keys():
            raise ValueError(
                f"The plan names links {sorted(unknown)}; the network has {sorted(self._links)}."
            )
        played = asyncio.run_coroutine_threadsafe(self._play(plan), self._started())
        try:
            yield
        finally:
            if not played.cancel():
                played.result()
            self.heal()

    async def _play(self, plan: Sequence[PlannedFault]) -> None:
        await asyncio.gather(*(self._links[planned.link].play(planned) for planned in plan))

    def _run(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self._started()).result(_TIME_LIMIT_S)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            raise ConnectorError(
                "The faulty network was not started, or has been stopped: enter the context."
            )
        return self._loop
