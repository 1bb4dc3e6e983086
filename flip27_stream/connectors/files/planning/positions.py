"""Positions by event time in files. They lie between units and come from the statistics of units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flip27_stream.api import EventTimePositions, EventTimes, PositioningRequest
from flip27_stream.connectors.files.formats.units import NEVER, FileUnits, Int64s


@dataclass(frozen=True)
class UnitTimes:
    """Event times (ms) of the units of a file, as :class:`FileUnits` has them."""

    borders: Int64s
    least: Int64s
    greatest: Int64s

    @staticmethod
    def of(units: FileUnits) -> UnitTimes:
        return UnitTimes(units.borders, units.least, units.greatest)

    def plausible(self, latest: int | None) -> UnitTimes:
        """The times without those after ``latest``. A unit that begins before ``latest`` keeps its least time."""
        if latest is None or max(self.greatest.tolist(), default=-1) <= latest:
            return self
        least = np.where(self.least > latest, NEVER, self.least)
        inside = np.where(least == NEVER, -1, least)
        return UnitTimes(self.borders, least, np.where(self.greatest > latest, inside, self.greatest))

    def from_position(self, position: int) -> UnitTimes:
        """The units from ``position`` on, including a unit that was read in part."""
        if position <= self.borders[0]:
            return self
        first = int(np.searchsorted(self.borders, position, "right")) - 1
        return UnitTimes(self.borders[first:], self.least[first:], self.greatest[first:])

    def until(self, end: int) -> UnitTimes:
        """The units that begin before ``end``."""
        if end >= self.borders[-1]:
            return self
        count = int(np.searchsorted(self.borders[:-1], end, "left"))
        return UnitTimes(self.borders[: count + 1], self.least[:count], self.greatest[:count])

    @property
    def first(self) -> int | None:
        """The least event time; ``None`` if there is none."""
        least: int = min(self.least.tolist(), default=NEVER)  # of most files there are few
        return None if least == NEVER else least

    @property
    def last(self) -> int | None:
        """The greatest event time; ``None`` if there is none."""
        greatest: int = max(self.greatest.tolist(), default=-1)
        return None if greatest < 0 else greatest

    def border(self, event_time: int) -> int | None:
        """The border behind the last unit with a time before ``event_time``, and behind units without times after it.

        ``None`` for the end of the file.
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
    """The ranges of one plan by event time.

    A unit is read as a whole: one that has something before an event time is read with all that it has. So a batch can
    read over the horizon by what one unit spans.

    A range is empty where the limits let nothing be read of a split now. Where it goes on says how far the others may
    go; the greatest event time that was read of it would hold those that come before that for ever.

    Args:
        times: of the units of each split in the request.
        request: the plan's.
        waiting: least event time (ms) of what is in no range: files of the backlog, and what limits leave of others.
    """

    def __init__(
        self,
        times: Mapping[str, UnitTimes],
        request: PositioningRequest,
        waiting: int | None = None,
    ) -> None:
        latest = request.plausible_until
        self._ranges = request.ranges
        self._rests = {
            name: unit_times.plausible(latest).from_position(request.ranges[name].position)
            for name, unit_times in times.items()
        }
        self._waiting = waiting if waiting is not None and (latest is None or waiting <= latest) else None

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
