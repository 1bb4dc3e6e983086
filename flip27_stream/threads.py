"""Starts threads, and reports or works around the system's limit on their number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from flip27_stream.errors import ConnectorError

T = TypeVar("T")
R = TypeVar("R")


def start(thread: threading.Thread) -> None:
    """Starts ``thread``.

    Raises:
        ConnectorError: The process, its user or its container already has the greatest number of threads allowed.
    """
    try:
        thread.start()
    except RuntimeError as e:
        raise _too_many_threads(thread.name, e) from e


def _too_many_threads(name: str, error: RuntimeError) -> ConnectorError:
    return ConnectorError(
        f"Thread '{name}' cannot be started: {error}. This process, its user or its container has reached its limit of "
        "threads: raise that limit (ulimit -u, or the limit of pids of the container)."
    )


def of_each(work: Callable[[T], R], things: Sequence[T], at_once: int) -> list[R]:
    """Returns the results of a function for several arguments, in their order. The calls are made in threads.

    If no thread can be started, the calls are made one after the other.

    Args:
        work: The function. It may be called twice with the same argument.
        things: The arguments.
        at_once: The greatest number of calls at the same time.

    Raises:
        Exception: The first error that ``work`` raises.
    """
    if len(things) <= 1:
        return [work(thing) for thing in things]
    futures: list[Future[R]] = []
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for thing in things:
                futures.append(pool.submit(work, thing))  # noqa: PERF401 - those before a failure are kept
        except RuntimeError:  # No further thread can be started. The threads that run make the calls.
            pass
        done = [future.result() for future in futures]
    return done + [work(thing) for thing in things[len(done) :]]


class CallPool:
    """Threads that make calls at the same time.

    Args:
        threads: How many calls are made at the same time.
        prefix: The beginning of the names of the threads.
    """

    def __init__(self, threads: int, prefix: str) -> None:
        self._prefix = prefix
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=prefix)

    def submit(self, call: Callable[[], R]) -> Future[R]:
        """Returns the future of a call.

        Raises:
            ConnectorError: No thread can be started. The call may be made nevertheless, after this error.
        """
        try:
            return self._threads.submit(call)
        except RuntimeError as e:
            raise _too_many_threads(self._prefix, e) from e

    def results(self, calls: Mapping[str, Callable[[], R]]) -> dict[str, R]:
        """Returns the results of all calls, by name.

        Raises:
            ConnectorError: No thread can be started.
            Exception: The first error of a call.
        """
        futures = {name: self.submit(call) for name, call in calls.items()}
        return {name: future.result() for name, future in futures.items()}

    def close(self) -> None:
        """Cancels the calls that have not begun. It waits for no call."""
        self._threads.shutdown(wait=False, cancel_futures=True)
