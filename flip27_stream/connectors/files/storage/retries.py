"""Retries of looks that fail with an error that may pass, for a bounded time."""

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
    """Retries of a look that fails with :class:`UnreachableError`, an error that may pass by itself.

    Every other error is raised at once: a permission that is refused, a feature or a schema that cannot be read, a
    table that was made anew, a log that does not decode. It waits in the thread that looks, so the time counts also
    while Spark runs a long micro-batch, and does not depend on ``source.monitor-interval``.

    Attributes:
        patience_s: how long (s) a look is repeated after its first failure; an attempt that is under way then is the
            last.
        pause_s: how long (s) to wait between two attempts.
    """

    patience_s: ClassVar[float] = 60.0
    pause_s: ClassVar[float] = 1.0

    def __init__(self) -> None:
        self._closed = Event()

    def __call__(self, look: Callable[[], T]) -> T | None:
        """The result of ``look``; ``None`` after :meth:`close`.

        Raises:
            UnreachableError: it failed for ``patience_s``; the text has the cause.
            Exception: any other error of ``look``.
        """
        failing_since: float | None = None
        while True:
            began = time.monotonic()
            try:
                return look()
            except UnreachableError as error:
                if failing_since is None:
                    failing_since = began
                    log.warning("Looking for new files failed; it is tried again: %s", error)
                self._check_patience(error, time.monotonic() - failing_since)
            if self._closed.wait(self.pause_s):
                return None

    def close(self) -> None:
        """End all retries."""
        self._closed.set()

    def _check_patience(self, error: UnreachableError, failing_s: float) -> None:
        if failing_s >= self.patience_s:
            raise UnreachableError(
                f"{error} Looking for new files was tried again and again for {failing_s:.0f} s."
            ) from error
