"""Shards that planning has found to be closed, with the times of their ends.

Their children are begun only later. Until then, records of the children may expire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kinesis.client.client import KinesisClient
from flip27_stream.connectors.kinesis.client.shard_pages import ShardPages
from flip27_stream.connectors.kinesis.planning.shard_log import ShardLog
from flip27_stream.connectors.kinesis.positions import is_behind
from flip27_stream.connectors.kinesis.split import KinesisShardSplit


@dataclass(frozen=True)
class _End:
    split: KinesisShardSplit
    position: int
    reached_at: int


class EndedShards:
    """The shards whose ends were found, until their children are begun. Several threads may call its methods.

    The records of a child arrive after those of its parents, because the parents are closed before.
    """

    def __init__(self, client: KinesisClient) -> None:
        self._client = client
        self._ends: dict[str, _End] = {}

    def note(
        self, split: KinesisShardSplit, log: ShardLog, begin: int, found: SplitRange, seen_at: int | None
    ) -> None:
        """Notes the end of a shard, if a range is up to it.

        Args:
            split: The shard.
            log: The log of the shard.
            begin: The position from which the range was looked for.
            found: The range.
            seen_at: A time (ms) when the shard had no record after ``begin``; ``None`` if none is known.
        """
        reached_at = log.reach(found.end) if found.end > begin else seen_at
        if found.final and reached_at is not None:
            self._ends.setdefault(split.split_id, _End(split, found.end, reached_at))

    def keep(self, names: Collection[str]) -> None:
        """Forgets all other shards."""
        self._ends = {name: end for name, end in self._ends.items() if name in names}

    def reached_at(self, names: Iterable[str]) -> int | None:
        """Returns a time (ms) before all records of the children of these shards; ``None`` if none is known."""
        return max((self._ends[name].reached_at for name in names if name in self._ends), default=None)

    def is_late(self, stream: str, seen_at: int, parents: Iterable[str]) -> bool:
        """Returns whether records of a shard that arrived after ``seen_at`` (ms) may have expired, or soon do.

        While the last record of a parent exists, no record of the shard has expired.
        """
        ends = [self._ends[name] for name in parents if name in self._ends]
        return self._client.is_about_to_expire(stream, seen_at) and not any(map(self._is_left, ends))

    def _is_left(self, end: _End) -> bool:
        pages = ShardPages(self._client, end.split)
        return is_behind(end.position) and pages.has_record_before(end.position)
