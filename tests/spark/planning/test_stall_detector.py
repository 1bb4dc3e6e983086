"""An AvailableNow run that does not come to its end logs a warning, can be stopped, and fails if nothing is left to
wait for.

No JVM.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from flip27_stream.api import ReadLimits, SplitRange
from flip27_stream.errors import ConnectorError, ContractError
from flip27_stream.spark.planning import stall_detector
from flip27_stream.testing import wait_until
from flip27_stream.testing.source_query import SourceQuery
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.backlog_source import BacklogEnumerator
from tests.spark.support.sources.memory_source import LogEnumerator, MemorySource, MemorySplit, MemoryWorld
from tests.support.module_time import replace_time


class Hoards(LogEnumerator):
    """An enumerator that says that a split is pending, and never assigns it."""

    def pending(self) -> int:
        return 1


class Dangles(LogEnumerator):
    """An enumerator that returns for every range that there are more records after its end."""

    def split_ranges(self, positions: Mapping[MemorySplit, int | None]) -> Mapping[str, SplitRange]:
        return {
            name: SplitRange(r.position, r.end, limited=True)
            for name, r in super().split_ranges(positions).items()
        }


def available_now(
    enumerator: Callable[..., LogEnumerator], logs: Mapping[str, list[int | None]] | None = None
) -> DrivenQuery:
    world = MemoryWorld(dict(logs or {"a": [1, 2]}))
    query = DrivenQuery(world, None, source=MemorySource(world, enumerator=enumerator))
    query.coordinator.prepare_available_now()
    assert query.step() == [(name, t) for name, times in world.logs.items() for t in times]
    return query


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_detector, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(stall_detector, "GIVE_UP_S", 0.3)


HOARDS = r"The run of 'memory' .* does not end: Hoards.pending\(\) returns 1, but admit\(\)"
DANGLES = r"The run of 'memory' .* does not end: these splits are not at their ends: a, but Dangles.split_ranges\(\)"


@pytest.mark.parametrize(("enumerator", "why"), [(Hoards, HOARDS), (Dangles, DANGLES)])
def test_a_run_that_nothing_can_end_warns_and_fails(
    short: None, caplog: pytest.LogCaptureFixture, enumerator: type[LogEnumerator], why: str
) -> None:
    """A run that nothing can end logs a warning and fails. Its offset is unchanged, and the next run goes on from
    it.
    """
    query = available_now(enumerator)
    before = dict(query.offset)
    with pytest.raises(ContractError, match=f"{why}.*although every function passed to call_async"):
        query.step()
    assert query.offset == before
    (warning, *_) = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "does not end" in warning
    assert "can be stopped at any time" in warning
    query.restart()
    query.world.logs["a"].append(3)
    assert query.step() == [("a", 3)], "a stream has no end to wait for"


@pytest.mark.parametrize(("enumerator", "why"), [(Hoards, HOARDS), (Dangles, DANGLES)])
def test_a_batch_read_fails_the_same_way(short: None, enumerator: type[LogEnumerator], why: str) -> None:
    source = MemorySource(MemoryWorld({"a": [1, 2]}), enumerator=enumerator)
    with SourceQuery(source) as query, pytest.raises(ContractError, match=why):
        query.read_batch()


class Listing(Hoards):
    """An enumerator that assigns its second log when a long call has returned."""

    def start(self) -> None:
        super().start()
        self.world.calls.append("listing")
        self.context.call_async(self.world.listed.wait, self._listed, initial_delay_ms=1)  # type: ignore[attr-defined]

    def pending(self) -> int:
        return int("listing" in self.world.calls)

    def _listed(self, *_: object) -> None:
        self.world.calls.remove("listing")
        self.world.logs["b"] = [7]
        self._discovered(list(self.world.logs), None)


def test_a_slow_call_is_waited_for(short: None, caplog: pytest.LogCaptureFixture) -> None:
    """A run waits for a call of ``call_async``, however long the call takes. A warning says what the run waits
    for.
    """
    world = MemoryWorld({"a": [1, 2]})
    world.listed = threading.Event()  # type: ignore[attr-defined]
    query = DrivenQuery(world, None, source=MemorySource(world, enumerator=Listing))
    query.coordinator.prepare_available_now()
    query.step()

    def list_after_the_warning() -> None:
        wait_until(lambda: "also for 1 calls of call_async" in caplog.text, "the warning", 60)
        time.sleep(2 * stall_detector.GIVE_UP_S)
        world.listed.set()  # type: ignore[attr-defined]

    listing = threading.Thread(target=list_after_the_warning)
    listing.start()
    assert query.step() == [("b", 7)]
    listing.join()
    assert query.step() is None


class Looking(Hoards):
    """An enumerator that makes periodic calls, which find nothing."""

    def start(self) -> None:
        super().start()
        look: Callable[[Any, BaseException | None], None] = lambda *_: self.world.calls.append("looked")  # noqa: E731
        self.context.call_async(lambda: None, look, initial_delay_ms=450, period_ms=1)


def test_a_periodic_call_is_waited_for_until_its_next_turn(short: None) -> None:
    query = available_now(Looking)
    with pytest.raises(ContractError, match=r"Looking.pending\(\)"):
        query.step()
    assert "looked" in query.world.calls


class Slow(BacklogEnumerator):
    """An enumerator that assigns a log at every twelfth look, which is soon enough for each log, but not for all logs
    together.
    """

    looks = 0

    def admit(self, limits: ReadLimits) -> None:
        self.looks += 1
        if self.looks % 12 == 1:
            super().admit(limits)


def test_progress_begins_the_wait_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each split that is assigned begins the wait anew, so that a slow run is not given up. Time passes only in the
    pauses of the wait, and a run is given up after 15 of them.
    """
    now = 1.0

    def pause(seconds: float) -> None:
        nonlocal now
        now += seconds

    replace_time(
        monkeypatch, "flip27_stream.spark.planning.stall_detector", monotonic=lambda: now, sleep=pause
    )
    monkeypatch.setattr(stall_detector, "GIVE_UP_S", 15 * stall_detector._PAUSE_S)
    world = MemoryWorld({name: [n] for n, name in enumerate("abcdefgh", 1)})
    query = DrivenQuery(
        world, None, source=MemorySource(world, limits=ReadLimits(max_files=1), enumerator=Slow)
    )
    query.coordinator.prepare_available_now()
    while query.step(2**63 - 1) is not None:
        pass
    assert len(query.batches) == 8


