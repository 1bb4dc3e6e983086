"""A log of a group in memory, which can be slow, fail or hang."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.group_entries import TIMEOUT
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


@dataclass
class Board:
    """The entries that the logs of all members share, and the faults of the store."""

    entries: list[Entry] = field(default_factory=list)
    is_down: bool = False
    is_read_only: bool = False
    is_deaf: bool = False
    most_at_once: int = 10**9
    answers: threading.Event = field(default_factory=threading.Event)

    def says(self, source: str) -> list[Entry]:
        return [e for e in self.entries if e.source == source]


class BoardLog(GroupLog):
    def __init__(self, board: Board) -> None:
        super().__init__(SplitWatermarkTable("", {}), "g", TIMEOUT)
        self._board = board
        self._read = 0

    def publish(self, entry: Entry) -> int:
        self._check()
        if self._board.is_read_only:
            raise AlignmentError("The store is read-only")
        self._board.entries.append(entry)
        return len(self._board.entries) - 1

    def new_entries(self) -> list[tuple[int, Entry]]:
        self._check()
        if self._board.is_deaf:
            raise AlignmentError("The store cannot be read")
        start, there = self._read, len(self._board.entries)
        self._read = min(there, start + self._board.most_at_once)
        self.is_behind = self._read < there
        return [(v, self._board.entries[v]) for v in range(start, self._read)]

    def _check(self) -> None:
        assert self._board.answers.wait(60)
        if self._board.is_down:
            raise AlignmentError("The store is down")
