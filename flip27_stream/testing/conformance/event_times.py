"""Checks of positions by event time, and of alignment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import closing
from functools import cache
from typing import Any

from flip27_stream.api import (
    PositioningRequest,
    SplitRange,
    SupportsEventTimePositions,
    WatermarkStrategy,
)
from flip27_stream.errors import ImplausibleEventTimeError
from flip27_stream.testing.aligned_run import MAX_FUTURE_MS, AlignedRun, SplitTimes, event_times, plausible
from flip27_stream.testing.conformance.checks import RECORDS, Checks, check_rows
from flip27_stream.testing.conformance.survey import survey
from flip27_stream.testing.conformance.system import ExternalSystem
from flip27_stream.testing.source_query import SourceQuery
from flip27_stream.wall_clock import now_ms

_DRIFT_PART = 8
_BATCHES = 6
_QUESTIONS = 40
_BEGIN = 1_700_000_000_000
_DAY_MS = 86_400_000


class EventTimeChecks(Checks):
    """Checks of event times. They pass for a source whose rows have no event time."""

    def test_event_time_positions(self) -> None:
        """Checks positions by event time.

        They never decrease as the time grows, they lie in the range, and no row before a position is later.

        The check passes for a source whose enumerator does not support such positions.
        """
        with closing(self.create_system()) as system:
            for number in range(3):
                system.write(number, RECORDS)
            self._check_positions(system, None)

    def test_alignment(self) -> None:
        """Checks that aligned splits are read to the end, with a restart, and that every batch can be replayed.

        If the source supports positions by event time, no split is ever further ahead than allowed (I3).
        """
        with closing(self.create_system()) as system:
            written = [system.write(number, RECORDS) for number in range(3)]
            run = self._align(system, sum(map(len, written)))
            if run is not None:
                check_rows(system, run.rows, written)
                run.check_replays()

    def test_null_and_implausible_event_times(self) -> None:
        """Checks invariant I12: records without an event time are read with the records around them.

        A record from far in the future neither holds back nor advances any split. According to the options it is
        skipped, passed on, or fails the query.
        """
        now = now_ms()
        plausible_until = now + MAX_FUTURE_MS
        with closing(self.create_system()) as system:
            written = [system.write_at(split, times) for split, times in enumerate(_odd_times(now))]
            self._check_positions(system, plausible_until)
            future = {row for split, i in _FUTURE for row in [written[split][i]]}
            expected = sum(map(len, written))
            for policy, kept in (("pass", written), ("skip", _without(written, future))):
                rows = self._align(system, expected, sum(map(len, kept)), policy, plausible_until)
                assert rows is not None
                check_rows(system, rows.rows, kept)
            self._check_refusal(system, expected, plausible_until)

    def _check_refusal(self, system: ExternalSystem, expected: int, plausible_until: int) -> None:
        try:
            self._align(system, expected, expected, "fail", plausible_until)
        except ImplausibleEventTimeError:
            return
        raise AssertionError("a record from far in the future was read, and nothing failed")

    def _check_positions(self, system: ExternalSystem, plausible_until: int | None) -> None:
        with SourceQuery(system.source) as query, query.enumerator() as (enumerator, splits):
            if isinstance(enumerator, SupportsEventTimePositions):
                found = enumerator.split_ranges(dict.fromkeys(splits))
                ranges = {s: found[s.split_id] for s in splits if s.split_id in found}
                _check_event_times(query, enumerator, ranges, self.strategy, self.unit_ms, plausible_until)

    def _align(
        self,
        system: ExternalSystem,
        there: int,
        expected: int | None = None,
        policy: str = "fail",
        plausible_until: int | None = None,
    ) -> AlignedRun | None:
        """Reads all rows with alignment, and returns the run; ``None`` if the rows have no event times."""
        with SourceQuery(system.source, strategy=self.strategy) as query, query.enumerator() as (found, _):
            known = survey(query, there)
            exact = isinstance(found, SupportsEventTimePositions)
        splits = {
            name: SplitTimes(plausible(split.times, plausible_until)) for name, split in known.splits.items()
        }
        times = [t for split in splits.values() for t in split.times]
        if not times:
            return None
        run = AlignedRun(
            system.source,
            self.strategy,
            max_drift_ms=max((max(times) - min(times)) // _DRIFT_PART, 1),
            unit_ms=self.unit_ms,
            limit=max(known.positions // _BATCHES, 1),
            splits=splits,
            exact=exact,
            splits_finish=self.splits_finish,
            plausible_until=plausible_until,
            implausible=policy,
        )
        run.run(there if expected is None else expected)
        return run


_FUTURE = (0, 4), (1, 0), (1, 22)
_WITHOUT = (0, 0), (0, 7), (0, 22), (1, 1), (1, 5)


def _odd_times(now: int) -> list[list[int | None]]:
    """Returns event times of three splits.

    Some are missing, some are far after ``now``, and the last split has no event times.
    """
    times: list[list[int | None]] = [
        [_BEGIN + 1000 * split + 10 * i for i in range(RECORDS)] for split in range(2)
    ]
    for split, i in _WITHOUT:
        times[split][i] = None
    for split, i in _FUTURE:
        times[split][i] = now + 365 * _DAY_MS
    return [*times, [None] * 3]


def _without(written: Sequence[Sequence[Hashable]], left_out: set[Hashable]) -> list[list[Hashable]]:
    return [[row for row in of_split if row not in left_out] for of_split in written]


def _check_event_times(
    query: SourceQuery,
    enumerator: SupportsEventTimePositions,
    ranges: dict[Any, SplitRange],
    strategy: WatermarkStrategy,
    unit_ms: int,
    plausible_until: int | None,
) -> None:
    request = PositioningRequest(
        {s.split_id: r for s, r in ranges.items()},
        plausible_until=plausible_until,
        timestamp_assigner=strategy.timestamp_assigner,
        max_out_of_orderness_ms=strategy.max_out_of_orderness_ms,
    )
    view = enumerator.event_time_positions(request)

    @cache  # Cached, because most answers are the same few positions.
    def read(split: Any, start: int, end: int) -> list[int]:
        return plausible(event_times(query, split, start, end, strategy), plausible_until)

    seen = {s.split_id: read(s, r.position, r.end) for s, r in ranges.items()}
    for split_id, known in view.event_times().items():
        first = next(iter(seen[split_id]), None)
        assert known.next == first, f"split {split_id} begins with event time {first}, not {known.next}"
        assert known.reach is None or known.reach in seen[split_id], (
            f"no record of split {split_id} has event time {known.reach}, which the enumerator returned as reach"
        )
    times = sorted({t + more for of_split in seen.values() for t in of_split for more in (0, 1)})
    asked = times[:: max(len(times) // _QUESTIONS, 1)]
    # Not in the order of time, since an answer must not depend on earlier answers.
    answers = {t: view.first_at_or_after(t) for t in [*asked[1::2], *asked[::2]]}
    for split, known_range in ranges.items():
        least = known_range.position, 0
        for t in asked:
            if split.split_id not in answers[t]:
                continue
            position, rows = answers[t][split.split_id]
            where = f"split {split.split_id} may be read up to {position}, {rows} rows, for event time {t}"
            assert least[0] <= position <= known_range.end, (
                f"{where}; an earlier time gave {least[0]}; the range is {known_range}"
            )
            assert least[1] <= rows, f"{where}; an earlier time gave {least[1]} rows"
            least = position, rows
            later = [x for x in read(split, known_range.position, position) if x >= t + unit_ms]
            assert not later, f"{where}, but a record before that position has event time {later[0]}"
