"""Answers that are lost when a topic is unloaded. The client is pulsar-client's in name only."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flip27_stream.connectors.pulsar.client.client import PulsarClient
from flip27_stream.connectors.pulsar.client.session import shared_client
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.connectors.pulsar.positions import position_at
from flip27_stream.errors import UnreachableError

pulsar = pytest.importorskip("pulsar")

TIMEOUT_MS = 4000


class LosingClient:
    """A client whose first call waits in vain, as long as its time limit says, and whose later calls succeed."""

    def __init__(self, service_url: str, operation_timeout_seconds: int, **_: Any) -> None:
        self._timeout_s = operation_timeout_seconds
        self._loses = True
        self.subscriptions: set[str] = set()

    def _answer(self) -> None:
        if self._loses:
            self._loses = False
            time.sleep(self._timeout_s)
            raise pulsar.Timeout("nothing came")

    def create_reader(self, topic: str, start: Any, **_: Any) -> str:
        self._answer()
        return f"reader of {topic}"

    def subscribe(self, topic: str, subscription: str) -> LosingConsumer:
        self.subscriptions.add(subscription)
        return LosingConsumer(self, subscription)


class LosingConsumer:
    def __init__(self, client: LosingClient, subscription: str) -> None:
        self._client, self._subscription = client, subscription

    def get_last_message_id(self) -> Any:
        return pulsar.MessageId(-1, 7, 3, -1)

    def unsubscribe(self) -> None:
        self._client._answer()
        self._client.subscriptions.discard(self._subscription)

    def close(self) -> None:
        """Does nothing."""


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> PulsarConnectionOptions:
    monkeypatch.setattr(pulsar, "Client", LosingClient)
    return PulsarConnectionOptions("pulsar://losing:1", operation_timeout_ms=TIMEOUT_MS)


def test_a_call_whose_answer_is_lost_is_made_again(options: PulsarConnectionOptions) -> None:
    assert PulsarClient(options).open("t", 0, 1) == "reader of t"


def test_the_subscription_that_asks_for_the_last_entry_is_always_removed(
    options: PulsarConnectionOptions,
) -> None:
    """It is durable, so one that stays keeps the messages of the topic for ever."""
    other = PulsarConnectionOptions("pulsar://losing:2", operation_timeout_ms=options.operation_timeout_ms)
    assert PulsarClient(other).last_entry("t") == position_at(7, 3)
    assert not shared_client(other).subscriptions


@pytest.mark.usefixtures("options")
def test_the_subscription_is_removed_although_no_attempt_returned_the_last_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unanswered(self: LosingConsumer) -> Any:
        raise pulsar.Timeout("nothing came")

    monkeypatch.setattr(LosingConsumer, "get_last_message_id", unanswered)
    monkeypatch.setattr(LosingClient, "_answer", lambda self: None)
    other = PulsarConnectionOptions("pulsar://losing:3", operation_timeout_ms=300)
    with pytest.raises(UnreachableError):
        PulsarClient(other).last_entry("t")
    assert not shared_client(other).subscriptions
