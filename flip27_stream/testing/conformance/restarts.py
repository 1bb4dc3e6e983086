"""Checks of restarts of queries, drivers and tasks, after any batch and in the middle of any split."""

from __future__ import annotations

from contextlib import closing

from flip27_stream.api import ReadLimits
from flip27_stream.testing.conformance.checks import (
    RECORDS,
    Checks,
    check_all_read,
    check_rows,
    read_in_many_processes,
)
from flip27_stream.testing.conformance.survey import survey
from flip27_stream.testing.source_query import SourceQuery

_BATCHES = 6
_SMALL_LIMITS = ReadLimits(max_rows=5), ReadLimits(max_bytes=1), ReadLimits(max_files=1)


class RestartChecks(Checks):
    """Checks that no row is lost or read twice, wherever a process ends."""

    def test_restart(self) -> None:
        """Checks SX-03: a query that continues from its checkpoint reads just the new records, also in new splits."""
        self._goes_on(before=4, after=4)

    def test_more_readers(self) -> None:
        """Checks SX-04: no row is lost or read twice with two readers before a restart and four after it."""
        self._goes_on(before=2, after=4)

    def test_fewer_readers(self) -> None:
        """Checks CO-25: no row is lost or read twice with five readers before a restart and one after it."""
        self._goes_on(before=5, after=1)

    def test_killed_task(self) -> None:
        """Checks SX-08: a task that dies after some rows is run again and returns all rows; new rows are read once."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            written = system.write(0, RECORDS)
            for task in query.tasks(*query.wait_for_batch()):
                query.abandon(task)
            check_all_read(system, query, [written])
            check_all_read(system, query, [system.write(0, RECORDS)])

    def test_killed_driver(self) -> None:
        """Checks SX-08: another process plans a batch again with the same ranges and rows, though more were written."""
        with closing(self.create_system()) as system:
            written = [system.write(i, RECORDS) for i in range(2)]
            with SourceQuery(system.source) as query:
                start, end = query.wait_for_batch()
                tasks = query.tasks(start, end)
                first = [query.read(task) for task in tasks]
            written += [system.write(i, RECORDS) for i in range(3)]
            with SourceQuery(system.source, end) as query:
                replayed = query.tasks(start, end)
                assert replayed == tasks, f"a replay plans other ranges: {replayed}, not {tasks}"
                second = [query.read(task) for task in replayed]
                assert second == first, f"a replay reads other rows: {second}, not {first}"
                check_all_read(system, query, written, [row for rows in second for row in rows])

    def test_row_limit(self) -> None:
        """Checks invariant I2 (a batch is within the limit): small batches lose no row.

        Each batch is planned by another process, so that splits are divided and continued anywhere.
        """
        with closing(self.create_system()) as system:
            written = [system.write(number, RECORDS + number) for number in range(3)]
            expected = sum(map(len, written))
            with SourceQuery(system.source) as query:
                positions = survey(query, expected).positions
            rows, _ = read_in_many_processes(system.source, expected, max(positions // _BATCHES, 1))
            check_rows(system, rows, written)

    def test_limits_of_the_source(self) -> None:
        """Checks that each limit of rows, bytes and files in the source's options has an effect, and loses no row."""
        for limits in _SMALL_LIMITS:
            with closing(self.create_system()) as system:
                source = system.limited(limits)
                if source is None:
                    continue
                written = [system.write(number, RECORDS + number) for number in range(3)]
                rows, batches = read_in_many_processes(source, sum(map(len, written)))
                check_rows(system, rows, written)
                assert batches > 1, f"{limits} has no effect: all {len(rows)} rows came in one batch"

    def _goes_on(self, before: int, after: int) -> None:
        with closing(self.create_system()) as system:
            written = [system.write(i, RECORDS) for i in range(4)]
            with SourceQuery(system.source, parallelism=before) as query:
                check_all_read(system, query, written)
            more = [system.write(i, RECORDS) for i in range(1, 6)]
            with SourceQuery(system.source, query.offset, parallelism=after) as resumed:
                check_all_read(system, resumed, more)
