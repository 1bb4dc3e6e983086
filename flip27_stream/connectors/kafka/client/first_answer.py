"""Sends one request to several brokers, one after the other, and takes the first response."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flip27_stream.connectors.kafka.client.calls import Call, wait_for_answers
from flip27_stream.connectors.kafka.connections.broker_connections import BrokerConnections
from flip27_stream.errors import AuthenticationError
from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.running_time import turns

_HEAD_START_S = 1.0
_PAUSE_S = 0.02
_MOST_PAUSE_S = 0.5


class FirstAnswer:
    """One request that is sent to many brokers. The first response counts.

    Each broker has up to a second to answer before the next one is asked, too. Responses of all brokers are accepted
    until the time limit. So a broker that hangs delays the result by a second at most, and a slow broker can still
    answer.

    Args:
        connections: The connections to the brokers.
        request: Makes the request.
        accepts: Returns whether the response of a broker (id, response) can be used; otherwise the broker has failed.
    """

    def __init__(
        self,
        connections: BrokerConnections,
        request: Callable[[], Any],
        accepts: Callable[[int, Any], bool],
    ) -> None:
        self._connections = connections
        self._request = request
        self._accepts = accepts
        self._repeats = 0
        self._calls: list[Call] = []
        self._waiting = connections.nodes()
        self._untried = set(self._waiting)

    def get(self, seconds: float, when_all_failed: Callable[[], None] = lambda: None) -> Any | None:
        """Returns the first response; ``None`` if no response came in time. A broker that fails is asked again.

        Args:
            seconds: The time limit.
            when_all_failed: Called once, when each broker has failed and no request is unanswered.

        Raises:
            AuthenticationError: A broker refuses this client, or its certificate is not trusted.
        """
        head_start = min(_HEAD_START_S, seconds / max(1, len(self._waiting)))
        next_at, has_called = time.monotonic(), False
        for turn_s in turns(seconds):
            now, asked = time.monotonic(), len(self._calls)
            if (response := self._response()) is not None:
                return response
            if len(self._calls) < asked:
                next_at = min(next_at, now + doubled_pause(_PAUSE_S, _MOST_PAUSE_S, self._repeats))
            if not (self._calls or self._untried or has_called):
                has_called = True
                when_all_failed()
            if now >= next_at and self._waiting:
                self._calls.append(Call(self._connections, self._waiting.pop(0), self._request))
                next_at = now + head_start
            until = now + turn_s
            wait_for_answers(self._connections, self._calls, min(next_at, until) if self._waiting else until)
        return None

    def _response(self) -> Any | None:
        for call in list(self._calls):
            if call.answer is not None and self._accepts(call.node, call.answer):
                return call.answer
            if isinstance(call.error, AuthenticationError):
                raise call.error
            if call.is_done:
                self._repeats = 0 if call.node in self._untried else self._repeats + 1
                self._calls.remove(call)
                self._untried.discard(call.node)
                self._waiting.append(call.node)
        return None
