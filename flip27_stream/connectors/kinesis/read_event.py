"""What a task tells of the ranges that it has read: how many records, and over what time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flip27_stream.api import JsonValue, SourceEvent

_NAME = "kinesis.read"


@dataclass(frozen=True)
class RangeRead:
    """A range of a split: its records, and when the first and the last arrived (ms)."""

    split_id: str
    rows: int
    first_time: int
    last_time: int


@dataclass(frozen=True)
class RangesRead:
    """The ranges of a task."""

    ranges: Sequence[RangeRead]

    def event(self) -> SourceEvent:
        told: list[JsonValue] = [[r.split_id, r.rows, r.first_time, r.last_time] for r in self.ranges]
        return SourceEvent(_NAME, told)

    @staticmethod
    def of(event: SourceEvent) -> RangesRead | None:
        """What the event says; ``None`` if it is another one, or of another release."""
        if event.name != _NAME or not isinstance(event.payload, list):
            return None
        ranges = []
        for told in event.payload:
            match told:
                case [str(split_id), int(rows), int(first), int(last)]:
                    ranges.append(RangeRead(split_id, rows, first, last))
                case _:
                    return None
        return RangesRead(ranges)
