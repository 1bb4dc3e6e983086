"""Requests whose answers are waited for, also where the network has cut a connection without a word."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from flip27_stream.connectors.kafka.client.broker_connections import BrokerConnections
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import AuthenticationError

_SUSPICIOUS_S = 1.5

Question = tuple[TopicPartition, int, bool]
"""Of ListOffsets: partition, timestamp or marker, and isolation."""


class Call:
    """One request to one broker.

    Where the broker sends nothing for 1.5 s, and then for 3 s and so on, the request goes out once more, over a new
    connection: firewalls and load balancers drop idle connections silently. The first answer counts.

    Attributes:
        node: the broker.
        sent: when it was sent, in monotonic seconds.

    Args:
        request: makes the request; it is sent when the call is made.
        usual_s: how long an answer is known to take, in seconds.
        answered: is told how long the answer took, in seconds, when it comes, be it long after the round.
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
        """The response; ``None`` while there is none."""
        return self._answer

    @property
    def error(self) -> BaseException | None:
        """The reason that there will be no answer; ``None`` while an answer is possible or has come."""
        errors = [future.exception for future in self._futures]
        refusal = next((error for error in errors if isinstance(error, AuthenticationError)), None)
        return refusal or (errors[0] if all(future.failed() for future in self._futures) else None)

    @property
    def is_done(self) -> bool:
        return self._answer is not None or self.error is not None

    @property
    def suspicious_at(self) -> float:
        """When to ask again, in monotonic seconds."""
        heard = max(self._asked_at, self._connections.last_heard(self.node))
        return heard + self._suspicious_s

    def ask_again(self) -> None:
        """Send the request once more, over a connection made since."""
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


class CallsUnderWay:
    """Calls that rounds did not wait for to the end.

    A broker that owes an answer gets no other request, so that requests do not pile up at a broker that is stuck.
    """

    def __init__(self) -> None:
        self._calls: dict[Call, set[Question]] = {}

    def owed_by(self, node: int) -> list[Call]:
        """The calls to a broker that are not answered."""
        return [call for call in self._calls if call.node == node and not call.is_done]

    def keep(self, call: Call, questions: Iterable[Question] = ()) -> None:
        """Keep a call, whose answers to these questions may be asked for later."""
        self._calls[call] = set(questions)

    def take(self, question: Question) -> Call | None:
        """The call that asks this, which then is no longer kept for it."""
        for call, questions in self._calls.items():
            if question in questions:
                questions.discard(question)
                return call
        return None

    def prune(self, oldest: float) -> None:
        """Forget calls that no round waits for any more, and calls sent before ``oldest`` (monotonic seconds)."""
        self._calls = {
            call: questions
            for call, questions in self._calls.items()
            if not call.is_done or (questions and call.error is None and call.sent >= oldest)
        }


def wait_for_news(connections: BrokerConnections, calls: Collection[Call], until: float) -> None:
    """Let requests and responses flow until something happens, but no longer than ``until`` (monotonic seconds)."""
    now = time.monotonic()
    next_at = until
    for call in calls:
        if not call.is_done and call.suspicious_at <= now:
            call.ask_again()
        next_at = min(next_at, now if call.is_done else call.suspicious_at)
    connections.wait(next_at - now)
