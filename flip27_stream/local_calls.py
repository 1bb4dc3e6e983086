"""Calls of the local file system with a time limit. A mount that does not answer blocks a system call for ever.

Object stores need no such limit: their clients have time-outs.

Threads are used again, since to start one takes longer than to open a file. A thread that is blocked is given up.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import ClassVar, Generic, NoReturn, TypeVar

from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.running_time import turns
from flip27_stream.threads import start

T = TypeVar("T")

Note = Callable[[object], None]
"""The type of a function that is called with anything that a call finds, as a sign that the call is not blocked."""


NO_ANSWER = "no answer came"
_MOST_IDLE = 8
_idle: deque[SimpleQueue[Callable[[], None]]] = deque()
"""The queues of threads that wait for work."""

os.register_at_fork(after_in_child=_idle.clear)  # threads do not come along


class LocalCall(Generic[T]):
    """A call in another thread, which can be waited for again if it is blocked. The thread cannot be stopped.

    Attributes:
        time_limit_s: The time (s) for which a call may find nothing before it counts as blocked.

    Args:
        work: The function that makes the call.

    Raises:
        ConnectorError: The thread cannot be started.
    """

    time_limit_s: ClassVar[float] = 120.0

    def __init__(self, work: Callable[[Note], T]) -> None:
        self._work = work
        self._changed = threading.Condition()
        self._count = 0
        self._outcome: Callable[[], T] | None = None
        _idle_thread().put(self._run)

    def wait(self) -> Callable[[], T] | None:
        """Waits for the end of the call. Returns a function that returns or raises the outcome of the call.

        The result is ``None`` if the call has found nothing for :attr:`time_limit_s`.
        """
        with self._changed:
            while self._outcome is None:
                before = self._count
                for turn_s in turns(self.time_limit_s):
                    self._changed.wait(turn_s)
                    if self._outcome is not None or self._count != before:
                        break
                else:
                    return None
            return self._outcome

    def _run(self) -> None:
        outcome: Callable[[], T]
        try:
            outcome = returning(self._work(self._note))
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            outcome = raising(error)
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _note(self, _: object) -> None:
        self._count += 1


def _idle_thread() -> SimpleQueue[Callable[[], None]]:
    """Returns the queue of a thread that has no work.

    Raises:
        ConnectorError: No thread is idle, and no further thread can be started.
    """
    try:
        return _idle.pop()
    except IndexError:
        queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        start(threading.Thread(target=_serve, args=(queue,), name="flip27-local-call", daemon=True))
        return queue


def _serve(queue: SimpleQueue[Callable[[], None]]) -> None:
    while True:
        queue.get()()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append(queue)


def answered(work: Callable[[], T], what: str) -> T:
    """Returns the result of ``work``, with a time limit, or without a limit if no thread can be started.

    Args:
        work: A function that calls the local file system.
        what: A description of the call, for the error.

    Raises:
        UnreachableError: The call is blocked.
        Exception: Any error that ``work`` raises.
    """
    try:
        call = LocalCall(lambda _: work())
    except ConnectorError:
        return work()
    outcome = call.wait()
    if outcome is None:
        raise blocked(what, NO_ANSWER)
    return outcome()


def blocked(what: str, how: str) -> UnreachableError:
    """Returns the error for a call that is blocked.

    Args:
        what: A description of the call.
        how: A description of its progress.
    """
    return UnreachableError(
        f"{what} hangs: {how} for {LocalCall.time_limit_s:g} s. Check that the file system answers, and its mount."
    )


def returning(found: T) -> Callable[[], T]:
    """Returns a function that returns ``found``."""
    return lambda: found


def raising(error: BaseException) -> Callable[[], NoReturn]:
    """Returns a function that raises ``error``."""

    def fail() -> NoReturn:
        raise error

    return fail
