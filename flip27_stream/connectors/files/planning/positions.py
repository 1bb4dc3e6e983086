"""Positions by event time in files. They are borders of units, and are found with the statistics of units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest
from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.file_units import NEVER, FileUnits


@dataclass(frozen=True)
class UnitTimes:
    """The borders of a file's units, and their least and greatest event times (ms); see :class:`FileUnits`."""

    borders: Int64s
    least: Int64s
    greatest: Int64s

    @staticmethod
    def of(units: FileUnits) -> UnitTimes:
        return UnitTimes(units.borders, units.least, units.greatest)

    def plausible(self, plausible_until: int | None) -> UnitTimes:
        """Returns the times without those after ``plausible_until`` (ms).

        The least time of a unit that also has plausible times is unchanged.
        """
        if plausible_until is None or max(self.greatest.tolist(), default=-1) <= plausible_until:
            return self
        least = np.where(self.least > plausible_until, NEVER, self.least)
        inside = np.where(least == NEVER, -1, least)
        return UnitTimes(
            self.borders, least, np.where(self.greatest > plausible_until, inside, self.greatest)
        )

    def from_position(self, position: int) -> UnitTimes:
        """Returns the units from ``position`` on, including a unit that was read in part."""
        if position <= self.borders[0]:
            return self
        first = int(np.searchsorted(self.borders, position, "right")) - 1
        return UnitTimes(self.borders[first:], self.least[first:], self.greatest[first:])

    def until(self, end: int) -> UnitTimes:
        """Returns the units that begin before position ``end``."""
        if end >= self.borders[-1]:
            return self
        count = int(np.searchsorted(self.borders[:-1], end, "left"))
        return UnitTimes(self.borders[: count + 1], self.least[:count], self.greatest[:count])

    @property
    def first(self) -> int | None:
        """The least event time (ms), or ``None`` if there are no event times."""
        least: int = min(self.least.tolist(), default=NEVER)  # This is faster than numpy for few units.
        return None if least == NEVER else least

    @property
    def last(self) -> int | None:
        """The greatest event time (ms), or ``None`` if there are no event times."""
        greatest: int = max(self.greatest.tolist(), default=-1)
        return None if greatest < 0 else greatest

    def border(self, event_time: int) -> int | None:
        """Returns the border up to which a file is read if all units with times before ``event_time`` are read.

        The border is after the last such unit, and after the units without event times that follow it.

        Args:
            event_time: The event time (ms).

        Returns:
            A position; ``None`` for the end of the file.
        """
        found = None
        least = self.least.tolist()
        for unit in reversed(range(len(least))):
            if least[unit] < event_time:
                break
            if least[unit] != NEVER:
                found = unit
        return None if found is None else int(self.borders[found])


class FilePositions(EventTimePositions):
    """The positions by event time in the ranges of one plan.

    A unit is read as a whole. If one of its event times is before the horizon, all of its rows are read. So a batch can
    exceed the horizon by the span of event times in one unit.

    If the limits allow nothing of a split in this plan, its range is empty. Its event time is then that of the next
    row, not the greatest one that was read, with which it would hold back other splits for ever.

    Args:
        times: The event times of the units of each split in the request.
        request: The request of the plan.
        waiting: The least event time (ms) outside of the ranges: in the backlog, and in the parts of files that the
            limits leave out.
    """

    def __init__(
        self,
        times: Mapping[str, UnitTimes],
        request: PositioningRequest,
        waiting: int | None = None,
    ) -> None:
        plausible_until = request.plausible_until
        self._ranges = request.ranges
        self._rests = {
            name: unit_times.plausible(plausible_until).from_position(request.ranges[name].position)
            for name, unit_times in times.items()
        }
        if waiting is not None and plausible_until is not None and waiting > plausible_until:
            waiting = None
        self._waiting = waiting

    def event_times(self) -> Mapping[str, EventTimes]:
        return {name: self._times_of(name, rest) for name, rest in self._rests.items()}

    def _times_of(self, name: str, rest: UnitTimes) -> EventTimes:
        r = self._ranges[name]
        if r.position == r.end:
            return EventTimes(rest.first, rest.first)
        part = rest.until(r.end)
        return EventTimes(part.first, part.last)

    def first_at_or_after(self, event_time: int) -> Mapping[str, tuple[int, int]]:
        found = {}
        for name, rest in self._rests.items():
            r = self._ranges[name]
            border = rest.border(event_time)
            position = r.end if border is None else min(max(border, r.position), r.end)
            found[name] = position, position - r.position
        return found

    def least_to_come(self) -> int | None:
        return self._waiting
