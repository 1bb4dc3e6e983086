"""What every source must do, checked without Spark: the suite that our own sources pass, for yours (Flink's
``connector.testframe``).

::

    class TestMySource(SourceConformanceSuite):
        def create_system(self) -> ExternalSystem:
            return MySystem()

Its methods begin with ``test_`` for pytest or ``unittest``, and need neither: each raises ``AssertionError`` with what
is wrong. They plan with the real coordinator and read with the source's readers, in this process and through pickled
copies of everything that Spark would send to another one.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

from flip27_stream.api import (
    PositioningRequest,
    RecordTimestampAssigner,
    Source,
    SplitRange,
    SupportsEventTimePositions,
    WatermarkStrategy,
)
from flip27_stream.errors import CheckpointError
from flip27_stream.testing.aligned_run import AlignedRun, SplitTimes, event_times
from flip27_stream.testing.source_query import SourceQuery, TaskRows

_RECORDS = 23
_DRIFT_PART = 8
_BATCHES = 6
_QUESTIONS = 40


class ExternalSystem(ABC):
    """What the source reads from; a new, empty one for each check."""

    @property
    @abstractmethod
    def source(self) -> Source[Any, Any]:
        """Reads all there is in this system from the beginning, and all that comes; finds new splits soon."""

    @abstractmethod
    def write(self, split: int, count: int) -> Sequence[Hashable]:
        """Append records to a split, which is made if need be, also for no records.

        Args:
            split: its number, from 0.
            count: how many records.

        Returns:
            What :meth:`identify` makes of each of their rows, in order; never the same twice.
        """

    def identify(self, row: dict[str, Any]) -> Hashable:
        """What tells a row from all others; by default all its columns."""
        return tuple(row.values())

    def close(self) -> None:  # noqa: B027  most have something to remove, not all
        """Remove the system."""


class SourceConformanceSuite(ABC):
    """The checks; subclass it and say which system to use.

    Attributes:
        strategy: how event time is found in the source's rows, for the checks of alignment.
        unit_ms: how much event time the smallest piece spans that a split can be cut into; 0 where it can be cut before
            any record.
        splits_finish: whether a split that is read to its end gets nothing more, as a file, and so holds no other back.
    """

    strategy: WatermarkStrategy = WatermarkStrategy()
    unit_ms: int = 0
    splits_finish: bool = False

    @abstractmethod
    def create_system(self) -> ExternalSystem:
        """A new, empty system."""

    def test_single_split(self) -> None:
        """SX-01: one split, one reader: the same records in the same order."""
        self._reads_all([_RECORDS], parallelism=1)

    def test_multiple_splits(self) -> None:
        """SX-02: four splits, four readers: the order is kept inside each split."""
        self._reads_all([_RECORDS, _RECORDS + 1, 1, 2 * _RECORDS], parallelism=4)

    def test_idle_reader(self) -> None:
        """SX-07: more readers than splits, and a split without records."""
        self._reads_all([0, _RECORDS, _RECORDS, _RECORDS], parallelism=6)

    def test_restart(self) -> None:
        """SX-03: a query that goes on from its checkpoint reads what is new, exactly, also in new splits."""
        self._goes_on(before=4, after=4)

    def test_more_readers(self) -> None:
        """SX-04: two readers before the restart, four after it."""
        self._goes_on(before=2, after=4)

    def test_fewer_readers(self) -> None:
        """CO-25: five readers before the restart, one after it."""
        self._goes_on(before=5, after=1)

    def test_splits_found_later(self) -> None:
        """A system with nothing in it is waited for, and splits are found while the query runs."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            _check_all_read(system, query, [])
            for number in range(2):
                _check_all_read(system, query, [system.write(number, _RECORDS)])

    def test_killed_task(self) -> None:
        """SX-08: a task that dies after some rows is run again and yields all of them; then new ones come once."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            written = system.write(0, _RECORDS)
            for task in query.tasks(*query.wait_for_batch()):
                output = TaskRows(query.source.schema, task)
                abandoned = query.poll(task, output)
                while not output.rows and next(abandoned, None):
                    pass
                abandoned.close()
            _check_all_read(system, query, [written])
            _check_all_read(system, query, [system.write(0, _RECORDS)])

    def test_killed_driver(self) -> None:
        """SX-08: a batch that was planned is planned again by another process, as the very same ranges and rows, though
        more was written meanwhile."""
        with closing(self.create_system()) as system:
            written = [system.write(i, _RECORDS) for i in range(2)]
            with SourceQuery(system.source) as query:
                start, end = query.wait_for_batch()
                tasks = query.tasks(start, end)
                first = [query.read(task) for task in tasks]
            written += [system.write(i, _RECORDS) for i in range(3)]
            with SourceQuery(system.source, end) as query:
                replayed = query.tasks(start, end)
                assert replayed == tasks, f"a replay plans other ranges: {replayed}, not {tasks}"
                second = [query.read(task) for task in replayed]
                assert second == first, f"a replay reads other rows: {second}, not {first}"
                _check_all_read(system, query, written, [row for rows in second for row in rows])

    def test_ranges_are_cut_anywhere(self) -> None:
        """A read limit or a horizon may end a range at any position: the parts are the whole, in order."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            system.write(0, _RECORDS)
            (split, start, end), *_ = query.tasks(*query.wait_for_batch())[0]
            whole = query.read([(split, start, end)])
            for cut in range(start, end + 1, max((end - start) // _QUESTIONS, 1)):
                before, after = query.read([(split, start, cut)]), query.read([(split, cut, end)])
                assert before + after == whole, (
                    f"positions {start} to {end} of split {split.split_id}, cut at {cut}, give {before} and {after} "
                    f"instead of {whole}"
                )

    def test_checkpoints(self) -> None:
        """CO-11: what goes into an offset comes back equal; what a newer release wrote, or is damaged, is refused."""
        with closing(self.create_system()) as system, SourceQuery(system.source) as query:
            for number in range(2):
                system.write(number, _RECORDS)
            with query.enumerator() as (enumerator, splits):
                for split in splits:
                    _check_serializer(query.source.split_serializer, split)
                checkpoint = enumerator.snapshot_state()
                _check_serializer(query.source.enumerator_checkpoint_serializer, checkpoint)

    def test_event_time_positions(self) -> None:
        """Alignment: positions by event time never fall as time grows, lie in the range, and nothing before them is
        later. A source whose enumerator does not support them has nothing to prove here."""
        with closing(self.create_system()) as system:
            for number in range(3):
                system.write(number, _RECORDS)
            with SourceQuery(system.source) as query, query.enumerator() as (enumerator, splits):
                if isinstance(enumerator, SupportsEventTimePositions):
                    found = enumerator.split_ranges(dict.fromkeys(splits))
                    ranges = {s: found[s.split_id] for s in splits if s.split_id in found}
                    _check_event_times(query, enumerator, ranges, self.strategy, self.unit_ms)

    def test_alignment(self) -> None:
        """Aligned with each other, splits are read to the end, over a restart; every batch of it can be replayed. Where
        positions by event time are known, no split is ever further ahead than allowed (I3). A source whose rows have no
        event time has nothing to prove here."""
        with closing(self.create_system()) as system:
            written = [system.write(number, _RECORDS) for number in range(3)]
            expected = sum(map(len, written))
            with (
                SourceQuery(system.source, strategy=self.strategy) as query,
                query.enumerator() as (found, _),
            ):
                splits, positions = _survey(query, expected)
                exact = isinstance(found, SupportsEventTimePositions)
            times = [t for split in splits.values() for t in split.times]
            if not times:
                return
            run = AlignedRun(
                system.source,
                self.strategy,
                max_drift_ms=max((max(times) - min(times)) // _DRIFT_PART, 1),
                unit_ms=self.unit_ms,
                limit=max(positions // _BATCHES, 1),
                splits=splits,
                exact=exact,
                splits_finish=self.splits_finish,
            )
            run.run(expected)
            _check_rows([system.identify(row) for row in run.rows], written)
            run.check_replays()

    def test_batch(self) -> None:
        """``spark.read``: planned once, all there is, in tasks of their own."""
        with closing(self.create_system()) as system:
            written = [system.write(number, _RECORDS + number) for number in range(4)]
            with SourceQuery(system.source) as query:
                _check_rows([system.identify(row) for row in query.read_batch()], written)

    def _reads_all(self, sizes: Sequence[int], parallelism: int) -> None:
        with closing(self.create_system()) as system:
            written = [system.write(i, size) for i, size in enumerate(sizes)]
            with SourceQuery(system.source, parallelism=parallelism) as query:
                _check_all_read(system, query, written)

    def _goes_on(self, before: int, after: int) -> None:
        with closing(self.create_system()) as system:
            written = [system.write(i, _RECORDS) for i in range(4)]
            with SourceQuery(system.source, parallelism=before) as query:
                _check_all_read(system, query, written)
            more = [system.write(i, _RECORDS) for i in range(1, 6)]
            with SourceQuery(system.source, query.offset, parallelism=after) as resumed:
                _check_all_read(system, resumed, more)


def _check_all_read(
    system: ExternalSystem,
    query: SourceQuery,
    written: Sequence[Sequence[Hashable]],
    already: Sequence[dict[str, Any]] = (),
) -> None:
    """The query reads what was written, beyond the rows that it has ``already``."""
    rows = query.run(sum(map(len, written)) - len(already))
    _check_rows([system.identify(row) for row in [*already, *rows]], written)


def _check_rows(found: Sequence[Hashable], written: Sequence[Sequence[Hashable]]) -> None:
    """All rows came, once, in the order of their split."""
    expected = Counter(row for rows in written for row in rows)
    missing, unwanted = expected - Counter(found), Counter(found) - expected
    assert not missing, f"{missing.total()} rows are missing: {list(missing)[:5]}"
    assert not unwanted, f"{unwanted.total()} rows came twice or unasked: {list(unwanted)[:5]}"
    place = {row: i for i, row in enumerate(found)}
    for number, rows in enumerate(written):
        for one, next_one in pairwise(rows):
            assert place[one] < place[next_one], (
                f"rows of split {number} are out of order: {next_one} before {one}"
            )


def _check_serializer(serializer: Any, value: Any) -> None:
    version, data = serializer.version, serializer.serialize(value)
    text = json.dumps(data, sort_keys=True)
    again = serializer.deserialize(version, json.loads(text))
    assert again == value, f"{value} comes back as {again}"
    assert json.dumps(serializer.serialize(again), sort_keys=True) == text, f"{value} has two forms"
    for bad, what in (
        ((version + 1, data), "of a newer version"),
        ((version, {"?": [0]}), "that is damaged"),
    ):
        try:
            accepted = serializer.deserialize(*bad)
        except CheckpointError:
            continue
        raise AssertionError(f"{type(serializer).__name__} takes a state {what} for {accepted}")


def _check_event_times(
    query: SourceQuery,
    enumerator: SupportsEventTimePositions,
    ranges: dict[Any, SplitRange],
    strategy: WatermarkStrategy,
    unit_ms: int,
) -> None:
    request = PositioningRequest(
        {s.split_id: r for s, r in ranges.items()},
        timestamp_assigner=strategy.timestamp_assigner,
        max_out_of_orderness_ms=strategy.max_out_of_orderness_ms,
    )
    view = enumerator.event_time_positions(request)
    seen = {s.split_id: event_times(query, s, r.position, r.end, strategy) for s, r in ranges.items()}
    for split_id, known in view.event_times().items():
        first = next(iter(seen[split_id]), None)
        assert known.next == first, f"split {split_id} begins with event time {first}, not {known.next}"
        assert known.reach is None or known.reach in seen[split_id], (
            f"no record of split {split_id} has the event time {known.reach} that it is said to reach"
        )
    times = sorted({t + more for of_split in seen.values() for t in of_split for more in (0, 1)})
    asked = times[:: max(len(times) // _QUESTIONS, 1)]
    # In another order than that of time: an answer must not depend on those before it.
    answers = {t: view.first_at_or_after(t) for t in [*asked[1::2], *asked[::2]]}
    for split, known_range in ranges.items():
        least = known_range.position, 0
        for t in asked:
            if split.split_id not in answers[t]:
                continue
            position, rows = answers[t][split.split_id]
            where = f"split {split.split_id} may be read up to {position}, {rows} rows, for event time {t}"
            assert least[0] <= position <= known_range.end, (
                f"{where}; it was {least[0]} before, of {known_range}"
            )
            assert least[1] <= rows, f"{where}; it was {least[1]} rows for an earlier time"
            least = position, rows
            before = event_times(query, split, known_range.position, position, strategy)
            later = [x for x in before if x >= t + unit_ms]
            assert not later, f"{where}, but there are records of {later[0]} before that"


def _survey(query: SourceQuery, expected: int) -> tuple[dict[str, SplitTimes], int]:
    """The event times of all splits, none where rows have none, and how many positions they have altogether."""
    splits: dict[str, SplitTimes] = {}
    rows = positions = 0
    while rows < expected:
        start, query.offset = query.wait_for_batch()
        for split, first, end in (piece for task in query.tasks(start, query.offset) for piece in task):
            output = TaskRows(query.source.schema, [(split, first, end)])
            query.read_into(output)
            rows, positions = rows + len(output.rows), positions + end - first
            assigner = query.job.strategy.timestamp_assigner
            known = splits.setdefault(split.split_id, SplitTimes([])).times
            for records, timestamps in output.batches:
                if timestamps is not None or assigner != RecordTimestampAssigner():
                    found = assigner.extract_timestamps(records, timestamps).to_pylist()
                    known += [time for time in found if time is not None]
    return splits, positions
