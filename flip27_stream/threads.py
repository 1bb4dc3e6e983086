"""Threads where the system may have no more of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from flip27_stream.errors import ConnectorError

T = TypeVar("T")
R = TypeVar("R")


def start(thread: threading.Thread) -> None:
    """Start ``thread``.

    Raises:
        ConnectorError: the process, its user or its container has as many threads as it may have.
    """
    try:
        thread.start()
    except RuntimeError as e:
        raise ConnectorError(
            f"Thread '{thread.name}' cannot be started: {e}. This process, its user or its container has as many as it "
            "may have: raise that limit (ulimit -u, or the limit of pids of the container)."
        ) from e


def of_each(work: Callable[[T], R], things: Sequence[T], at_once: int) -> list[R]:
    """The results of ``work`` on each of ``things``, in their order; where no thread can be started, one by one.

    Args:
        work: what waits for something; it may be done twice on a thing.
        things: what to work on.
        at_once: on so many of them at the same time.

    Raises:
        Exception: the first that ``work`` raises.
    """
    if len(things) <= 1:
        return [work(thing) for thing in things]
    futures: list[Future[R]] = []
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for thing in things:
                futures.append(pool.submit(work, thing))  # noqa: PERF401 - those before a failure are kept
        except RuntimeError:  # no thread; what was submitted is done by those that there are
            pass
        done = [future.result() for future in futures]
    return done + [work(thing) for thing in things[len(done) :]]


class CallPool:
    """Threads that make calls at the same time, each call with a name.

    Args:
        threads: how many calls are made at the same time.
        prefix: how the names of the threads begin.
    """

    def __init__(self, threads: int, prefix: str) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=prefix)

    def results(self, calls: Mapping[str, Callable[[], R]]) -> dict[str, R]:
        """Returns the results of all calls by name. Raises the first error."""
        futures = {name: self._threads.submit(call) for name, call in calls.items()}
        return {name: future.result() for name, future in futures.items()}

    def close(self) -> None:
        """Cancels the calls that have not begun. It waits for no call."""
        self._threads.shutdown(wait=False, cancel_futures=True)
