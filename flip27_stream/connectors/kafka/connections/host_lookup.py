"""Looks up the addresses of hosts, in threads, so that a name server that does not answer delays no other broker."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import Future
from typing import Any

from kafka.errors import KafkaTimeoutError

from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05

Addresses = list[tuple[Any, ...]]
"""The type of results of ``socket.getaddrinfo``."""


class HostLookup:
    """The lookups of one client, with one thread for each name at most. If no thread can be started, the loop waits."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], Future[Addresses]] = {}

    async def addresses(self, loop: Any, host: str, port: int, deadline: float) -> Addresses:
        """Returns the addresses of a host.

        Args:
            loop: The ``NetworkSelector`` of kafka-python.
            host: A name or an address.
            port: The port of the broker.
            deadline: The time limit, in monotonic seconds. After it the lookup goes on, and the next call waits for it.

        Raises:
            OSError: The host has no address.
            UnicodeError: No host can have this name.
            KafkaTimeoutError: The deadline has passed.
        """
        try:  # An address needs no name server.
            return _look_up(host, port, socket.AI_NUMERICHOST)
        except socket.gaierror:
            lookup = self._lookup(host, port)
        pause_s = _FIRST_PAUSE_S
        while not lookup.done():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise KafkaTimeoutError(f"the lookup of host name '{host}' was not answered in time")
            await loop.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return lookup.result()

    def _lookup(self, host: str, port: int) -> Future[Addresses]:
        """Returns the lookup of this name that is under way, or a new one."""
        lookup = self._under_way.get((host, port))
        if lookup is None or lookup.done():
            lookup = self._under_way[host, port] = Future()
            thread = threading.Thread(
                target=_resolve, args=(lookup, host, port), name="flip27-kafka-lookup", daemon=True
            )
            try:
                start(thread)
            except ConnectorError:
                _resolve(lookup, host, port)
        return lookup


def _resolve(lookup: Future[Addresses], host: str, port: int) -> None:
    try:
        lookup.set_result(_look_up(host, port))
    except BaseException as error:  # noqa: BLE001 - the waiting caller raises it
        lookup.set_exception(error)


def _look_up(host: str, port: int, flags: int = 0) -> Addresses:
    return [*socket.getaddrinfo(host, port, socket.AF_UNSPEC, socket.SOCK_STREAM, 0, flags)]
