"""The discovery of splits: when a query starts, and then periodically."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flip27_stream.api import SplitEnumeratorContext
from flip27_stream.errors import AuthenticationError, ConnectorError

FoundT = TypeVar("FoundT")


class SplitDiscovery(Generic[FoundT]):
    """Looks for splits in worker threads, and takes in what was found in the planning thread.

    The first plan waits for the initial discovery. An error of it fails the query. A later discovery that fails is
    logged and made again after the period, unless the system refused the credentials. The result of one that is done
    before the initial discovery is ignored.

    Args:
        context: The context of the enumerator.
        take_in: Called with the result of each discovery.
        log: Logs the failures of later discoveries.
        things: The name of the discovered things, in the plural, for messages.
        take_in_first: Is called instead of ``take_in`` with the result of the initial discovery.
        failed: The beginning of the error message if the initial discovery fails.
    """

    def __init__(
        self,
        context: SplitEnumeratorContext[Any],
        take_in: Callable[[FoundT], None],
        log: logging.Logger,
        things: str,
        *,
        take_in_first: Callable[[FoundT], None] | None = None,
        failed: str = "",
    ) -> None:
        self._context = context
        self._take_in = take_in
        self._log = log
        self._things = things
        self._take_in_first = take_in_first or take_in
        self._failed = failed
        self._is_initial_done = False
        self.frozen = False
        """Whether the results of later discoveries are ignored, because the ends of the run are fixed."""

    def start(
        self,
        discover: Callable[[], FoundT],
        period_ms: int | None,
        discover_again: Callable[[], FoundT] | None = None,
    ) -> None:
        """Starts the discoveries.

        Args:
            discover: Returns the existing things; it runs in a worker thread.
            period_ms: The time (ms) between two discoveries; ``None`` for one discovery only.
            discover_again: Is called instead of ``discover`` after the initial discovery.
        """
        self._context.call_async(discover, self._on_initial_discovery)
        if period_ms is not None:
            again = discover_again or discover
            self._context.call_async(
                again, self._on_discovery, initial_delay_ms=period_ms, period_ms=period_ms
            )

    def _on_initial_discovery(self, found: FoundT, error: BaseException | None) -> None:
        if isinstance(error, ConnectorError) and self._failed:
            raise type(error)(f"{self._failed} {error}") from error
        if error is not None:
            raise error
        self._is_initial_done = True
        self._take_in_first(found)

    def _on_discovery(self, found: FoundT, error: BaseException | None) -> None:
        if not self._is_initial_done:
            return  # The initial discovery decides how the query starts, or fails.
        if isinstance(error, ConnectorError) and not isinstance(error, AuthenticationError):
            self._log.warning("Looking for new %s failed; it is tried again: %s", self._things, error)
        elif error is not None:
            raise error
        elif not self.frozen:
            self._take_in(found)
