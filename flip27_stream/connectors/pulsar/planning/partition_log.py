"""One partition in the planning process: the position up to which it can be read, and the number of rows."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flip27_stream.api import SplitRange
from flip27_stream.connectors.pulsar.client.client import SEEN_MS, PulsarClient
from flip27_stream.connectors.pulsar.client.looks import Tip
from flip27_stream.connectors.pulsar.options.start import AtTime, Begin, StartKind
from flip27_stream.connectors.pulsar.planning.ledgers import Ledgers
from flip27_stream.connectors.pulsar.planning.scan import Scan
from flip27_stream.connectors.pulsar.positions import (
    EARLIEST,
    behind_entry,
    described,
    is_behind_entry,
    ledger_of,
    position_of,
)

_HEAD = 100
_VISIBLE, _VISIBLE_BYTES = 5000, 4 << 20
"""The number and size (bytes) of unread messages before a hidden last entry from which on planning reads no more."""
_QUICK_MS = 500
"""The time (ms) to wait for a message of a partition that is known to have a hidden last entry."""
_SLACK = 4
"""How many times as long as the first message of the last look may the next message take."""
_PATIENT_EVERY = 20
"""After so many looks that found nothing, one look waits for some seconds: the broker may have become slower."""
_MOST_COUNTED = 1000
"""The greatest row limit that is kept exactly, by counting. A greater limit is kept by estimates."""


@dataclass(frozen=True)
class LostLedger:
    """The ledger of the next position to read does not exist any more.

    Attributes:
        position: The next position to read.
        why: A description of the missing ledger or of the messages found.
        was_end: Whether no message was at or after ``position`` at the last look: in this process, or when the query
            began after an entry of a transaction, whose ledger may never have a message. Then messages are lost only
            if they came after that look and were trimmed before this one.
    """

    position: int
    why: str
    was_end: bool


class PartitionLog:
    """Finds the ranges of one partition.

    Each end is directly after or before a message that was read, and entries never change. So a range always has
    the same messages.

    Args:
        client: Makes the calls to the brokers.
        topic: The partition.
        lose: Called if the ledger of the next position does not exist any more, once for each position. It raises an
            error, or returns if the query goes on.
    """

    def __init__(self, client: PulsarClient, topic: str, lose: Callable[[LostLedger], None]) -> None:
        self.client = client
        self.topic = topic
        self.scan = Scan()
        self.last: Any | None = None
        self._lose = lose
        self._seen_end: int | None = None
        self._told: int | None = None
        self._is_hidden = False
        self._goes_on = False
        self._has_looked = False
        self._wait_ms = _QUICK_MS
        self._silent_looks = 0
        self._goal: int | None = None
        self._ledgers = Ledgers(self._first_at)

    def begin(self, begin: Begin) -> int:
        """Returns the position where a new query begins."""
        if begin is StartKind.EARLIEST:
            return EARLIEST
        if isinstance(begin, int):
            return begin
        tip = self.client.tip(self.topic)
        if isinstance(begin, AtTime):
            found = self.client.at_publish_time(self.topic, begin.moment, is_hidden=tip.is_hidden)
            if found:
                return position_of(found[0].message_id())
        if tip.is_hidden:
            self._seen_end = behind_entry(self.client.last_entry(self.topic))
            return self._seen_end
        return EARLIEST if tip.message is None else position_of(tip.message.message_id()) + 1

    def look(self, position: int, limit: int | None) -> SplitRange:
        """Returns the range that can be read from ``position`` on.

        Args:
            position: The next position to read.
            limit: The row limit of the micro-batch; ``None`` for no limit. For a small limit, as many messages are read
                to count the rows exactly.
        """
        self._ledgers.begin_plan()
        was_hidden = self._is_hidden
        tip = self.client.tip(self.topic, self._wait_ms if was_hidden else SEEN_MS)
        self.last, self._is_hidden = tip.message, tip.is_hidden
        if tip == Tip(None):
            self.scan = Scan()
        self.scan.advance(position)
        if self._is_hidden:
            end = self._visible_end(position, self._silence_ms(was_hidden=was_hidden))
        else:
            end, self._goes_on, self._silent_looks = self._end(position), False, 0
        self._has_looked = True
        start, is_limited = position, self._is_limited(end)
        if end > position:
            start = self._checked_start(position)
        else:
            self._check_ledger(position)
        if self.last is not None:
            self._seen_end = None if tip.goes_on else position_of(self.last.message_id()) + 1
        elif end == position:
            self._seen_end = position
        if end == position:
            return SplitRange(position, position, drained=True, rows=0)
        if limit is not None:
            self.scan_to(min(limit, _MOST_COUNTED) + 1, end)
        drained = not self._goes_on
        return SplitRange(start, end, drained=drained, limited=is_limited, rows=self.rows_to(end))

    def _end(self, position: int) -> int:
        """Returns the end of the range that can be read from ``position`` on, and reads its first messages."""
        if self.last is None:
            return position
        end = position_of(self.last.message_id()) + 1
        if end > position and not self.extend_scan(_HEAD, end, position):
            # They were trimmed since the last message was read.
            self._seen_end = end
            return position
        return max(end, position)

    def _visible_end(self, position: int, silence_ms: int) -> int:
        """Returns the position after the last message that the broker sends, reading some thousand messages at most.

        While alignment holds the partition back, the messages of former looks are kept, and are enough.
        """
        if len(self.scan) >= _VISIBLE or self.scan.size >= _VISIBLE_BYTES:
            self._goes_on = True
            return self.scan.behind
        at = self.scan.behind if len(self.scan) else position
        found = self.client.read_visible(self.topic, at, _VISIBLE, silence_ms=silence_ms)
        self.scan.add(found.messages)
        self._goes_on = found.goes_on
        if found.messages:
            self._wait_ms = min(max(_SLACK * found.first_ms, _QUICK_MS), SEEN_MS)
            self._silent_looks = 0
        return self.scan.behind if len(self.scan) else position

    def _silence_ms(self, *, was_hidden: bool) -> int:
        """Returns how long (ms) this look waits for a message, since the last entry is hidden.

        The first look waits as long as for a server that does not answer. A run of ``AvailableNow`` ends at what that
        look finds, so a server that is only slow must not look like the end of the partition.
        """
        if not self._has_looked:
            return self.client.longest_ms
        self._silent_looks += was_hidden
        is_patient = self._goes_on or self._silent_looks % _PATIENT_EVERY == 0
        return SEEN_MS if is_patient else self._wait_ms

    def _is_limited(self, end: int) -> bool:
        """Returns whether planning reached its limit before the goal, so that the run has further batches.

        The goal is the entry that was the last one when the limit was first reached. An ``AvailableNow`` run
        reads up to it, even if a producer writes further entries.
        """
        if not self._goes_on:
            self._goal = None
        elif self._goal is None:
            self._goal = self.client.last_entry(self.topic)
        return self._goal is not None and end <= self._goal

    def _checked_start(self, position: int) -> int:
        """Returns ``position``, or the position of the first message that exists if that is in a later ledger.

        The reader of a task checks that its first message is in the ledger where the range starts. Brokers delete the
        oldest ledgers first, so nothing is lost while the ledger of ``position`` exists.
        """
        first = self.scan.positions[0]
        if ledger_of(first) == ledger_of(position):
            return position
        self._check_ledger(position)
        return first

    def _check_ledger(self, position: int) -> None:
        """Reports messages that are lost, or may be lost, if the ledger of ``position`` does not exist any more."""
        if position in (EARLIEST, self._told):
            return
        ledger, last = ledger_of(position), self.last
        at_last = None if last is None else position_of(last.message_id())
        if at_last is not None and ledger_of(at_last) == ledger:
            return
        is_known = self._is_hidden and position == self._seen_end
        if is_known or self._has_ledger(ledger):
            return
        was_end = position == self._seen_end or is_behind_entry(position)
        if at_last is not None and ledger_of(at_last) < ledger:
            # Ids only grow, and the oldest ledgers are trimmed first, so these are not the messages that were read.
            was_end, why = False, f"the last existing message is at {described(at_last)}, before that"
        else:
            is_empty = last is None and not self._is_hidden
            why = f"ledger {ledger} does not exist any more" + (
                ", and no message is left" if is_empty else ""
            )
        self._lose(LostLedger(position, why, was_end))
        self._told = position

    def _has_ledger(self, ledger: int) -> bool:
        if self.client.has_ledger(self.topic, ledger, is_hidden=self._is_hidden):
            return True
        return self._is_hidden and ledger_of(self.client.last_entry(self.topic)) == ledger

    def _first_at(self, position: int) -> int | None:
        found = self.client.read(self.topic, position, 1)
        return position_of(found[0].message_id()) if found else None

    # ---- numbers of rows ------------------------------------------------------------------------------------------

    def extend_scan(self, count: int, end: int, position: int | None = None) -> bool:
        """Reads up to ``count`` further messages before ``end`` into the scan. Returns whether the scan has messages.

        If ``position`` is given, messages are read from there, and only if the scan is empty.
        """
        at = self.scan.behind if len(self.scan) else position
        assert at is not None
        if position is None or not len(self.scan):
            self.scan.add(self.client.read(self.topic, at, count, end))
        return len(self.scan) > 0

    def scan_to(self, count: int, end: int) -> None:
        """Adds messages to the scan until it has ``count`` messages, or reaches ``end``."""
        while len(self.scan) < count and self.scan.behind < end:
            before = len(self.scan)
            self.extend_scan(count - before, end)
            if len(self.scan) == before:
                return

    def rows_to(self, position: int) -> int:
        """Returns the number of messages from the beginning of the scan to ``position``, exclusive.

        The messages of the scan are counted. Messages after the scan are estimated from the number of entries.
        """
        if position <= self.scan.behind:
            return bisect_left(self.scan.positions, position)
        entries = self._ledgers.entries_between(self.scan.positions[-1], position)
        return len(self.scan) + math.ceil(entries * self.scan.rows_per_entry)

    def cut_after(self, rows: int, end: int) -> int:
        """Returns the position after ``rows`` messages, at most ``end``.

        If the scan has fewer messages, the position is estimated from the number of entries.
        """
        scan = self.scan
        if rows < len(scan):
            return min(scan.positions[rows], end)
        entries = max(int((rows - len(scan)) / scan.rows_per_entry), 1)
        found = self._first_at(self._ledgers.after_entries(scan.positions[-1], entries, end))
        return end if found is None else min(found, end)
