"""Positions by event time for streams whose event time is the arrival time, for which the service has an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from flip27_stream.api import (
    EventTimePositions,
    EventTimes,
    PositioningRequest,
    SplitRange,
    SupportsEventTimePositions,
)
from flip27_stream.connectors.kinesis.planning.enumerator import KinesisSourceEnumerator
from flip27_stream.connectors.kinesis.planning.shard_log import ShardLog
from flip27_stream.connectors.kinesis.records.columns import ARRIVAL, is_arrival
from flip27_stream.errors import AlignmentError
from flip27_stream.threads import CallPool


class TimedKinesisSourceEnumerator(KinesisSourceEnumerator, SupportsEventTimePositions):
    """An enumerator that finds positions by event time, which must be the arrival time."""

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        """Returns the positions by arrival time in the ranges of ``request``.

        Raises:
            AlignmentError: The event time of the request is not the arrival time.
        """
        if not is_arrival(request.timestamp_assigner):
            raise AlignmentError(
                "The service finds records of a Kinesis stream by the time at which they arrived, not by an event "
                f"time in their data or in converted rows: take '{ARRIVAL}' as event time, in a hybrid source by "
                f'add_source(..., event_time="{ARRIVAL}"), or read the stream outside of a hybrid source, where it '
                "is aligned by the reports of tasks."
            )
        logs = {name: self._logs[name] for name in request.ranges}
        return ArrivalTimes(self._pool, logs, request.ranges, self._least_to_come)

    def _least_to_come(self) -> int | None:
        """Returns the least arrival time (ms) in shards whose parents are not processed yet."""
        waiting = [self._split(stream, shard) for stream, shard in self._waiting()]
        unknown = {s.split_id: s for s in waiting if s.split_id not in self._first_times}
        found = self._pool.results(
            {
                name: ShardLog(self._client, split, self._options.settling_time_ms).first_time
                for name, split in unknown.items()
            }
        )
        self._first_times.update({name: t for name, t in found.items() if t is not None})
        times = [self._first_times[s.split_id] for s in waiting if s.split_id in self._first_times]
        return min(times, default=None)


class ArrivalTimes(EventTimePositions):
    """Positions by arrival time within the ranges of one plan."""

    def __init__(
        self,
        pool: CallPool,
        logs: Mapping[str, ShardLog],
        ranges: Mapping[str, SplitRange],
        least_to_come: Callable[[], int | None],
    ) -> None:
        self._pool = pool
        self._logs = logs
        self._ranges = ranges
        self._least = least_to_come

    def event_times(self) -> Mapping[str, EventTimes]:
        return {
            name: EventTimes(self._logs[name].next_time, self._logs[name].reach(r.end))
            for name, r in self._ranges.items()
        }

    def rows_before(self, event_time: int) -> Mapping[str, int]:
        return {name: self._logs[name].rows_before(event_time, r.end) for name, r in self._ranges.items()}

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        positions = self._pool.results(
            {name: partial(self._logs[name].cut_at, event_time, r.end) for name, r in self._ranges.items()}
        )
        return {name: (position, self._logs[name].rows_to(position)) for name, position in positions.items()}

    def least_to_come(self) -> int | None:
        return self._least()
