"""Requests that are sent again over a new connection if a connection is silent, and the wait for their responses."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from flip27_stream.connectors.kafka.connections.broker_connections import BrokerConnections
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import AuthenticationError

_SUSPICIOUS_S = 1.5

Question = tuple[TopicPartition, int, bool]
"""The key of a ListOffsets lookup: partition, timestamp (ms) or marker, and whether isolation is ``read_committed``."""


class Call:
    """One request to one broker, and its response.

    If the broker sends nothing for 1.5 s, or for twice as long as an answer usually takes, the request is sent again
    over a new connection; then again after twice that time, and so on. Firewalls and load balancers drop idle
    connections without telling either end. The first response counts.

    Args:
        connections: The connections to the brokers.
        node: The id of the broker.
        request: Makes the request; it is sent when the call is made.
        usual_s: The time that an answer usually takes, in seconds.
        answered: Called with the latency in seconds when the response comes, also after the end of the round.

    Attributes:
        node: The id of the broker.
        sent: The time at which the request was sent first, in monotonic seconds.
    """

    def __init__(
        self,
        connections: BrokerConnections,
        node: int,
        request: Callable[[], Any],
        usual_s: float = 0.0,
        answered: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.node, self.sent = node, time.monotonic()
        self._connections = connections
        self._request = request
        self._suspicious_s = max(_SUSPICIOUS_S, 2 * usual_s)
        self._asked_at = self.sent
        self._answered = answered
        self._answer: Any | None = None
        self._futures: list[Any] = []
        self._take(connections.send(node, request()))

    @property
    def answer(self) -> Any | None:
        """The response; ``None`` if it has not come yet."""
        return self._answer

    @property
    def error(self) -> BaseException | None:
        """The reason why no response will come; ``None`` if a response is still possible or has come."""
        errors = [future.exception for future in self._futures]
        refusal = next((error for error in errors if isinstance(error, AuthenticationError)), None)
        return refusal or (errors[0] if all(future.failed() for future in self._futures) else None)

    @property
    def is_done(self) -> bool:
        """Whether the response has come, or cannot come any more."""
        return self._answer is not None or self.error is not None

    @property
    def suspicious_at(self) -> float:
        """The time at which to send the request again if the broker stays silent, in monotonic seconds."""
        heard = max(self._asked_at, self._connections.last_heard(self.node))
        return heard + self._suspicious_s

    def ask_again(self) -> None:
        """Sends the request again, over a connection that was made after the last attempt."""
        future = self._connections.send_anew(self.node, self._request(), self._asked_at)
        self._asked_at = time.monotonic()
        self._suspicious_s *= 2
        if future is not None:
            future.add_callback(lambda _: self._connections.drop_former(self.node))
            self._take(future)

    def _take(self, future: Any) -> None:
        self._futures.append(future)
        future.add_callback(self._note, time.monotonic())

    def _note(self, sent: float, response: Any) -> None:
        if self._answer is None:
            self._answer = response
            self._answered(time.monotonic() - sent)


class CallsInFlight:
    """The calls that are unanswered at the end of their round.

    A broker with an unanswered request gets no other request, so that requests do not pile up at a broker that hangs.
    """

    def __init__(self) -> None:
        self._calls: dict[Call, set[Question]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def unanswered_by(self, node: int) -> list[Call]:
        """Returns the unanswered calls to a broker."""
        return [call for call in self._calls if call.node == node and not call.is_done]

    def keep(self, call: Call, questions: Iterable[Question] = ()) -> None:
        """Keeps a call. A later round may take its answers to ``questions``."""
        self._calls[call] = set(questions)

    def take(self, question: Question) -> Call | None:
        """Returns the call that asks ``question`` and removes it for that question; ``None`` if no call asks it."""
        for call, questions in self._calls.items():
            if question in questions:
                questions.discard(question)
                return call
        return None

    def prune(self, oldest: float) -> None:
        """Drops failed calls, answered calls without a question, and answered calls sent before ``oldest``.

        Args:
            oldest: A time in monotonic seconds.
        """
        self._calls = {
            call: questions
            for call, questions in self._calls.items()
            if not call.is_done or (questions and call.error is None and call.sent >= oldest)
        }


def wait_for_answers(connections: BrokerConnections, calls: Collection[Call], until: float) -> None:
    """Waits until something is sent or received, but not after ``until`` (monotonic seconds).

    Calls whose broker has been silent for too long are sent again.
    """
    now = time.monotonic()
    next_at = until
    for call in calls:
        if not call.is_done and call.suspicious_at <= now:
            call.ask_again()
        next_at = min(next_at, now if call.is_done else call.suspicious_at)
    connections.wait(next_at - now)
