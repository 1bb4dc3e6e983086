"""The numbers of entries in the closed ledgers of a partition. They never change, so each is searched only once."""

from __future__ import annotations

from collections.abc import Callable

from flip27_stream.connectors.pulsar.positions import entry_of, ledger_of, position_at

_FIRST_STEP = 1024


class Ledgers:
    """Counts the entries between positions of one partition.

    Args:
        first_at: Returns the position of the first message at or after a position; ``None`` if there is no message.
    """

    def __init__(self, first_at: Callable[[int], int | None]) -> None:
        self._first_at = first_at
        self._sizes: dict[int, int] = {}
        self._following: dict[int, int] = {}

    def entries_between(self, position: int, end: int) -> int:
        """Returns the number of entries from that of ``position`` up to, not including, that of ``end``."""
        count = 0
        while ledger_of(position) < ledger_of(end):
            following = self._next(ledger_of(position), position)
            if following is None or following > ledger_of(end):
                return count
            count += self._sizes[ledger_of(position)] - entry_of(position)
            position = position_at(following, 0)
        return max(count + entry_of(end) - entry_of(position), 0)

    def after_entries(self, position: int, entries: int, end: int) -> int:
        """Returns the position of the entry that is ``entries`` entries after that of ``position``, at most ``end``."""
        while ledger_of(position) < ledger_of(end):
            following = self._next(ledger_of(position), position)
            left = self._sizes[ledger_of(position)] - entry_of(position)
            if entries < left or following is None:
                break
            entries -= left
            position = position_at(following, 0)
        return min(position_at(ledger_of(position), entry_of(position) + entries), end)

    def _next(self, ledger: int, known: int) -> int | None:
        """Returns the ledger that follows a closed one, and records the size of the closed one.

        The result is ``None`` if no ledger with messages follows.

        Args:
            ledger: The closed ledger.
            known: A position in the closed ledger.
        """
        if ledger not in self._sizes:
            low, step = entry_of(known), _FIRST_STEP
            while (found := self._in(ledger, low + step)) is True:
                low, step = low + step, 2 * step
            high = low + step
            self._following[ledger] = -1 if found is None else found
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self._in(ledger, middle) is True else (low, middle)
            self._sizes[ledger] = high
        following = self._following[ledger]
        return following if following >= 0 else None

    def _in(self, ledger: int, entry: int) -> bool | int | None:
        """Returns true if an entry is in a ledger; otherwise the ledger that follows, or ``None`` if none follows."""
        first = self._first_at(position_at(ledger, entry))
        if first is None:
            return None
        return True if ledger_of(first) == ledger else ledger_of(first)
