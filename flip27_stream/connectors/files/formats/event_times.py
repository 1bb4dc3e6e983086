"""The least and greatest event times of many rows, as statistics have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.file_units import NEVER
from flip27_stream.errors import RecordFormatError
from flip27_stream.event_time.units import MILLISECONDS, milliseconds_of

_MS_PER_DAY = 86_400_000


@dataclass(frozen=True)
class TimeRange:
    """The least and greatest event time (ms) of some rows; ``None`` without one. Negative times are ignored."""

    least: int | None
    greatest: int | None

    @classmethod
    def of(cls, least: int, greatest: int, kind: pa.DataType) -> TimeRange:
        """Returns the range between two values of a column of type ``kind``, given as integers.

        If the least value is before the epoch, the least time is 0.
        """
        if greatest < 0:
            return NO_TIMES
        return cls(_milliseconds(max(least, 0), kind), _milliseconds(greatest, kind))

    @classmethod
    def of_column(cls, column: pa.Array | pa.ChunkedArray) -> TimeRange:
        """Returns the range of the values in ``column``, whose type :func:`check_time_column` accepts."""
        if pt.is_date32(column.type):
            column = column.cast(pa.timestamp("ms"))
        ticks = column.cast(pa.int64())
        found = pc.min_max(ticks.filter(pc.greater_equal(ticks, 0)))
        least, greatest = found["min"].as_py(), found["max"].as_py()
        return NO_TIMES if least is None else cls.of(least, greatest, column.type)

    def __or__(self, other: TimeRange) -> TimeRange:
        least = [t.least for t in (self, other) if t.least is not None]
        greatest = [t.greatest for t in (self, other) if t.greatest is not None]
        return TimeRange(min(least, default=None), max(greatest, default=None))


NO_TIMES = TimeRange(None, None)


@dataclass(frozen=True)
class GreatestPlausibleTime:
    """The greatest event time of some rows that is plausible: not after the bound with which the rows were read.

    Attributes:
        greatest: That event time (ms); -1 if no row has one.
        until: The least event time of the rows that is after the bound (ms); :data:`NEVER` without one. For a later
            bound that is still before this time, ``greatest`` is the same, and the rows need not be read again.
    """

    greatest: int = -1
    until: int = NEVER

    def __or__(self, other: GreatestPlausibleTime) -> GreatestPlausibleTime:
        return GreatestPlausibleTime(max(self.greatest, other.greatest), min(self.until, other.until))

    @classmethod
    def of_times(cls, times: pa.Int64Array, plausible_until: int) -> GreatestPlausibleTime:
        """Returns the greatest of ``times`` (ms) up to ``plausible_until``. Null and negative times are ignored."""
        found = times.drop_null().to_numpy()
        plausible, others = found[(found >= 0) & (found <= plausible_until)], found[found > plausible_until]
        return cls(int(plausible.max(initial=-1)), int(others.min(initial=NEVER)))


def event_time_columns(ranges: Iterable[TimeRange | None]) -> tuple[Int64s, Int64s, npt.NDArray[np.bool_]]:
    """Returns the fields ``least``, ``greatest`` and ``known`` of :class:`FileUnits`. ``None`` is an unknown range."""
    listed = list(ranges)
    return (
        np.array([NEVER if r is None or r.least is None else r.least for r in listed], np.int64),
        np.array([-1 if r is None or r.greatest is None else r.greatest for r in listed], np.int64),
        np.array([r is not None for r in listed], bool),
    )


def check_time_column(kind: pa.DataType, column: str, what: str) -> None:
    """Checks that the type of a column can be event time.

    A file can have a narrower type than the query: an integer of fewer bytes, or a date.

    Raises:
        RecordFormatError: The type cannot be event time.
    """
    if not (pt.is_timestamp(kind) or pt.is_signed_integer(kind) or pt.is_date32(kind)):
        raise RecordFormatError(
            f"Column '{column}' of {what} is {kind}; event time is a timestamp, or int64 in ms."
        )


def _milliseconds(ticks: int, kind: pa.DataType) -> int:
    if pt.is_date32(kind):
        return ticks * _MS_PER_DAY
    return milliseconds_of(ticks, kind.unit if pt.is_timestamp(kind) else MILLISECONDS)
