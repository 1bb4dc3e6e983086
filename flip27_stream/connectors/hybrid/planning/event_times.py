"""Positions by event time in the splits of the active source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flip27_stream.api import EventTimePositions, EventTimes
from flip27_stream.connectors.hybrid.split import split_id


class HybridEventTimePositions(EventTimePositions):
    """The positions of the active source, by the ids that its splits have in the hybrid source.

    Args:
        positions: The positions of the active source.
        index: The index of the active source.
        saw: A callback that gets the event times, by split id of the active source.
    """

    def __init__(
        self,
        positions: EventTimePositions,
        index: int,
        saw: Callable[[Mapping[str, EventTimes]], None],
    ) -> None:
        self._positions = positions
        self._index = index
        self._saw = saw

    def event_times(self) -> Mapping[str, EventTimes]:
        times = self._positions.event_times()
        self._saw(times)
        return {split_id(self._index, name): t for name, t in times.items()}

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        found = self._positions.first_at_or_after(event_time)
        return {split_id(self._index, name): position for name, position in found.items()}

    def rows_before(self, event_time: int) -> Mapping[str, int] | None:
        rows = self._positions.rows_before(event_time)
        return None if rows is None else {split_id(self._index, name): n for name, n in rows.items()}

    def least_to_come(self) -> int | None:
        return self._positions.least_to_come()


class NothingToRead(EventTimePositions):
    """The positions of a source that has nothing to read now."""

    def event_times(self) -> Mapping[str, EventTimes]:
        return {}

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        return {}
