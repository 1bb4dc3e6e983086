"""The conformance suite passes for a correct source. For other sources its errors say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.errors import ContractError
from flip27_stream.spark.planning import stall_detector
from flip27_stream.testing import ExternalSystem, NotProvided, SourceConformanceSuite, source_query
from flip27_stream.testing.conformance import faults
from tests.reader.support.memory_logs import FETCH, MemoryLogs, MemoryLogSource
from tests.reader.support.sparse_logs import SparseLogs


class TestMemoryLogs(SourceConformanceSuite):
    """The checks for logs in memory: SX-01 to SX-08, CO-11, CO-25, and event-time positions under disorder."""

    def create_system(self) -> ExternalSystem:
        return MemoryLogs()


class TestSparseLogs(SourceConformanceSuite):
    """The checks for a source whose positions do not count rows. No position is made up, and limits hold for rows."""

    def create_system(self) -> ExternalSystem:
        return SparseLogs()


class Faulty(SourceConformanceSuite):
    def __init__(self, fault: str) -> None:
        self._fault = fault

    def create_system(self) -> ExternalSystem:
        return MemoryLogs(self._fault)


class MinimalSystem(ExternalSystem):
    """An external system with the methods that are required, and no others."""

    def __init__(self) -> None:
        self._logs = MemoryLogs()

    @property
    def source(self) -> MemoryLogSource:
        return self._logs.source

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        return self._logs.write(split, count)

    def identify(self, row: dict[str, Any]) -> Hashable:
        return self._logs.identify(row)

    def close(self) -> None:
        self._logs.close()


class WithoutHooks(SourceConformanceSuite):
    def create_system(self) -> ExternalSystem:
        return MinimalSystem()


Check = Callable[[SourceConformanceSuite], None]

FAULTS: list[tuple[str, Check, str]] = [
    ("loses the last record", SourceConformanceSuite.test_single_split, "1 rows are missing"),
    ("reads on", SourceConformanceSuite.test_killed_driver, "a replay reads other rows"),
    ("overlaps", SourceConformanceSuite.test_restart, "rows were read twice or were never written"),
    ("disordered", SourceConformanceSuite.test_multiple_splits, "rows of split 0 are out of order"),
    ("whole pairs only", SourceConformanceSuite.test_ranges_are_cut_anywhere, "cut at 1, give"),
    ("a restless state", SourceConformanceSuite.test_single_split, "20 batches in a row were empty"),
    ("finds nothing after a restart", SourceConformanceSuite.test_restart, "46 rows are missing"),
    ("positions out of range", SourceConformanceSuite.test_single_split, "position 23 of split log-0 is not"),
    ("other columns", SourceConformanceSuite.test_idle_reader, "not of the source's schema"),
    ("a stranger's rows", SourceConformanceSuite.test_more_readers, "log-7, which it was not given"),
    ("takes anything", SourceConformanceSuite.test_checkpoints, "accepts a state of a newer version"),
    ("forgets the log", SourceConformanceSuite.test_checkpoints, "is restored as"),
    (
        "an invented reach",
        SourceConformanceSuite.test_event_time_positions,
        "which the enumerator returned as reach",
    ),
    ("the least time first", SourceConformanceSuite.test_event_time_positions, "begins with event time"),
    (
        "answers depend on questions",
        SourceConformanceSuite.test_event_time_positions,
        "but a record before that position",
    ),
    (
        "the last instead of the first",
        SourceConformanceSuite.test_event_time_positions,
        "but a record before that position",
    ),
    ("rows that fall", SourceConformanceSuite.test_event_time_positions, "an earlier time gave"),
    ("a reach far ahead", SourceConformanceSuite.test_alignment, "ms ahead of the least front"),
    ("a restless state", SourceConformanceSuite.test_alignment, "20 batches in a row were empty"),
    ("loses the last record", SourceConformanceSuite.test_batch, "4 rows are missing"),
    (
        "reads one fetch and no more",
        SourceConformanceSuite.test_range_larger_than_one_fetch,
        "15000 rows are missing",
    ),
    (
        "goes back a little",
        SourceConformanceSuite.test_row_limit,
        "rows were read twice or were never written",
    ),
    ("ignores its limit", SourceConformanceSuite.test_limits_of_the_source, "max_rows=5.* has no effect"),
    ("loses the last record", SourceConformanceSuite.test_limits_of_the_source, "nothing was found to read"),
    ("finds nothing after a restart", SourceConformanceSuite.test_available_now, "rows are missing"),
    ("sees half of it at first", SourceConformanceSuite.test_available_now, "and it ended without them"),
    (
        "an event makes its reader forget",
        SourceConformanceSuite.test_source_events,
        "an unknown event changes the rows",
    ),
    (
        "takes any event for its own",
        SourceConformanceSuite.test_source_events,
        "an unknown event changes the enumerator's state",
    ),
    (
        "is bounded and never ends",
        SourceConformanceSuite.test_bounded_source_of_a_hybrid,
        "nothing was found to read",
    ),
    (
        "a reach far ahead",
        SourceConformanceSuite.test_bounded_source_of_a_hybrid,
        "the next source got end position 1",
    ),
    (
        "goes back a little",
        SourceConformanceSuite.test_bounded_source_of_a_hybrid,
        "rows are missing",
    ),
    (
        "believes any time",
        SourceConformanceSuite.test_null_and_implausible_event_times,
        "which the enumerator returned as reach",
    ),
    (
        "stops before a null",
        SourceConformanceSuite.test_null_and_implausible_event_times,
        "rows are not read",
    ),
    (
        "begins again what was gone",
        SourceConformanceSuite.test_split_that_vanishes_once_it_is_read,
        "were read twice",
    ),
    (
        "waits for what is gone",
        SourceConformanceSuite.test_split_that_vanishes_once_it_is_read,
        "not returned for",
    ),
    (
        "leaves out what was gone",
        SourceConformanceSuite.test_split_that_vanishes_in_the_middle,
        "are missing",
    ),
    (
        "does not name what is gone",
        SourceConformanceSuite.test_split_that_vanishes_in_the_middle,
        "naming it",
    ),
    (
        "reads nothing of what is gone",
        SourceConformanceSuite.test_split_that_vanishes_while_it_is_read,
        "are missing",
    ),
    (
        "hides its failures",
        SourceConformanceSuite.test_system_that_fails_for_ever,
        "the query does not fail",
    ),
    (
        "fails without a word",
        SourceConformanceSuite.test_system_that_fails_for_ever,
        "fails with a ConnectorError without a message",
    ),
]


@pytest.mark.parametrize(("fault", "check", "told"), FAULTS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_the_suite_finds_each_fault(
    fault: str, check: Check, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check for a fault fails for a source with this fault, with an error that leads to it."""
    monkeypatch.setattr(source_query, "_TIME_LIMIT_S", 0.3)
    monkeypatch.setattr(faults, "_TIME_LIMIT_S", 1.0)
    monkeypatch.setattr(faults, "_NOTICED_S", 0.5)
    suite = Faulty(fault)
    suite.gives_up_within_s = 0.3
    with pytest.raises(AssertionError, match=told):
        check(suite)


