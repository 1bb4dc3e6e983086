"""A connection that is being made, in a thread of its own: a broker that hangs does not hold up the others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start


class Opening:
    """One attempt to connect. Where the system has no thread for it, it is made at once, and waited for.

    Args:
        make: connects; it ends within the time that the options give it.
    """

    def __init__(self, make: Callable[[], FetchConnection]) -> None:
        self._make = make
        self._told, self._tells = socket.socketpair()
        self._lock = threading.Lock()
        self._is_abandoned = self._is_over = False
        self._made: FetchConnection | None = None
        self._error: BaseException | None = None
        thread = threading.Thread(target=self._run, name="flip27-kafka-connect", daemon=True)
        try:
            start(thread)
        except ConnectorError:
            self._run()

    @property
    def is_over(self) -> bool:
        return self._is_over

    def fileno(self) -> int:
        """What is readable once it is over, for a poll."""
        return self._told.fileno()

    def take(self) -> FetchConnection:
        """The connection, once it is over; once only.

        Raises:
            OSError: there is none.
            ConnectorError: the broker refused, or is not trusted.
        """
        self._told.close()
        if self._made is None:
            raise self._error or ConnectionError("no connection was made")
        return self._made

    def abandon(self) -> None:
        """Close the connection, now or when it is made."""
        with self._lock:
            self._is_abandoned = True
        self._told.close()
        if self._made is not None:
            self._made.close()

    def _run(self) -> None:
        try:
            made, error = self._make(), None
        except BaseException as failed:  # noqa: BLE001 - who asked for the connection is told
            made, error = None, failed
        with self._lock:
            self._made, self._error, self._is_over = made, error, True
            unwanted = made if self._is_abandoned else None
        if unwanted is not None:
            unwanted.close()
        self._tells.close()
