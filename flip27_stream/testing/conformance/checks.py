"""The base class of all checks, and functions that several checks use."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

from flip27_stream.api import Source, WatermarkStrategy
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.errors import CheckpointError
from flip27_stream.testing.conformance.system import ExternalSystem
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.testing.task_rows import Row

RECORDS = 23
"""The number of records in a split, unless a check needs another number."""


class Checks(ABC):
    """A group of checks of one source. The attributes are described at ``SourceConformanceSuite``."""

    strategy: WatermarkStrategy = WatermarkStrategy()
    unit_ms: int = 0
    splits_finish: bool = False
    large_split: int = 25_000
    gives_up_within_s: float = 90.0

    @abstractmethod
    def create_system(self) -> ExternalSystem:
        """Returns a new, empty system."""


def check_all_read(
    system: ExternalSystem,
    query: SourceQuery,
    written: Sequence[Sequence[Hashable]],
    already: Sequence[Row] = (),
) -> None:
    """Checks that the query reads the ``written`` records, except those whose rows were read ``already``."""
    rows = query.run(sum(map(len, written)) - len(already))
    check_rows(system, [*already, *rows], written)


def check_rows(system: ExternalSystem, rows: Sequence[Row], written: Sequence[Sequence[Hashable]]) -> None:
    """Checks that all rows were read once, in the order of their split."""
    found = [system.identify(row) for row in rows]
    expected = Counter(row for of_split in written for row in of_split)
    missing, unwanted = expected - Counter(found), Counter(found) - expected
    assert not missing, f"{missing.total()} rows are missing: {list(missing)[:5]}"
    assert not unwanted, (
        f"{unwanted.total()} rows were read twice or were never written: {list(unwanted)[:5]}"
    )
    place = {row: i for i, row in enumerate(found)}
    for number, of_split in enumerate(written):
        for one, next_one in pairwise(of_split):
            assert place[one] < place[next_one], (
                f"rows of split {number} are out of order: {next_one} before {one}"
            )


def check_serializer(serializer: Any, value: Any) -> None:
    """Checks that ``value`` is restored equal, and that a state of a newer version or a damaged state is refused."""
    version, data = serializer.version, serializer.serialize(value)
    text = json.dumps(data, sort_keys=True)
    again = serializer.deserialize(version, json.loads(text))
    assert again == value, f"{value} is restored as {again}"
    assert json.dumps(serializer.serialize(again), sort_keys=True) == text, (
        f"{value} is stored as two different texts"
    )
    for bad, what in (
        ((version + 1, data), "of a newer version"),
        ((version, {"?": [0]}), "that is damaged"),
    ):
        try:
            accepted = serializer.deserialize(*bad)
        except CheckpointError:
            continue
        raise AssertionError(f"{type(serializer).__name__} accepts a state {what} as {accepted}")


def read_in_many_processes(
    source: Source[Any, Any], expected: int, limit: int | None = None
) -> tuple[list[Row], int]:
    """Reads batches until ``expected`` rows were read, and returns the rows and the number of batches.

    Each batch is planned by another process.

    ``limit`` is the greatest number of positions of a batch, or of rows if positions do not count rows; by default
    the limit of the source applies.
    """
    rows: list[Row] = []
    offset, batches = None, 0
    while len(rows) < expected:
        with SourceQuery(source, offset) as query:
            start, offset = query.wait_for_batch(limit)
            tasks = query.tasks(start, offset)
            new = [row for task in tasks for row in query.read(task)]
            _check_limit(tasks, limit, len(new))
            rows += new
            batches += 1
    with SourceQuery(source, offset) as query:
        rows += query.run(0)
    return rows, batches


def positions_of(ranges: Sequence[PlannedRange], rows: int) -> int:
    """Returns the number of positions in ``ranges``.

    If positions do not count rows, the result is ``rows``, the number of their rows.
    """
    if not all(r.split.positions_count_rows for r in ranges):
        return rows
    return sum(r.size for r in ranges)


def _check_limit(tasks: Sequence[Sequence[PlannedRange]], limit: int | None, rows: int) -> None:
    """Checks that a batch stays within ``limit``.

    Each split may have one row more, since a share of less than one row is rounded up, as in Spark's own sources.
    """
    ranges = [piece for task in tasks for piece in task]
    planned = positions_of(ranges, rows)
    splits = len({r.split.split_id for r in ranges})
    assert limit is None or planned <= limit + splits, (
        f"a batch of at most {limit} rows has {planned} positions of {splits} splits"
    )
