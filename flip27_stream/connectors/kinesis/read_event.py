"""The event with which a task reports the numbers and arrival times of the records that it has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flip27_stream.api import JsonValue, SourceEvent

_NAME = "kinesis.read"


@dataclass(frozen=True)
class RangeRead:
    """The number of records in a range of a split, and the arrival times (ms) of the first and the last record."""

    split_id: str
    rows: int
    first_time: int
    last_time: int


@dataclass(frozen=True)
class ShardRangesRead:
    """The ranges that a task has read."""

    ranges: Sequence[RangeRead]

    def event(self) -> SourceEvent:
        payload: list[JsonValue] = [[r.split_id, r.rows, r.first_time, r.last_time] for r in self.ranges]
        return SourceEvent(_NAME, payload)

    @staticmethod
    def of(event: SourceEvent) -> ShardRangesRead | None:
        """Returns the report in an event; ``None`` if the event is of another kind, or another release sent it."""
        if event.name != _NAME or not isinstance(event.payload, list):
            return None
        ranges = []
        for entry in event.payload:
            match entry:
                case [str(split_id), int(rows), int(first), int(last)]:
                    ranges.append(RangeRead(split_id, rows, first, last))
                case _:
                    return None
        return ShardRangesRead(ranges)
