"""Connects to a broker in its own thread, so that a broker that hangs does not delay fetches from others."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start


class ConnectionAttempt:
    """One attempt to connect, in its own thread, or in the thread of the caller if no thread can be started.

    Args:
        make: The function that connects, within the time limit of the options.
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
        """Whether the attempt has ended."""
        return self._is_over

    def fileno(self) -> int:
        """Returns a file descriptor for ``poll`` that becomes readable when the attempt ends."""
        return self._told.fileno()

    def take(self) -> FetchConnection:
        """Returns the connection. Must be called once only, after the attempt has ended.

        Raises:
            OSError: No connection could be made.
            ConnectorError: The broker refused this client, or its certificate is not trusted.
        """
        self._told.close()
        if self._made is None:
            raise self._error or ConnectionError("no connection was made")
        return self._made

    def abandon(self) -> None:
        """Closes the connection, now or as soon as it is made."""
        with self._lock:
            self._is_abandoned = True
        self._told.close()
        if self._made is not None:
            self._made.close()

    def _run(self) -> None:
        try:
            made, error = self._make(), None
        except BaseException as failed:  # noqa: BLE001 - take() raises it
            made, error = None, failed
        with self._lock:
            self._made, self._error, self._is_over = made, error, True
            unwanted = made if self._is_abandoned else None
        if unwanted is not None:
            unwanted.close()
        self._tells.close()
