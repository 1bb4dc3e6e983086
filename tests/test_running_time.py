"""Tests of waits during which the process is suspended: what it waits for still gets its time when the process goes
on.
"""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from flip27_stream import running_time
from flip27_stream.connectors.kafka.client import first_answer
from flip27_stream.connectors.kafka.client.first_answer import FirstAnswer
from flip27_stream.errors import ConnectorError
from flip27_stream.reader import drive
from flip27_stream.running_time import turns
from tests.support.module_time import replace_time


class SettableClock:
    """A monotonic clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SettableClock:
    clock = SettableClock()
    replace_time(monkeypatch, running_time.__name__, monotonic=clock)
    return clock


def test_the_durations_of_turns_add_up(clock: SettableClock) -> None:
    began = clock.now
    for turn_s in turns(2.5):
        assert turn_s <= 1
        clock.now += min(turn_s, 0.25)
    assert clock.now - began == pytest.approx(2.5, abs=0.01)


def test_a_turn_in_which_the_process_was_suspended_counts_as_a_turn(clock: SettableClock) -> None:
    waited = []
    for turn_s in turns(3):
        waited.append(turn_s)
        clock.now += 1000
    assert waited == [1, 1, 1]


def test_a_reader_of_a_suspended_worker_does_not_time_out(
    clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader in a suspended worker does not time out, since its fetcher goes on only when the worker does."""
    available: Future[None] = Future()

    def suspended(futures: list[Future[None]], timeout_s: float) -> Any:
        clock.now += 1000
        found = SimpleNamespace(done={one for one in futures if one.done()})
        if not found.done:
            available.set_result(None)
        return found

    futures = SimpleNamespace(wait=suspended, Future=Future)
    monkeypatch.setattr(drive, "concurrent", SimpleNamespace(futures=futures))
    reader: Any = SimpleNamespace(is_available=lambda: available)
    drive._wait(reader, 60, lambda: "all")


def test_a_reader_that_never_has_records_times_out() -> None:
    reader: Any = SimpleNamespace(is_available=Future)
    with pytest.raises(ConnectorError, match=r"no records for 0\.1 s .* Not read to the end: all\."):
        drive._wait(reader, 0.1, lambda: "all")


def test_metadata_that_came_during_a_suspension_is_used(
    clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = SimpleNamespace(answer=None, error=None, is_done=False, node=1)

    def wait(*_: Any) -> None:
        clock.now += 1000
        call.answer = "brokers"

    monkeypatch.setattr(first_answer, "Call", lambda *_: call)
    monkeypatch.setattr(first_answer, "wait_for_answers", wait)
    replace_time(monkeypatch, first_answer.__name__, monotonic=clock)
    question = FirstAnswer(SimpleNamespace(nodes=lambda: [1]), lambda: None, lambda *_: True)  # type: ignore[arg-type]
    assert question.get(60) == "brokers"


def test_the_last_turn_is_no_longer_than_the_time_left(clock: SettableClock) -> None:
    waited = []
    for turn_s in turns(2.25):
        waited.append(turn_s)
        clock.now += turn_s
    assert waited == [1, 1, 0.25]
