"""The limits of a micro-batch on files, bytes and rows, and the part of each file that fits them."""

from __future__ import annotations

import numpy as np

from flip27_stream.connectors.files.formats.units import FileUnits, Int64s


class Budget:
    """The limits of a micro-batch, which are used up by files in reading order until one does not fit.

    Files are cut between units. A batch has at least one unit, however large it is. If positions are rows, a batch
    never has more rows than the limit.

    Args:
        files: how many files are read at most; ``None`` for all.
        size: how many bytes, likewise.
        rows: how many rows, likewise.
        exact_rows: whether a file can be cut anywhere, since its positions are rows.
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
        """The end position of the next file, which is at ``position``."""
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
    """The rest of each unit from ``first`` on, of which a part was read."""
    rest: Int64s = amounts[first:].copy()
    whole = int(borders[first + 1] - borders[first])
    if whole and position > borders[first]:
        rest[0] = -(-int(rest[0]) * int(borders[first + 1] - position) // whole)
    return rest


def _fitting(amounts: Int64s, limit: int) -> int:
    return int(np.searchsorted(np.cumsum(amounts), limit, "right"))
