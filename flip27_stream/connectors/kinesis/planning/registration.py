"""The registration of the consumers of a query (enhanced fan-out)."""

from __future__ import annotations

import logging
from typing import Any

from flip27_stream.api import SplitEnumeratorContext
from flip27_stream.connectors.kinesis.client.consumers import Consumers
from flip27_stream.errors import UnreachableError

log = logging.getLogger(__name__)


def keep_registered(context: SplitEnumeratorContext[Any], consumers: Consumers, period_ms: int) -> None:
    """Registers the consumers before the first plan, and checks them every ``period_ms``."""
    context.call_async(consumers.register, _on_first_registration)
    context.call_async(consumers.register, _on_registration, initial_delay_ms=period_ms, period_ms=period_ms)


def _on_first_registration(_: None, error: BaseException | None) -> None:
    if error is not None:
        raise error


def _on_registration(_: None, error: BaseException | None) -> None:
    """Raises ``error`` unless it is temporary; until the next check, tasks poll shards they cannot subscribe to."""
    if isinstance(error, UnreachableError):
        log.warning("The registration of consumers was not checked; it is tried again: %s", error)
    elif error is not None:
        raise error
