"""The queue between the fetchers and the reader."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class HandOverQueue(Generic[T]):
    """A bounded queue whose consumer waits on a future (Flink ``FutureCompletingBlockingQueue``).

    Producers block while the queue is full. The consumer never blocks: it polls, and when the queue is empty it waits
    for :meth:`availability`. That future may complete although the queue is empty, but a new element always completes
    it.

    Args:
        capacity: The greatest number of elements.

    Raises:
        ValueError: ``capacity`` is less than 1.
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
        """Adds an element once there is room; returns false if the queue was closed instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._elements) < self._capacity)
            if self._closed:
                return False
            self._elements.append(element)
            self.notify_available()
            return True

    def poll(self) -> T | None:
        """Removes and returns the next element; returns ``None`` if the queue is empty."""
        with self._changed:
            element = self._elements.popleft() if self._elements else None
            if not self._elements and self._available.done():
                self._available = _new_future()
            self._changed.notify_all()
            return element

    def is_empty(self) -> bool:
        """Returns whether the queue has no elements."""
        with self._changed:
            return not self._elements

    def availability(self) -> Future[None]:
        """Returns a future that completes when the queue, once emptied, gets an element or :meth:`notify_available`."""
        with self._changed:
            return self._available

    def notify_available(self) -> None:
        """Completes the future of :meth:`availability`, although the queue may be empty."""
        with self._changed:
            if not self._available.done():
                self._available.set_result(None)

    def close(self) -> None:
        """Drops all elements, and unblocks the producers that wait."""
        with self._changed:
            self._closed = True
            self._elements.clear()
            self._changed.notify_all()
            self.notify_available()


def _new_future() -> Future[None]:
    """Returns a pending future that its holder cannot cancel."""
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()
    return future
