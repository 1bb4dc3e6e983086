"""The clock of a query on machines that are suspended or paused, and its effect on idle splits. No JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from flip27_stream.spark.planning import query_clock as clock
from flip27_stream.spark.planning.query_clock import QueryClock
from flip27_stream.testing import wait_until
from flip27_stream.wall_clock import now_ms
from tests.spark.support.driven_query import DrivenQuery, states
from tests.support.module_time import replace_time

SECOND, HOUR = 1000, 3_600_000


@dataclass
class TwoClocks:
    """The two clocks of a machine (ms)."""

    wall: int = 1_700_000_000_000
    monotonic: int = 5000

    def passes(self, ms: int) -> None:
        self.wall += ms
        self.monotonic += ms

    def is_suspended(self, ms: int) -> None:
        """Lets the machine be suspended. Linux advances only the wall clock in that time."""
        self.wall += ms


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> TwoClocks:
    machine = TwoClocks()
    for module in ("flip27_stream.spark.planning.query_clock", "flip27_stream.wall_clock"):
        replace_time(
            monkeypatch,
            module,
            time_ns=lambda: machine.wall * 1_000_000,
            monotonic_ns=lambda: machine.monotonic * 1_000_000,
        )
    monkeypatch.setattr(clock, "_TICK_S", 3600)  # the tests read the clock themselves
    return machine


def begin(query: DrivenQuery, *, watched: bool = True) -> QueryClock:
    """Restarts the query as in a new process that has the machine's clocks. Returns the clock of the query."""
    query.restart()
    own = QueryClock(watched=watched)
    coordinator = query.coordinator
    coordinator._clock = coordinator._planner._clock = own  # type: ignore[attr-defined]
    coordinator._wall_clock = now_ms
    return own


@pytest.fixture
def query(make: Callable[..., DrivenQuery], machine: TwoClocks) -> DrivenQuery:
    """A query that holds split "ahead" back until split "silent" is idle, which takes more than 60 s."""
    ahead = [machine.wall - HOUR, machine.wall - 10]
    options = {"scan.watermark.idle_timeout": "60 s"}
    return make({"ahead": [*ahead], "silent": [ahead[0]]}, **options)


def test_a_suspension_does_not_move_the_stored_moment(query: DrivenQuery, machine: TwoClocks) -> None:
    """I9: after the machine was suspended, the stored moment since which a split is silent is right by the wall
    clock. The split does not turn idle too early in the next process.
    """
    own = begin(query)
    machine.is_suspended(HOUR)
    assert query.step() != []
    machine.passes(30 * SECOND)
    assert states(query) == {"ahead": "P", "silent": "A"}
    own.close()
    begin(query).close()
    assert states(query) == {"ahead": "P", "silent": "A"}
    own = begin(query)
    assert states(query)["silent"] == "A"
    run_for(own, machine, 31)
    assert states(query)["silent"] == "I", "30 s in one process and 31 s in the next"
    own.close()


def run_for(own: QueryClock, machine: TwoClocks, seconds: int) -> None:
    """Lets the process run for some seconds. It reads its clock each second."""
    for _ in range(seconds):
        machine.passes(SECOND)
        own()


def test_the_stored_moment_counts_in_the_next_process(query: DrivenQuery, machine: TwoClocks) -> None:
    """Rule 9: the time since the stored moment counts in the next process, so that a scheduled query can find a split
    idle.
    """
    begin(query).close()
    query.step()
    machine.passes(HOUR)
    begin(query).close()
    assert states(query)["silent"] == "I"


@pytest.mark.parametrize("stop", ["suspended", "paused"])
def test_a_stop_of_the_machine_makes_nothing_idle(query: DrivenQuery, machine: TwoClocks, stop: str) -> None:
    """I9: time in which the machine stands still does not count for idleness. Both clocks jump after a pause of a
    virtual machine.
    """
    own = begin(query)
    query.step()
    run_for(own, machine, 40)
    assert states(query)["silent"] == "A"
    machine.is_suspended(HOUR) if stop == "suspended" else machine.passes(HOUR)
    assert states(query)["silent"] == "A"
    run_for(own, machine, 20)
    assert states(query)["silent"] == "A"
    run_for(own, machine, 1)
    assert states(query)["silent"] == "I"
    own.close()


def test_long_batches_and_rare_triggers_count(query: DrivenQuery, machine: TwoClocks) -> None:
    """Rule 9: a split turns idle after two plans that are far apart, if the process ran in between."""
    own = begin(query)
    query.step()
    run_for(own, machine, 61)
    assert states(query)["silent"] == "I"
    own.close()


def test_a_clock_that_is_set_back_makes_no_event_time_implausible(
    query: DrivenQuery, machine: TwoClocks
) -> None:
    """Rule 6: the bound on plausible event times follows the later of the machine's clock and the query's clock. A
    step of the machine's clock back does not lower the bound, and a step forward raises it.
    """
    own = begin(query)
    bounds = []
    for step_ms in (0, -HOUR, 3 * HOUR):
        machine.wall += step_ms
        query.world.logs["silent"].append(machine.wall)
        query.coordinator.latest_offset(query.offset, None)
        bounds.append(query.world.requests[-1].plausible_until)
    assert bounds == [own() + HOUR, own() + HOUR, machine.wall + HOUR]
    own.close()


def test_only_time_in_which_the_process_ran_counts(machine: TwoClocks) -> None:
    watched, plain = QueryClock(watched=True), QueryClock()
    began = watched()
    for ms in (0, 1, 5000, 5001, 4999, HOUR, -7):
        machine.passes(ms)
        watched()
    assert watched() - began == 0 + 1 + 5000 + 4999 - 7
    assert plain() - began == 0 + 1 + 5000 + 5001 + 4999 + HOUR - 7
    watched.close()


def test_the_clock_is_read_every_second_until_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_TICK_S", 0.01)
    before = ticking()
    own = QueryClock(watched=True)
    (thread,) = ticking() - before
    read = own._read_ns
    wait_until(lambda: own._read_ns > read, "the thread to read it", 60)
    own.close()
    thread.join(60)
    assert not thread.is_alive()


def ticking() -> set[threading.Thread]:
    """Returns the threads that read the clocks of queries."""
    return {thread for thread in threading.enumerate() if thread.name == "flip27-clock"}


def test_without_a_thread_all_time_counts_with_a_warning(
    machine: TwoClocks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    own = QueryClock(watched=True)
    began = own()
    machine.passes(HOUR)
    assert own() - began == HOUR
    assert [m for m in caplog.messages if "can't start new thread" in m] != []
