"""The asynchronous calls of an enumerator: callables run in threads, and their handlers in the planning thread."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT_S = 0.5
_WARN_AFTER_S = 60.0

Handler = Callable[[Any, BaseException | None], None]
"""Gets the value that a callable returned, or the error that it raised."""


class AsyncCalls:
    """Runs each callable in a daemon thread, and its handler in the planning thread, in :meth:`run_due`.

    So a callable that never returns delays neither planning nor the end of the process.
    """

    def __init__(self) -> None:
        self._due: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._changed = threading.Condition()
        self._running = 0
        self._awaited = 0
        self._handled: dict[int, int] = {}
        self._unhandled: set[int] = set()
        self._numbers = itertools.count()

    def add_due(self, runnable: Callable[[], None]) -> None:
        """Adds what the next :meth:`run_due` runs. Any thread may call this."""
        self._due.put(runnable)

    def start(
        self, callable: Callable[[], Any], handler: Handler, delay_s: float, period_s: float | None
    ) -> None:
        """Starts the thread of a call; see :meth:`SplitEnumeratorContext.call_async`.

        Args:
            callable: Runs in the thread.
            handler: Gets the results in the planning thread.
            delay_s: The time (s) before the first call.
            period_s: The time (s) between two calls; ``None`` for a single call.

        Raises:
            ConnectorError: The thread cannot be started.
        """
        number = next(self._numbers)
        is_awaited = period_s is None and not delay_s

        def handle(value: Any, error: BaseException | None) -> None:
            self._awaited -= is_awaited
            with self._changed:
                self._unhandled.discard(number)
                self._changed.notify_all()
            self._handled[number] += 1
            if period_s is None:
                del self._handled[number]
            handler(value, error)

        def run() -> None:
            wait_s = delay_s
            while not self._closed.wait(wait_s):
                self._wait_until_handled(number)
                result = self._result(callable)
                if result is None:
                    return
                self._unhandled.add(number)
                self._due.put(partial(handle, *result))
                if period_s is None:
                    return
                wait_s = period_s

        self._awaited += is_awaited
        self._handled[number] = 0
        try:
            start(threading.Thread(target=run, name="flip27-call-async", daemon=True))
        except ConnectorError:
            self._awaited -= is_awaited
            del self._handled[number]
            raise

    def _wait_until_handled(self, number: int) -> None:
        """Returns after :meth:`close`, or when the last result was handled.

        So results do not pile up while Spark plans no batch.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed.is_set() or number not in self._unhandled)

    def _result(self, callable: Callable[[], Any]) -> tuple[Any, BaseException | None] | None:
        """Runs a callable and returns its value or its error; ``None`` after :meth:`close`."""
        with self._changed:
            if self._closed.is_set():
                return None
            self._running += 1
        try:
            return callable(), None
        except BaseException as error:  # noqa: BLE001 - the handler gets the error
            return None, error
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def handled(self) -> dict[int, int]:
        """Returns how often the handler of each unfinished call was run, by the call's number."""
        return dict(self._handled)

    def run_due(self) -> None:
        """Runs the handlers of the calls that have ended.

        It waits until all calls that are made only once and without a delay have ended.

        Raises:
            Exception: Any error of a handler.
        """
        while self._awaited or not self._due.empty():
            try:
                handle = self._due.get(timeout=_WARN_AFTER_S)
            except queue.Empty:
                log.warning("Planning waits for %d calls of call_async that have not returned", self._awaited)
                continue
            handle()

    def close(self) -> None:
        """Starts no further calls, and waits 0.5 s at most for the running calls, before their clients are closed."""
        self._closed.set()
        with self._changed:
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._running, _CLOSE_TIMEOUT_S)
