"""The queue between fetchers and the reader."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class HandOverQueue(Generic[T]):
    """A bounded queue whose consumer waits on a future (Flink ``FutureCompletingBlockingQueue``).

    Producers block while it is full. The consumer never blocks: it polls, and when there is nothing, waits for
    :meth:`availability`, which may be done without need but is never missed.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1: {capacity}")
        self._capacity = capacity
        self._elements: deque[T] = deque()
        self._changed = threading.Condition()
        self._available = _new_future()
        self._closed = False

    def put(self, element: T) -> bool:
        """Add an element once there is room; ``False`` if the queue was closed instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._elements) < self._capacity)
            if self._closed:
                return False
            self._elements.append(element)
            self.notify_available()
            return True

    def poll(self) -> T | None:
        """The next element, or ``None`` if there is none."""
        with self._changed:
            element = self._elements.popleft() if self._elements else None
            if not self._elements and self._available.done():
                self._available = _new_future()
            self._changed.notify_all()
            return element

    def is_empty(self) -> bool:
        with self._changed:
            return not self._elements

    def availability(self) -> Future[None]:
        """Done once there is an element, or something to look at, since the last poll that emptied the queue."""
        with self._changed:
            return self._available

    def notify_available(self) -> None:
        """Let the consumer look, though there may be no element."""
        with self._changed:
            if not self._available.done():
                self._available.set_result(None)

    def close(self) -> None:
        """Let go of everything, and of every producer that waits."""
        with self._changed:
            self._closed = True
            self._elements.clear()
            self._changed.notify_all()
            self.notify_available()


def _new_future() -> Future[None]:
    """A pending future that its holder cannot cancel."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
