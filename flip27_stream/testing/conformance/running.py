"""Checks of other kinds of runs: ``AvailableNow``, source events, and a source within a hybrid source."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from flip27_stream.api import Source, SourceEvent, SupportsEndPosition, SupportsEventTimePositions
from flip27_stream.connectors.hybrid import HybridSource, SourceSwitchContext
from flip27_stream.testing.aligned_run import AlignedRun
from flip27_stream.testing.conformance.checks import (
    RECORDS,
    Checks,
    check_all_read,
    check_rows,
    read_in_many_processes,
)
from flip27_stream.testing.conformance.survey import survey
from flip27_stream.testing.conformance.system import ExternalSystem
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import Row

_BATCHES = 6
_MOST_BATCHES = 100
_UNKNOWN = SourceEvent("conformance", {"of": ["another release"]})


class RunningChecks(Checks):
    """Checks of ``Trigger.AvailableNow``, source events, and a hybrid source (FLIP-150)."""

    def test_available_now(self) -> None:
        """Checks that an ``AvailableNow`` run ends, although more records are written after each of its batches.

        It reads all records that existed when it began. The next run reads the rest.
        """
        with closing(self.create_system()) as system:
            there = [system.write(number, RECORDS) for number in range(3)]
            with SourceQuery(system.source) as query:
                limit = max(survey(query, sum(map(len, there))).positions // _BATCHES, 1)
            later: list[Any] = []
            with SourceQuery(system.source, available_now=True) as query:
                rows = self._run_now(query, limit, lambda: later.append(system.write(len(later) % 4, 2)))
            missing = {row for of_split in there for row in of_split} - set(map(system.identify, rows))
            assert not missing, f"{len(missing)} rows existed when the run began, and it ended without them"
            later.append(system.write(4, 2))
            with SourceQuery(system.source, query.offset, available_now=True) as query:
                rows += self._run_now(query, limit)
            check_rows(system, rows, [*there, *later])

    def test_source_events(self) -> None:
        """Checks that events between enumerator and readers arrive, also from a task that is run twice.

        No row is lost.

        An unknown event, as from another release, changes nothing.
        """
        with closing(self.create_system()) as system:
            written = [system.write(number, RECORDS) for number in range(2)]
            rows: list[Row] = []
            with SourceQuery(system.source) as query:
                while len(rows) < sum(map(len, written)):
                    batch = query.wait_for_batch()
                    query.read_all(*batch)
                    rows += query.read_all(*batch)
                    query.offset = batch[1]
                check_rows(system, rows, written)
                check_all_read(system, query, [system.write(0, RECORDS)])
            _check_unknown_events(system)

    def test_bounded_source_of_a_hybrid(self) -> None:
        """Checks that a hybrid source reads all rows of this source, then all of the next one, with restarts in splits.

        The next source gets the end position of this source.
        """
        with closing(self.create_system()) as system, closing(self.create_system()) as following:
            bounded = system.bounded
            if bounded is None:
                return
            first = [system.write(number, RECORDS + number) for number in range(3)]
            then = [following.write(number, RECORDS) for number in range(2)]
            count = sum(map(len, first))
            with SourceQuery(system.source, strategy=self.strategy) as query:
                found = survey(query, count)
            limit = max(found.positions // _BATCHES, 1)
            chain = HybridSource.builder(bounded).add_source(following.source).build()
            rows, _ = read_in_many_processes(chain, count + sum(map(len, then)), limit)
            _check_bounded_sources((system, first), (following, then), rows)
            if found.times and _can_be_cut(system):
                self._check_seam(bounded, following.source, limit, max(found.times), len(rows))

    def _run_now(self, query: SourceQuery, limit: int, after_each: Any = lambda: None) -> list[Row]:
        rows: list[Row] = []
        for _ in range(_MOST_BATCHES):
            batch = query.next_batch(limit)
            if batch is None:
                return rows
            rows += [row for task in query.tasks(*batch) for row in query.read(task)]
            query.offset = batch[1]
            after_each()
        raise AssertionError(f"an AvailableNow run does not end: it has run {_MOST_BATCHES} batches")

    def _check_seam(
        self, bounded: Source[Any, Any], following: Source[Any, Any], limit: int, end: int, rows: int
    ) -> None:
        chain = HybridSource.builder(bounded).add_source(following_noted := _Following(following)).build()
        run = AlignedRun(
            chain,
            self.strategy,
            max_drift_ms=1,
            unit_ms=self.unit_ms,
            limit=limit,
            splits={},
            exact=False,
        )
        run.run(rows)
        end_position = following_noted.end_position
        assert end_position in (_OWN, end), (
            f"the source ended at event time {end}, and the next source got end position {end_position!r}"
        )


_OWN = "a position of its own"
_END_POSITIONS: dict[int, Any] = {}


class _Following:
    """A factory of the next source, which records the end position that it gets."""

    def __init__(self, source: Source[Any, Any]) -> None:
        self._source = source
        self._number = id(self)

    @property
    def end_position(self) -> Any:
        return _END_POSITIONS.pop(self._number, None)

    def __call__(self, switch: SourceSwitchContext) -> Source[Any, Any]:
        before = switch.previous_enumerator
        if before is not None:  # This call is neither the trial call nor a restart.
            _END_POSITIONS[self._number] = (
                _OWN if isinstance(before, SupportsEndPosition) else switch.end_position
            )
        return self._source


def _can_be_cut(system: ExternalSystem) -> bool:
    with SourceQuery(system.source) as query, query.enumerator() as (enumerator, _):
        return isinstance(enumerator, SupportsEventTimePositions)


def _check_unknown_events(system: ExternalSystem) -> None:
    with SourceQuery(system.source) as query, query.enumerator() as (enumerator, splits):

        def look() -> tuple[Any, ...]:
            ranges = enumerator.split_ranges(dict.fromkeys(splits))
            return ranges, enumerator.snapshot_state()

        look()  # The first call can change the state of the enumerator.
        before = look()
        enumerator.handle_source_event(0, _UNKNOWN)
        after = look()
        assert after == before, f"an unknown event changes the enumerator's state from {before} to {after}"
        task = query.tasks(*query.wait_for_batch())[0]
        assert query.collect(task, [_UNKNOWN]).rows == query.read(task), (
            "an unknown event changes the rows that the reader reads"
        )


def _check_bounded_sources(
    one: tuple[ExternalSystem, list[Any]], other: tuple[ExternalSystem, list[Any]], rows: list[Row]
) -> None:
    """Checks that the rows of the first system come before the rows of the second system."""
    count = sum(map(len, one[1]))
    for (system, written), part in ((one, rows[:count]), (other, rows[count:])):
        check_rows(system, part, written)
