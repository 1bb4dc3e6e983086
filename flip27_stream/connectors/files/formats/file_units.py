"""The units of a file, which are the parts that can be read independently, and their statistics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from flip27_stream.arrays import Int64s

NEVER: Final = 2**63 - 1
"""The value of ``least`` for rows without event times; their ``greatest`` is -1."""


@dataclass(frozen=True, eq=False)
class FileUnits:
    """The row groups, stripes or blocks of lines of a file.

    Unit ``i`` has the positions from ``borders[i]`` to ``borders[i + 1]``.

    Attributes:
        borders: The positions of the borders, one more than there are units. The first is 0, the last the end of the
            file.
        rows: The number of rows of each unit; ``None`` if it is unknown until the file is read.
        sizes: The size of each unit (bytes).
        least: The least event time (ms) of each unit; :data:`NEVER` if no row has one or it is unknown; 0 if the least
            value in the statistics is before the epoch.
        greatest: The greatest event time (ms) of each unit; -1 if no row has one or it is unknown.
        known: Whether the event times of each unit are known.
        divisible: Whether a range can begin and end between borders without reading the unit several times.
        deleted: The numbers of deleted rows, ascending, if positions are row numbers. ``rows`` does not count them.
    """

    borders: Int64s
    rows: Int64s | None
    sizes: Int64s
    least: Int64s
    greatest: Int64s
    known: npt.NDArray[np.bool_]
    divisible: bool
    deleted: Int64s = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)

    def __len__(self) -> int:
        return len(self.borders) - 1

    @property
    def end(self) -> int:
        """The position after the last unit."""
        return int(self.borders[-1])

    @property
    def least_event_time(self) -> int | None:
        """The least event time (ms) in the file, or ``None`` if no row has one or :attr:`all_known` is false."""
        least = min(self.least.tolist(), default=NEVER)
        return least if least != NEVER and self.all_known else None

    @property
    def all_known(self) -> bool:
        """Whether the event times of all units are known."""
        return all(self.known.tolist())

    def without(self, deleted: Int64s) -> FileUnits:
        """Returns the units without deleted rows. A unit whose rows are all deleted has no event time.

        Args:
            deleted: The row numbers, ascending.
        """
        assert self.rows is not None
        rows = self.rows - np.diff(np.searchsorted(deleted, self.borders))
        some = rows > 0
        return replace(
            self,
            rows=rows,
            least=np.where(some, self.least, NEVER),
            greatest=np.where(some, self.greatest, -1),
            known=self.known | ~some,
            deleted=deleted,
        )

    def rows_between(self, start: int, end: int) -> int:
        """Returns the number of rows from ``start`` to before ``end`` that are not deleted.

        Positions must be row numbers.
        """
        first, stop = np.searchsorted(self.deleted, [start, end]).tolist()
        return end - start - int(stop - first)

    def behind_rows(self, position: int, count: int) -> int:
        """Returns the position after the next ``count`` rows that are not deleted.

        It can be after the end of the file.
        """
        deleted = self.deleted[np.searchsorted(self.deleted, position) :]
        # The number of rows before each deleted row that are not deleted.
        before = deleted - position - np.arange(len(deleted))
        return position + count + int(np.searchsorted(before, count - 1, "right"))
