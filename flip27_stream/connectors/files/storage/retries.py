"""Retries of listings that fail with a transient error, for a bounded time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event
from typing import ClassVar, TypeVar

from flip27_stream.errors import UnreachableError

log = logging.getLogger(__name__)

T = TypeVar("T")


class Retries:
    """Retries a listing of files or of a log that fails with :class:`UnreachableError`, which can be transient.

    Every other error is raised at once: refused access, an unsupported feature or schema, a replaced table, a log that
    does not decode. The retries run in the thread of the listing. So the time also counts while Spark runs a long
    micro-batch, and does not depend on ``source.monitor-interval``.

    Attributes:
        time_limit_s: The time (s) for which a listing is retried after its first failure, at least once. The first
            attempt does not count: the process may have been suspended while it ran.
        pause_s: The time (s) between two attempts.
    """

    time_limit_s: ClassVar[float] = 60.0
    pause_s: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self._closed = Event()

    def __call__(self, look: Callable[[], T]) -> T | None:
        """Returns the result of ``look``, or ``None`` after :meth:`close`.

        Raises:
            UnreachableError: All attempts in ``time_limit_s`` failed. The message has the cause.
            Exception: Any other error of ``look``.
        """
        failing_since: float | None = None
        while True:
            try:
                return look()
            except UnreachableError as error:
                now = time.monotonic()
                if failing_since is None:
                    failing_since = now
                    log.warning("Looking for new files failed; it is tried again: %s", error)
                else:
                    self._check_time_limit(error, now - failing_since)
            if self._closed.wait(self.pause_s):
                return None

    def close(self) -> None:
        """Ends all retries."""
        self._closed.set()

    def _check_time_limit(self, error: UnreachableError, failing_s: float) -> None:
        if failing_s >= self.time_limit_s:
            raise UnreachableError(
                f"{error} Looking for new files was tried repeatedly for {failing_s:.0f} s."
            ) from error
