"""Fixtures of the tests with fake brokers: how long the planner's client waits."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from flip27_stream import exponential_backoff
from flip27_stream.connectors.kafka.client import answer_deadlines, calls, first_answer
from flip27_stream.connectors.kafka.connections import broker_connections
from flip27_stream.connectors.kafka.split import TopicPartition
from tests.connectors.kafka.support.fake_cluster_client import SECOND


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all waits of the client a fifth as long."""
    monkeypatch.setattr(answer_deadlines, "FULL_S", 1.0)
    monkeypatch.setattr(answer_deadlines, "_GLANCE_S", 0.05)
    monkeypatch.setattr(answer_deadlines, "_PROMPT_S", 0.2)
    monkeypatch.setattr(calls, "_SUSPICIOUS_S", 0.3)
    monkeypatch.setattr(first_answer, "_HEAD_START_S", 0.2)


@pytest.fixture
def unhurried(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes rounds wait for every answer, even on a very busy machine. The other waits are short."""
    monkeypatch.setattr(answer_deadlines, "FULL_S", 60.0)
    monkeypatch.setattr(answer_deadlines, "_GLANCE_S", 60.0)


@pytest.fixture
def try_first(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Returns a function that sets which server clients try first, by its place among the bootstrap servers. The
    others follow in turn. Otherwise the order is random.
    """

    def set_first(place: int) -> None:
        def turned(nodes: list[int], count: int) -> list[int]:
            assert count == len(nodes)
            return nodes[place:] + nodes[:place]

        monkeypatch.setattr(broker_connections, "random", SimpleNamespace(sample=turned))

    return set_first


@pytest.fixture
def no_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets backoffs grow without their random variation."""
    monkeypatch.setattr(exponential_backoff, "random", SimpleNamespace(uniform=lambda least, most: 1.0))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> dict[float, float]:
    """How long (s) each round may wait for the second partition, by the time at which the round begins."""
    noted: dict[float, float] = {}
    seconds = answer_deadlines.AnswerDeadlines.seconds

    def note(
        deadlines: answer_deadlines.AnswerDeadlines[TopicPartition],
        tp: TopicPartition,
        now: float,
        *,
        at_once: bool,
    ) -> float:
        allowed = seconds(deadlines, tp, now, at_once=at_once)
        if tp == SECOND:
            noted.setdefault(now, allowed)
        return allowed

    monkeypatch.setattr(answer_deadlines.AnswerDeadlines, "seconds", note)
    return noted
