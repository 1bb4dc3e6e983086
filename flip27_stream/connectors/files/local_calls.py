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
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

from pyarrow import NativeFile
from pyarrow.fs import FileSystem, LocalFileSystem

from flip27_stream.errors import ConnectorError, UnreachableError
from flip27_stream.running_time import turns
from flip27_stream.threads import start

T = TypeVar("T")
R = TypeVar("R")

Note = Callable[[object], None]
"""The type of a function that is called with anything that a call finds, as a sign that the call is not blocked."""


_NO_ANSWER = "no answer came"
_MOST_IDLE = 8
_idle: deque[SimpleQueue[Callable[[], None]]] = deque()
"""The queues of threads that wait for work."""

os.register_at_fork(after_in_child=_idle.clear)  # threads do not come along


class LocalCall(Generic[T]):
    """A call in another thread, which can be waited for again if it is blocked. The thread cannot be stopped.

    Calls with a time limit (:func:`answered`) that it makes itself run in the same thread, one after the other.

    Attributes:
        time_limit_s: The time (s) for which a call may find nothing before it counts as blocked.
        blocking: A description of what can be blocked now; ``None`` while nothing can.

    Args:
        work: The function that makes the call.
        blocking: The description of the call itself; ``None`` if only calls that it makes can be blocked.

    Raises:
        ConnectorError: The thread cannot be started.
    """

    time_limit_s: ClassVar[float] = 120.0

    def __init__(self, work: Callable[[Note], T], blocking: str | None) -> None:
        self.blocking = blocking
        self._work = work
        self._changed = threading.Condition()
        self._count = 0
        self._abandoned = False
        self._outcome: Callable[[], T] | None = None
        _idle_thread().put(self._run)

    def wait(self) -> Callable[[], T] | None:
        """Waits for the end of the call. Returns a function that returns or raises the outcome of the call.

        The result is ``None`` if the call was blocked and has found nothing for :attr:`time_limit_s`.
        """
        with self._changed:
            while self._outcome is None:
                before = self._count
                for turn_s in turns(self.time_limit_s):
                    self._changed.wait(turn_s)
                    if self._outcome is not None or self._count != before or self.blocking is None:
                        break
                else:
                    return None
            return self._outcome

    def result(self) -> T:
        """Waits for the end of the call and returns its result. If the call is blocked, it is given up.

        Raises:
            UnreachableError: The call is blocked.
            Exception: Any error that the call raises.
        """
        while (outcome := self.wait()) is None:
            if (what := self.blocking) is not None:
                self._abandoned = True
                raise blocked(what, _NO_ANSWER)
        return outcome()

    def inside(self, work: Callable[[], R], what: str) -> R:
        """Returns the result of ``work``, which is a part of this call and can be blocked.

        Raises:
            UnreachableError: This call was given up, so nobody waits for the result.
        """
        if self._abandoned:
            raise blocked(what, _NO_ANSWER)
        before, self.blocking = self.blocking, what
        self._note(what)
        try:
            return work()
        finally:
            self.blocking = before
            self._note(what)

    def _run(self) -> None:
        outcome: Callable[[], T]
        _here.call = self
        try:
            outcome = _returning(self._work(self._note))
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            outcome = _raising(error)
        _here.call = None
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _note(self, _: object) -> None:
        self._count += 1


class _Here(threading.local):
    """The call that runs in this thread; ``None`` in other threads than those of this module."""

    call: LocalCall[Any] | None = None


_here = _Here()


def _idle_thread() -> SimpleQueue[Callable[[], None]]:
    """Returns the queue of a thread that has no work.

    Raises:
        ConnectorError: No thread is idle, and no further thread can be started.
    """
    try:
        return _idle.pop()
    except IndexError:
        queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        start(threading.Thread(target=_serve, args=(queue,), name="flip27-files", daemon=True))
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
    if _here.call is not None:
        return _here.call.inside(work, what)
    return _in_another_thread(work, what)


def in_one_thread(work: Callable[[], T]) -> T:
    """Returns the result of ``work``, which makes many calls with a time limit, in one other thread for all of them.

    To hand over each call takes longer than to open a file. Between the calls, ``work`` has no time limit.

    Raises:
        UnreachableError: One of the calls is blocked.
        Exception: Any error that ``work`` raises.
    """
    return _in_another_thread(work, None)


def _in_another_thread(work: Callable[[], T], blocking: str | None) -> T:
    try:
        call = LocalCall(lambda _: work(), blocking)
    except ConnectorError:
        return work()
    return call.result()


def blocked(what: str, how: str) -> UnreachableError:
    """Returns the error for a call that is blocked.

    Args:
        what: A description of the call.
        how: A description of its progress.
    """
    return UnreachableError(
        f"{what} hangs: {how} for {LocalCall.time_limit_s:g} s. Check that the file system answers, and its mount."
    )


def open_file(fs: FileSystem, path: str) -> NativeFile:
    """Returns the opened file. The last byte of a local file is read, too, to check that the mount answers.

    Raises:
        UnreachableError: The local file system does not answer.
        OSError: The file cannot be opened.
    """
    if not isinstance(fs, LocalFileSystem):
        return fs.open_input_file(path)

    def opened() -> NativeFile:
        file = fs.open_input_file(path)
        file.read_at(1, max(file.size() - 1, 0))
        file.seek(0)
        return file

    return answered(opened, f"Opening {path}")


def _returning(found: T) -> Callable[[], T]:
    return lambda: found


def _raising(error: BaseException) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise error

    return fail
