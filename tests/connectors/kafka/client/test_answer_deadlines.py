"""Deadlines of answers: how long rounds wait for brokers, computed without a clock."""

from __future__ import annotations

import pytest

from flip27_stream.connectors.kafka.client.answer_deadlines import AnswerDeadlines
from flip27_stream.connectors.kafka.client.backoff import Backoff

MOST_S = 30.0


class Rounds:
    """Rounds, one a second, with one broker that answers after ``latency`` seconds, or never if it is ``None``."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.deadlines: AnswerDeadlines[str] = AnswerDeadlines(MOST_S)
        self.now, self.at_once = 1000.0, at_once

    def run(self, latency: float | None) -> float:
        """Runs one more round, and returns how many seconds it waits."""
        allowed = self.deadlines.seconds("broker", self.now, at_once=self.at_once)
        in_time = latency is not None and latency <= allowed
        waited = latency if in_time and latency is not None else allowed
        self.now += waited
        if not in_time:
            self.deadlines.gave_up("broker", allowed, self.now)
        if latency is not None:  # a late answer arrives before the next round
            self.deadlines.answered(["broker"], latency)
        if in_time:
            self.deadlines.waited(["broker"], waited, self.now)
        self.now += 1
        return waited


def test_a_prompt_broker_gets_the_whole_wait() -> None:
    rounds = Rounds()
    rounds.run(None)
    rounds.run(0.3)
    assert rounds.deadlines.seconds("broker", rounds.now, at_once=False) == 5


def test_a_silent_broker_costs_the_other_brokers_little_time() -> None:
    """A silent broker costs a full wait, then short waits, and full waits that come ever more seldom."""
    rounds = Rounds()
    waits = [rounds.run(None) for _ in range(200)]
    assert waits[0] == 5
    assert max(waits[1:7]) < 1
    assert sum(waits) < 0.3 * (rounds.now - 1000)


def test_a_broker_that_is_silent_within_one_plan_costs_short_waits_only() -> None:
    rounds = Rounds(at_once=True)
    assert [rounds.run(None) for _ in range(50)] == [5] + [0.25] * 49


@pytest.mark.parametrize("latency", [2.0, 4.0, 6.0, 12.0])
def test_a_slow_broker_is_heard_and_does_not_hold_every_round(latency: float) -> None:
    rounds = Rounds()
    waits = [rounds.run(latency) for _ in range(40)]
    assert sum(wait == min(latency, 5) for wait in waits) >= 6
    assert sum(wait < 1.5 for wait in waits) >= 28


@pytest.mark.parametrize("latency", [6.0, 12.0])
def test_rare_rounds_wait_long_enough_for_a_slow_broker(latency: float) -> None:
    """With a trigger every ten minutes no late answer of the round before is recent enough, so a round
    waits for a slow broker.
    """
    rounds = Rounds()
    waits = []
    for _ in range(4):
        waits.append(rounds.run(latency))
        rounds.now += 600
    assert waits[1:] == [latency] * 3


@pytest.mark.parametrize("latency", [2.0, 4.0, 6.0, 12.0])
def test_a_slow_broker_is_waited_for_where_a_late_answer_is_useless(latency: float) -> None:
    rounds = Rounds(at_once=True)
    waits = [rounds.run(latency) for _ in range(5)]
    assert waits[1:] == [latency] * 4


def test_rare_rounds_have_the_whole_wait() -> None:
    """With a trigger every ten minutes each round waits in full. A short wait serves a query with
    a round each second.
    """
    rounds = Rounds()
    for _ in range(3):
        assert rounds.run(None) == 5
        rounds.now += 600


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("latencies", [{}, {"a": 0.5}, {"a": None}, {"a": 8.0}, {"a": None, "b": 8.0}])
def test_a_round_waits_for_the_partition_that_gets_the_most_time(
    latencies: dict[str, float | None], at_once: bool
) -> None:
    """A request about several partitions waits as long as the partition with the longest wait needs. The time for
    which a broker may hold back its answer is added to full waits only.
    """
    deadlines: AnswerDeadlines[str] = AnswerDeadlines(MOST_S)
    for key, latency in latencies.items():
        deadlines.gave_up(key, 5.0, 100.0)
        if latency is not None:
            deadlines.answered([key], latency)
    keys = ["a", "b", "c"]
    for some in (keys[:1], keys[:2], keys):
        times = {key: deadlines.seconds(key, 103.0, at_once=at_once) for key in some}
        held = max(t + 10 * (t >= deadlines.full(key)) for key, t in times.items())
        assert deadlines.longest(some, 103.0, at_once=at_once) == max(times.values())
        assert deadlines.longest(some, 103.0, at_once=at_once, held_s=10) == held
        assert deadlines.greatest_latency(some) == max(map(deadlines.latency, some))
    assert deadlines.longest([], 103.0, at_once=at_once) == 0
    assert deadlines.greatest_latency([]) == 0


@pytest.mark.usefixtures("no_jitter")
def test_pauses_between_tries_grow_up_to_a_second() -> None:
    """The first try is due at once, and later ones after growing pauses up to a second. After a quiet time the
    pause is short again.
    """
    backoff, now = Backoff(0.05), 100.0
    delays = []
    for _ in range(8):
        assert backoff.is_due(now)
        backoff.tried(now)
        assert not backoff.is_due(now)
        delays.append(round(backoff.next_at - now, 3))
        now = backoff.next_at
    assert delays == [0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1]
    backoff.tried(now + 5)
    assert round(backoff.next_at - now - 5, 3) == 0.05