def test_a_silence_is_measured_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time without an answer is measured from its own beginning, and not from the beginning of the plan, which
    may have waited for something else before.
    """
    now = itertools.count(1.0, stall_detector.TIMEOUT_S * 0.6)
    replace_time(
        monkeypatch,
        "flip27_stream.spark.planning.stall_detector",
        monotonic=now.__next__,
        sleep=lambda seconds: None,
    )
    waits = stall_detector.StallDetector()
    for silent in ("", "", "a", "a", "", "a", "a"):
        waits.wait_for(silent)
    with pytest.raises(ConnectorError, match=r"No answer about 1 splits \(a\)"):
        waits.wait_for("a")


def test_a_suspension_of_the_machine_does_not_count_as_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause of the machine counts at most as long as a look at the splits can take, so that leaders are asked
    again before the query fails.
    """
    now = 1.0

    def asked(seconds: float) -> None:
        nonlocal now
        now += 1

    replace_time(
        monkeypatch, "flip27_stream.spark.planning.stall_detector", monotonic=lambda: now, sleep=asked
    )
    waits, stands = stall_detector.StallDetector(), stall_detector.Stall("The run stands.")
    for _ in range(15):
        waits.wait_for("a")
    now += 3600
    for _ in range(7):
        waits.wait_for("a")
    with pytest.raises(ConnectorError, match="No answer about 1 splits"):
        waits.wait_for("a")
    waits = stall_detector.StallDetector()
    waits.wait_for("", stands)
    now += 3600
    waits.wait_for("", stands)


def test_a_wait_can_be_ended_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait ends when Spark ends the process with SIGTERM. The handler of SIGTERM raises SystemExit in the planning
    thread.
    """

    def ended(seconds: float) -> None:
        raise SystemExit(0)

    query = available_now(Hoards)
    replace_time(monkeypatch, "flip27_stream.spark.planning.stall_detector", sleep=ended)
    with pytest.raises(SystemExit):
        query.step()
    query.coordinator.close()
