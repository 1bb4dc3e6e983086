"""Connections that outlive a task: Python workers are used again, so the next task finds them open."""

from __future__ import annotations

import threading

from flip27_stream.connectors.kafka.client import ConnectionOptions, KafkaClient


class ClientPool:
    """Clients nobody uses at the moment, by their options."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[ConnectionOptions, list[KafkaClient]] = {}

    def borrow(self, options: ConnectionOptions) -> KafkaClient:
        """An idle client, or a new one."""
        with self._lock:
            idle = self._idle.get(options)
            return idle.pop() if idle else KafkaClient(options)

    def give_back(self, client: KafkaClient) -> None:
        """Keep a client, with no request in flight, for the next task."""
        with self._lock:
            self._idle.setdefault(client.options, []).append(client)


CLIENTS = ClientPool()
"""The pool of this process."""
