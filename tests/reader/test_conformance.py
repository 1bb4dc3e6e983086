"""The conformance suite lets a right source pass and tells what is wrong with others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flip27_stream.testing import ExternalSystem, SourceConformanceSuite, source_query
from tests.reader.memory_logs import MemoryLogs


class TestMemoryLogs(SourceConformanceSuite):
    """SX-01 to SX-08, CO-11, CO-25, and event-time positions under disorder."""

    def create_system(self) -> ExternalSystem:
        return MemoryLogs()


class Faulty(SourceConformanceSuite):
    def __init__(self, fault: str) -> None:
        self._fault = fault

    def create_system(self) -> ExternalSystem:
        return MemoryLogs(self._fault)


Check = Callable[[SourceConformanceSuite], None]

FAULTS: list[tuple[str, Check, str]] = [
    ("loses the last record", SourceConformanceSuite.test_single_split, "1 rows are missing"),
    ("reads on", SourceConformanceSuite.test_killed_driver, "a replay reads other rows"),
    ("overlaps", SourceConformanceSuite.test_restart, "rows came twice or unasked"),
    ("disordered", SourceConformanceSuite.test_multiple_splits, "rows of split 0 are out of order"),
    ("whole pairs only", SourceConformanceSuite.test_ranges_are_cut_anywhere, "cut at 1, give"),
    ("a restless state", SourceConformanceSuite.test_single_split, "20 batches in a row were empty"),
    ("finds nothing after a restart", SourceConformanceSuite.test_restart, "46 rows are missing"),
    ("positions out of range", SourceConformanceSuite.test_single_split, "position 23 of split log-0 is not"),
    ("other columns", SourceConformanceSuite.test_idle_reader, "not of the source's schema"),
    ("a stranger's rows", SourceConformanceSuite.test_more_readers, "log-7, which it was not given"),
    ("takes anything", SourceConformanceSuite.test_checkpoints, "takes a state of a newer version"),
    ("forgets the log", SourceConformanceSuite.test_checkpoints, "comes back as"),
    ("an invented reach", SourceConformanceSuite.test_event_time_positions, "that it is said to reach"),
    ("the least time first", SourceConformanceSuite.test_event_time_positions, "begins with event time"),
    ("answers depend on questions", SourceConformanceSuite.test_event_time_positions, "before that"),
    ("the last instead of the first", SourceConformanceSuite.test_event_time_positions, "before that"),
    ("rows that fall", SourceConformanceSuite.test_event_time_positions, "rows for an earlier time"),
    ("a reach far ahead", SourceConformanceSuite.test_alignment, "ms ahead of the least front"),
    ("a restless state", SourceConformanceSuite.test_alignment, "20 batches in a row were empty"),
    ("loses the last record", SourceConformanceSuite.test_batch, "4 rows are missing"),
]


@pytest.mark.parametrize(("fault", "check", "told"), FAULTS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_fault_is_told(fault: str, check: Check, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by the check that is there for it, in words that lead to it."""
    monkeypatch.setattr(source_query, "_PATIENCE_S", 0.3)
    with pytest.raises(AssertionError, match=told):
        check(Faulty(fault))


def test_an_enumerator_that_forgets_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator refuses to assign a split twice (CO-14)."""
    with pytest.raises(ValueError, match="assigned already"):
        Faulty("assigns again after a restart").test_restart()
