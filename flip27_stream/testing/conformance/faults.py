"""Checks of faults: splits that disappear for some time, and a system that does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing

from flip27_stream.testing.conformance.attempt import attempt
from flip27_stream.testing.conformance.checks import RECORDS, Checks, check_all_read, check_rows
from flip27_stream.testing.conformance.survey import survey
from flip27_stream.testing.conformance.system import ExternalSystem
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import Row

_PARTS = 3
_NOTICED_S = 30.0
_TIME_LIMIT_S = 90.0


class FaultChecks(Checks):
    """Checks that no row is lost or read twice without an error.

    The source recovers from a fault, or the query fails and names it.
    """

    def test_split_that_vanishes_once_it_is_read(self) -> None:
        """Checks a split that was read, vanishes, and returns with the same records.

        Its records are not read again, or the query fails and names the split.
        """
        self._vanishes(_read_all)

    def test_split_that_vanishes_in_the_middle(self) -> None:
        """Checks that a split that was read in part is read to its end after it returns, or that an error names it."""
        self._vanishes(_read_a_part)

    def test_split_that_vanishes_while_it_is_read(self) -> None:
        """Checks that a planned batch has the same rows after its split returns, or that an error names the split."""
        self._vanishes(_plan_only)

    def test_system_that_fails_for_ever(self) -> None:
        """Checks that a running query and a new query fail at last.

        When the system has recovered, a query continues from the offset of the running one.
        """
        with closing(self.create_system()) as system:
            written = [system.write(number, RECORDS) for number in range(2)]
            with SourceQuery(system.source) as query:
                check_all_read(system, query, written)
                system.fail()
                self._gives_up(query)
            for offset in (None, query.offset):
                with SourceQuery(query.source, offset) as started:
                    self._gives_up(started)
            system.recover()
            more = [system.write(number, RECORDS) for number in range(1, 3)]
            with SourceQuery(system.source, query.offset) as resumed:
                check_all_read(system, resumed, more)

    def _gives_up(self, query: SourceQuery) -> None:
        error = None
        deadline = time.monotonic() + self.gives_up_within_s
        while error is None and time.monotonic() < deadline:
            error = attempt(query.next_batch, self.gives_up_within_s)
        assert error is not None, (
            f"the system has failed for {self.gives_up_within_s:g} s, and the query does not fail"
        )
        assert str(error), f"the query fails with a {type(error).__name__} without a message"

    def _vanishes(self, begin: Callable[[SourceQuery], list[Row]]) -> None:
        with closing(self.create_system()) as system:
            written = [system.write(number, RECORDS) for number in range(2)]
            with SourceQuery(system.source) as query:
                rows = begin(query)
                name, gone = system.hide(0), True

                def live_on() -> None:
                    nonlocal gone
                    _notice(system, query, written, rows)
                    system.restore(0)
                    gone = False
                    _notice(system, query, written, rows)
                    rows.extend(query.run(sum(map(len, written)) - len(rows)))

                error = attempt(live_on, _TIME_LIMIT_S)
            if error is not None:
                if gone:
                    system.restore(0)
                error = _start_again(system, query, written, rows, error, name)
            if error is None:
                check_rows(system, rows, written)


def _notice(
    system: ExternalSystem,
    query: SourceQuery,
    written: list[Sequence[Hashable]],
    rows: list[Row],
) -> None:
    """Writes to another split and reads it, so that the enumerator has seen the last change of the system."""
    new = system.write(1, RECORDS)
    written.append(new)
    missing, deadline = set(new), time.monotonic() + _NOTICED_S
    while missing and time.monotonic() < deadline:
        came = query.step()
        missing -= {system.identify(row) for row in came}
        rows += came
    assert not missing, (
        f"{len(missing)} rows of a split were not read while another split had vanished, or after it returned"
    )


def _start_again(
    system: ExternalSystem,
    failed: SourceQuery,
    written: Sequence[Sequence[Hashable]],
    rows: list[Row],
    error: Exception,
    name: str,
) -> Exception | None:
    """Continues in another process where a query failed. If that fails, too, the error must name what disappeared."""
    _check_names(error, name)
    with SourceQuery(system.source, failed.offset) as query:
        query.planned = failed.planned
        left = sum(map(len, written)) - len(rows)
        again = attempt(lambda: rows.extend(query.run(left)), _TIME_LIMIT_S)
    if again is not None:
        _check_names(again, name)
    return again


def _check_names(error: Exception, name: str) -> None:
    assert name in str(error), (
        f"{name} vanished, and the query failed without naming it: {type(error).__name__}: {error}"
    )


def _read_all(query: SourceQuery) -> list[Row]:
    return query.run(2 * RECORDS)


def _read_a_part(query: SourceQuery) -> list[Row]:
    with SourceQuery(query.source) as whole:
        positions = survey(whole, 2 * RECORDS).positions
    query.planned = query.wait_for_batch(max(positions // _PARTS, 1))
    return query.step()


def _plan_only(query: SourceQuery) -> list[Row]:
    query.planned = query.wait_for_batch()
    return []
