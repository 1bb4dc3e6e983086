"""A file that is assigned: its units, and their plausible event times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from flip27_stream.connectors.files.backlog.backlog import NO_TIME
from flip27_stream.connectors.files.backlog.processed_files import OrderKey
from flip27_stream.connectors.files.formats.event_times import Divided
from flip27_stream.connectors.files.formats.units import FileUnits
from flip27_stream.connectors.files.planning.positions import UnitTimes
from flip27_stream.connectors.files.split import FileSplit

Look = Callable[[int, int, int], Divided]
"""Reads the event times between two positions, and divides them at a time (ms)."""


@dataclass
class OpenedFile:
    """A file that is assigned, with its units and their event times.

    Attributes:
        split: the file.
        units: its units.
        look: reads the event times of a unit that has plausible and implausible ones.
    """

    split: FileSplit
    units: FileUnits
    look: Look
    _divided: dict[int, Divided] = field(default_factory=dict)

    @cached_property
    def times(self) -> UnitTimes:
        """Event times of the units."""
        return UnitTimes.of(self.units)

    def plausible(self, latest: int | None) -> UnitTimes:
        """Event times of the units, without those after ``latest`` (ms), which are implausible."""
        if latest is None or not len(self.units) or int(self.times.greatest.max()) <= latest:
            return self.times
        times = self.times.plausible(latest)
        mixed = np.flatnonzero((self.times.least <= latest) & (self.times.greatest > latest)).tolist()
        greatest = times.greatest.copy()
        for unit in mixed:
            greatest[unit] = self._greatest(unit, latest)
        return replace(times, greatest=greatest)

    def key(self, position: int, latest: int | None, *, by_event_time: bool) -> OrderKey:
        """The place of the rest of the file in reading order. A rest without event times comes first."""
        if not by_event_time:
            return self.split.modified, self.split.path
        least = self.times.plausible(latest).from_position(position).first
        return (NO_TIME if least is None else least), self.split.path

    def _greatest(self, unit: int, latest: int) -> int:
        """The greatest event time (ms) up to ``latest`` in a unit that also has later event times."""
        known = self._divided.get(unit)
        if known is None or not known.greatest <= latest < known.until:
            start, end = self.units.borders[unit : unit + 2].tolist()
            known = self._divided[unit] = self.look(start, end, latest)
        return known.greatest
