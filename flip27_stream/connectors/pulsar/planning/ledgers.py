"""The numbers of entries in the closed ledgers of a partition, which never change and are searched only once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flip27_stream.connectors.pulsar.positions import entry_of, ledger_of, position_at

_FIRST_STEP = 1024
_MOST_CALLS = 100
"""How many calls one plan makes for a partition, at most about a second. A partition can have thousands of ledgers."""


@dataclass(frozen=True)
class _Closed:
    """The number of entries of a closed ledger, and the next ledger that has messages."""

    entries: int
    following: int


class Ledgers:
    """Counts the entries between positions of one partition. Ledgers that it has not searched yet are estimated.

    Args:
        first_at: Returns the position of the first message at or after a position; ``None`` if there is no message.
    """

    def __init__(self, first_at: Callable[[int], int | None]) -> None:
        self._first_at = first_at
        self._closed: dict[int, _Closed] = {}
        self._last_size = 0
        self._calls = 0

    def begin_plan(self) -> None:
        """Begins a plan, which may make a limited number of calls to the broker."""
        self._calls = 0

    def entries_between(self, position: int, end: int) -> int:
        """Returns the number of entries from the entry of ``position`` to the entry of ``end`` (exclusive)."""
        count = 0
        while ledger_of(position) < ledger_of(end):
            closed = self._search(position)
            if closed is None:
                return count + self._estimate(position, end)
            if closed.following > ledger_of(end):
                return count
            count += closed.entries - entry_of(position)
            position = position_at(closed.following, 0)
        return max(count + entry_of(end) - entry_of(position), 0)

    def after_entries(self, position: int, entries: int, end: int) -> int:
        """Returns the position of the entry that is ``entries`` entries after that of ``position``, at most ``end``.

        If it is in a ledger that is not searched yet, the result is before it, and after ``position``.
        """
        while ledger_of(position) < ledger_of(end):
            closed = self._search(position)
            if closed is None:
                return min(position_at(ledger_of(position), entry_of(position) + 1), end)
            left = closed.entries - entry_of(position)
            if entries < left:
                break
            entries -= left
            position = position_at(closed.following, 0)
        return min(position_at(ledger_of(position), entry_of(position) + entries), end)

    def _estimate(self, position: int, end: int) -> int:
        """Returns about how many entries lie between two ledgers: as many for each id as in the searched ledgers."""
        entries = sum(closed.entries for closed in self._closed.values())
        ids = sum(closed.following - ledger for ledger, closed in self._closed.items())
        density = entries / ids if ids else _FIRST_STEP
        return max(int(density * (ledger_of(end) - ledger_of(position))), 1) + entry_of(end)

    def _search(self, known: int) -> _Closed | None:
        """Returns the size and the successor of the closed ledger that has an entry at the position ``known``.

        The result is ``None`` if this plan may make no further calls, or if no message follows.
        """
        ledger = ledger_of(known)
        if ledger not in self._closed and self._calls < _MOST_CALLS:
            low, high, following = entry_of(known), None, None
            # The ledgers of a partition usually have the same number of entries.
            guess = self._last_size if self._last_size > low else None
            at, step = (low + _FIRST_STEP, _FIRST_STEP) if guess is None else (guess, 1)
            while high is None or high - low > 1:
                found = self._following(ledger, at)
                if found == ledger:
                    low = at
                else:
                    high, following = at, found
                if high is None:
                    at, step = low + step, 2 * step
                else:
                    at = high - 1 if at == guess else (low + high) // 2
            if following is not None:
                self._closed[ledger], self._last_size = _Closed(high, following), high
        return self._closed.get(ledger)

    def _following(self, ledger: int, entry: int) -> int | None:
        """Returns ``ledger`` if an entry is in it; otherwise the ledger that follows, or ``None`` if none follows."""
        self._calls += 1
        first = self._first_at(position_at(ledger, entry))
        return None if first is None else ledger_of(first)