def test_a_run_that_does_not_end_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that does not end fails. The coordinator says in the error what the run waits for (SK-01)."""
    monkeypatch.setattr(stall_detector, "GIVE_UP_S", 0.3)
    with pytest.raises(ContractError, match=r"does not end: .*pending\(\) returns 1"):
        Faulty("has something pending for ever").test_available_now()


HOOKS: list[tuple[Check, str]] = [
    (SourceConformanceSuite.test_null_and_implausible_event_times, "write_at"),
    (SourceConformanceSuite.test_limits_of_the_source, "limited"),
    (SourceConformanceSuite.test_bounded_source_of_a_hybrid, "bounded"),
    (SourceConformanceSuite.test_split_that_vanishes_once_it_is_read, "hide"),
    (SourceConformanceSuite.test_system_that_fails_for_ever, "fail"),
]


@pytest.mark.parametrize(("check", "hook"), HOOKS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_check_without_its_hook_says_that_it_was_not_made(check: Check, hook: str) -> None:
    """A check says that it was not made, if the external system lacks the hook for it. That is no fault of the
    source, and no proof of its correctness either.
    """
    with pytest.raises(NotProvided, match=rf"^Not checked: .* MinimalSystem does not provide {hook}\(\)"):
        check(WithoutHooks())


def test_a_large_split_that_is_too_small_is_named() -> None:
    suite = TestMemoryLogs()
    suite.large_split = FETCH
    with pytest.raises(
        NotProvided, match=r"10000 records came in one fetch; set TestMemoryLogs.large_split to more"
    ):
        suite.test_range_larger_than_one_fetch()


def test_an_enumerator_that_forgets_splits_fails_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """An enumerator that forgets its splits fails a check, because the coordinator refuses to assign a split twice
    (CO-14).
    """
    with pytest.raises(ValueError, match="assigned already"):
        Faulty("assigns again after a restart").test_restart()


def test_the_page_has_every_check() -> None:
    page = (Path(__file__).parents[2] / "docs" / "write-a-source.md").read_text()
    checks = {name for name in dir(SourceConformanceSuite) if name.startswith("test_")}
    assert checks == set(re.findall(r"`(test_\w+)`", page))
    hooks = {name for name in vars(ExternalSystem) if not name.startswith("_")}
    assert {"write_at", "limited", "bounded", "hide", "restore", "fail", "recover"} < hooks
    assert all(f"`{hook}`" in page for hook in hooks - {"source", "write", "identify", "close"})
