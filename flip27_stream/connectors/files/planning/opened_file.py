"""A file that is assigned, with its units and their plausible event times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from flip27_stream.connectors.files.backlog.backlog import NO_TIME
from flip27_stream.connectors.files.backlog.processed_files import OrderKey
from flip27_stream.connectors.files.formats.event_times import GreatestPlausibleTime
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.planning.positions import UnitTimes
from flip27_stream.connectors.files.split import FileSplit

ReadTimes = Callable[[int, int, int], GreatestPlausibleTime]
"""Reads the event times between two positions, and divides them at a time (ms) into plausible and implausible ones."""


@dataclass
class OpenedFile:
    """An assigned file with its units and their event times.

    Attributes:
        split: The split of the file.
        units: The units of the file.
        read_times: Reads the event times of a unit that has both plausible and implausible ones.
    """

    split: FileSplit
    units: FileUnits
    read_times: ReadTimes
    _greatest_plausible: dict[int, GreatestPlausibleTime] = field(default_factory=dict)

    @cached_property
    def times(self) -> UnitTimes:
        """The event times of the units."""
        return UnitTimes.of(self.units)

    def plausible(self, plausible_until: int | None) -> UnitTimes:
        """Returns the event times of the units, without those after ``plausible_until`` (ms)."""
        if (
            plausible_until is None
            or not len(self.units)
            or int(self.times.greatest.max()) <= plausible_until
        ):
            return self.times
        times = self.times.plausible(plausible_until)
        mixed = np.flatnonzero(
            (self.times.least <= plausible_until) & (self.times.greatest > plausible_until)
        ).tolist()
        greatest = times.greatest.copy()
        for unit in mixed:
            greatest[unit] = self._greatest(unit, plausible_until)
        return replace(times, greatest=greatest)

    def key(self, position: int, plausible_until: int | None, *, by_event_time: bool) -> OrderKey:
        """Returns the place of the unread rest of the file in reading order. A rest without event times comes first.

        Args:
            position: The position up to which the file was read.
            plausible_until: Event times after this time (ms) are implausible; ``None`` if all are plausible.
            by_event_time: Whether files are read by event time, not by modification time.
        """
        if not by_event_time:
            return self.split.modified, self.split.path
        least = self.times.plausible(plausible_until).from_position(position).first
        return (NO_TIME if least is None else least), self.split.path

    def _greatest(self, unit: int, plausible_until: int) -> int:
        """Returns the greatest event time (ms) up to ``plausible_until`` in a unit that also has later ones."""
        known = self._greatest_plausible.get(unit)
        if known is None or not known.greatest <= plausible_until < known.until:
            start, end = self.units.borders[unit : unit + 2].tolist()
            known = self._greatest_plausible[unit] = self.read_times(start, end, plausible_until)
        return known.greatest
