"""How long a source that has nothing to read delays its query, and how much processor time it takes. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from flip27_stream.spark.planning.idle_backoff import IdleBackoff
from tests.spark.support.driven_query import DrivenQuery
from tests.support.module_time import replace_time

POLL_S = 0.011


@dataclass
class Machine:
    """The clock and the processor time of a machine (s). The clock also advances while a process sleeps or
    computes.
    """

    now: float = 1000.0
    cpu: float = 2.0
    slept: float = 0.0

    def computes(self, seconds: float) -> None:
        self.now += seconds
        self.cpu += seconds

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept = seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    replace_time(
        monkeypatch,
        "flip27_stream.spark.planning.idle_backoff",
        monotonic=lambda: made.now,
        process_time=lambda: made.cpu,
        sleep=made.sleep,
    )
    return made


def asked(machine: Machine, pace: IdleBackoff, *, plan_s: float, answer_s: float, soon: bool = False) -> bool:
    """Lets Spark ask once, and get the answer that there is nothing to read. Returns whether a plan was made for
    it.
    """
    machine.computes(answer_s)
    planned = pace.is_due()
    if planned:
        machine.computes(plan_s)
        pace.record_empty_plan(plan_s, comes_soon=soon)
    pace.delay_answer()
    return planned


@pytest.mark.parametrize(("plan_s", "answer_s"), [(0.005, 0.0003), (0.1, 0.0003), (0.1, 0.005)])
def test_an_idle_query_takes_a_small_part_of_a_processor(
    machine: Machine, plan_s: float, answer_s: float
) -> None:
    pace = IdleBackoff(10.0)
    for _ in range(100):
        asked(machine, pace, plan_s=plan_s, answer_s=answer_s)
        machine.now += POLL_S
    began, cpu = machine.now, machine.cpu
    while machine.now < began + 60:
        asked(machine, pace, plan_s=plan_s, answer_s=answer_s)
        machine.now += POLL_S
    assert (machine.cpu - cpu) / (machine.now - began) < 0.09


@pytest.mark.parametrize("answer_s", [0.0003, 0.005])
def test_an_idle_source_does_not_delay_batches_of_another_one(machine: Machine, answer_s: float) -> None:
    """An idle source delays the batches of another source by less than 6 ms, whatever an answer costs and however
    long the batches take.
    """
    pace = IdleBackoff(1.0)
    for batch in range(100):
        asked(machine, pace, plan_s=0.005, answer_s=answer_s)
        assert machine.slept < 0.006, batch
        pace.record_batch()
        machine.now += 0.03
    for _ in range(100):
        asked(machine, pace, plan_s=0.005, answer_s=answer_s)
        assert machine.slept < 0.006
        machine.now += 0.2


def test_records_after_long_idleness_are_found_in_time(machine: Machine) -> None:
    """The time between two plans that find nothing is bounded, so that new records are found in time."""
    pace, last = IdleBackoff(1.0), machine.now
    for _ in range(1000):
        planned = asked(machine, pace, plan_s=0.5, answer_s=0.0003)
        assert machine.now - last < 1.6
        last = machine.now if planned else last
        machine.now += POLL_S


def test_a_trigger_plans_whenever_it_fires(machine: Machine) -> None:
    """With a trigger interval each trigger makes a plan. The user's interval bounds the cost of planning, since Spark
    does not ask again at once.
    """
    pace = IdleBackoff(1.0)
    for _ in range(20):
        assert asked(machine, pace, plan_s=0.2, answer_s=0.0003)
        machine.now += 0.5


def test_pauses_are_short_while_records_are_likely(machine: Machine) -> None:
    pace, planned = IdleBackoff(1.0), 0
    for _ in range(100):
        planned += asked(machine, pace, plan_s=0.05, answer_s=0.0003, soon=True)
        machine.now += POLL_S
    assert planned == 100


def test_a_finished_source_answers_at_once(make: Callable[..., DrivenQuery], machine: Machine) -> None:
    """A finished source answers without a delay. Otherwise it would delay every batch of the other sources of its
    query by a second.
    """
    query = make({"a": [100]}, aligned=False)
    query.world.finished.add("a")
    assert query.step(10) == [("a", 100)]
    for subtask in query.coordinator._context.registered_readers():
        query.coordinator._context.signal_no_more_splits(subtask)
    query.coordinator._backoff = IdleBackoff(1.0)
    began = machine.now
    for _ in range(20):
        assert query.step(10) is None
    assert query.coordinator._finished
    assert machine.now - began < 1
