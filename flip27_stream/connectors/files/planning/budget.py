"""The limits of a micro-batch on files, bytes and rows, and the part of each file that they allow."""

from __future__ import annotations

import numpy as np

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.file_units import FileUnits


class Budget:
    """The rest of the limits of a micro-batch. Files use it up in reading order, until a file does not fit.

    Files are divided at borders of units. A batch has at least one unit, even if the unit exceeds the limits. If
    positions are rows, a batch never has more rows than the limit.

    Args:
        files: The greatest number of files; ``None`` for no limit.
        size: The greatest number of bytes; ``None`` for no limit.
        rows: The greatest number of rows; ``None`` for no limit.
        exact_rows: Whether positions are rows, so that a file can be divided anywhere.
    """

    def __init__(
        self,
        files: int | None = None,
        size: int | None = None,
        rows: int | None = None,
        *,
        exact_rows: bool = True,
    ) -> None:
        self._files, self._size, self._rows = files, size, rows
        self._exact = exact_rows
        self._used = False
        self.spent = False

    def end(self, units: FileUnits, position: int) -> int:
        """Returns the end position of the next file in this batch, and uses up its part of the limits.

        Args:
            units: The units of the file.
            position: The position from which the file is read.
        """
        end = units.end if self._size is None and self._rows is None else self._cut(units, position)
        self.spent = self.spent or end < units.end
        if end > position:
            self._used = True
            if self._files is not None:
                self._files -= 1
                self.spent = self.spent or self._files <= 0
        return end

    def _cut(self, units: FileUnits, position: int) -> int:
        borders = units.borders
        first = int(np.searchsorted(borders, position, "right")) - 1
        fitting = len(units) - first
        if self._size is not None:
            sizes = _rest(units.sizes, borders, first, position)
            fitting = min(fitting, _fitting(sizes, self._size))
        if self._rows is not None and units.rows is not None:
            rows = _rest(units.rows, borders, first, position)
            if self._exact:
                rows[0] = units.rows_between(position, int(borders[first + 1]))
            fitting = min(fitting, _fitting(rows, self._rows))
        if not fitting and self._used:
            return position
        count = max(fitting, 1)
        end = int(borders[first + count])
        if self._size is not None:
            self._size -= min(int(sizes[:count].sum()), self._size)
        if self._rows is not None and units.rows is not None:
            if self._exact:
                end = min(end, units.behind_rows(position, self._rows))
            self._rows -= min(int(rows[:count].sum()), self._rows)
        return end


def _rest(amounts: Int64s, borders: Int64s, first: int, position: int) -> Int64s:
    """Returns the bytes or rows that are left to read in each unit from unit ``first`` on.

    Args:
        amounts: The bytes or rows of each unit of the file.
        borders: The positions of the borders of the units.
        first: The index of the unit that contains ``position``.
        position: The position up to which the file was read.
    """
    rest: Int64s = amounts[first:].copy()
    whole = int(borders[first + 1] - borders[first])
    if whole and position > borders[first]:
        rest[0] = -(-int(rest[0]) * int(borders[first + 1] - position) // whole)
    return rest


def _fitting(amounts: Int64s, limit: int) -> int:
    return int(np.searchsorted(np.cumsum(amounts), limit, "right"))
