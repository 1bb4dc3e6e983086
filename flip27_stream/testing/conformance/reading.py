"""Checks of reading: all rows, once, in order, for any ranges and numbers of readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.testing.conformance.checks import (
    RECORDS,
    Checks,
    check_all_read,
    check_rows,
    check_serializer,
)
from flip27_stream.testing.conformance.system import NotProvided
from flip27_stream.testing.source_query import SourceQuery

_CUTS = 40


class ReadingChecks(Checks):
    """Checks of splits, readers, ranges and checkpoints without any fault."""

    def test_single_split(self) -> None:
        """Checks SX-01: one split and one reader return the same records in the same order."""
        self._reads_all([RECORDS], parallelism=1)

    def test_multiple_splits(self) -> None:
        """Checks SX-02: with four splits and four readers, the order in each split is kept."""
        self._reads_all([RECORDS, RECORDS + 1, 1, 2 * RECORDS], parallelism=4)

    def test_idle_reader(self) -> None:
        """Checks SX-07: all rows are read with more readers than splits, and with a split that has no records."""
        self._reads_all([0, RECORDS, RECORDS, RECORDS], parallelism=6)

    def test_splits_found_later(self) -> None:
        """Checks that a query of an empty system waits, and finds splits while it runs."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            check_all_read(system, query, [])
            for number in range(2):
                check_all_read(system, query, [system.write(number, RECORDS)])

    def test_ranges_are_cut_anywhere(self) -> None:
        """Checks that the two parts of a range, cut at any possible position, have the rows of the whole range.

        The rows are in order.

        A read limit or a horizon may cut a range at any position, or at any that ``positions_after`` returns.
        """
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            system.write(0, RECORDS)
            planned, *_ = query.tasks(*query.wait_for_batch())[0]
            split, start, end = planned
            whole = query.read([planned])
            for cut in _cuts(query, split, start, end, len(whole)):
                before = query.read([planned._replace(end=cut)])
                after = query.read([planned._replace(start=cut)])
                assert before + after == whole, (
                    f"positions {start} to {end} of split {split.split_id}, cut at {cut}, give {before} and {after} "
                    f"instead of {whole}"
                )

    def test_range_larger_than_one_fetch(self) -> None:
        """Checks that a range of several fetches is read completely, also if the task is run a second time."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            written = system.write(0, self.large_split)
            rows, fetches = [], 0
            for task in query.tasks(*query.wait_for_batch(UNLIMITED)):
                query.abandon(task)
                output = query.collect(task)
                rows += output.rows
                fetches = max(fetches, len(output.batches))
            check_rows(system, rows, [written])
            if fetches < 2:
                raise NotProvided(
                    f"Not checked: a range larger than one fetch. {self.large_split} records came in one fetch; set "
                    f"{type(self).__name__}.large_split to more."
                )

    def test_checkpoints(self) -> None:
        """Checks CO-11: states in an offset are restored equal; a newer or a damaged state is refused."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            for number in range(2):
                system.write(number, RECORDS)
            with query.enumerator() as (enumerator, splits):
                for split in splits:
                    check_serializer(query.source.split_serializer, split)
                checkpoint = enumerator.snapshot_state()
                check_serializer(query.source.enumerator_checkpoint_serializer, checkpoint)

    def test_batch(self) -> None:
        """Checks that ``spark.read`` plans once and reads all rows, in its own tasks."""
        with closing(self.create_system()) as system:
            written = [system.write(number, RECORDS + number) for number in range(4)]
            with SourceQuery(system.source) as query:
                check_rows(system, query.read_batch(), written)

    def _reads_all(self, sizes: Sequence[int], parallelism: int) -> None:
        with closing(self.create_system()) as system:
            written = [system.write(i, size) for i, size in enumerate(sizes)]
            with SourceQuery(system.source, parallelism=parallelism) as query:
                check_all_read(system, query, written)


def _cuts(query: SourceQuery, split: Any, start: int, end: int, rows: int) -> Iterable[int]:
    """Returns the positions to cut a range at, in the order of the split."""
    if split.positions_count_rows:
        return range(start, end + 1, max((end - start) // _CUTS, 1))
    with query.enumerator() as (enumerator, splits):
        enumerator.split_ranges({one: start if one == split else None for one in splits})
        placed = []
        for count in range(1, rows + 1, max(rows // _CUTS, 1)):
            positions = enumerator.positions_after({split.split_id: count})
            assert positions is not None, (
                f"positions of split {split.split_id} do not count rows, so positions_after() must place cuts"
            )
            placed.append(positions[split.split_id])
    assert placed == sorted(placed), (
        f"positions_after() returned a position for more rows that is before the one for fewer rows: {placed}"
    )
    return [start, *(cut for cut in placed if cut <= end), end]
