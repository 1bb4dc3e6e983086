"""An enumerator with a backlog like that of files. It assigns what the next batch may read, and retires what was
read.
"""

from __future__ import annotations

from collections.abc import Mapping

from flip27_stream.api import EventTimePositions, PositioningRequest, ReadLimits, SplitRange
from tests.spark.support.sources.memory_source import MemoryEnumerator, MemoryPositions, MemorySplit


class BacklogEnumerator(MemoryEnumerator):
    """Assigns bounded logs in the order of their least event times.

    Its state is the number of assigned logs. Under ``max_bytes`` (a row counts as a byte) a log is offered in parts.
    """

    def start(self) -> None:
        self._order = sorted(self.world.logs, key=lambda name: (self._least(name), name))
        self._open: dict[str, int] = {}
        self._frozen = False
        self._room: int | None = None

    def admit(self, limits: ReadLimits) -> None:
        if not self._frozen:
            self._order += [name for name in sorted(self.world.logs) if name not in self._order]
        self._room = limits.max_bytes
        while self.pending() and (limits.max_files is None or len(self._open) < limits.max_files):
            name = self._order[self.assigned]
            self._open[name] = len(self.world.logs[name])
            self.context.assign_split(MemorySplit(name), self.assigned % self.context.current_parallelism())
            self.assigned += 1

    def pending(self) -> int:
        return len(self._order) - self.assigned

    def freeze(self) -> None:
        super().freeze()
        self._frozen = True

    def split_ranges(self, positions: Mapping[MemorySplit, int | None]) -> Mapping[str, SplitRange]:
        ranges = {}
        for split, position in positions.items():
            start, whole = position or 0, len(self.world.logs[split.name])
            end = whole if self._room is None else min(whole, start + self._room)
            self._room = None if self._room is None else self._room - (end - start)
            ranges[split.name] = SplitRange(start, end, end == whole, final=end == whole, limited=end < whole)
        return ranges

    def notify_checkpoint_complete(self, positions: Mapping[str, int]) -> None:
        super().notify_checkpoint_complete(positions)
        done = [name for name, position in positions.items() if position == len(self.world.logs[name])]
        self.context.retire_splits(done)
        for name in done:
            self._open.pop(name, None)

    def event_time_positions(self, request: PositioningRequest) -> EventTimePositions:
        self.world.requests.append(request)
        left = self._order[self.assigned :]
        return BacklogPositions(self, request, min(map(self._least, left), default=None))

    def _least(self, name: str) -> int:
        return min(t for t in self.world.logs[name] if t is not None)


class BacklogPositions(MemoryPositions):
    def __init__(self, enumerator: BacklogEnumerator, request: PositioningRequest, least: int | None) -> None:
        super().__init__(enumerator.world, request)
        self._least = least

    def least_to_come(self) -> int | None:
        return self._least
