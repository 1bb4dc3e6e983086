"""The shards that the service lists, and their parents and children."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flip27_stream.connectors.kinesis.client.client import Shard, StreamIdentity
from flip27_stream.connectors.kinesis.planning.enumerator_state import StreamState
from flip27_stream.connectors.kinesis.positions import before
from flip27_stream.connectors.kinesis.split import KinesisShardSplit


@dataclass(frozen=True)
class DiscoveredShards:
    """The result of one discovery, by stream.

    Attributes:
        number: The number that :meth:`ListedShards.next_number` gave when the discovery began.
        shards: The shards that are listed.
        identities: The identities of the streams; usually empty, because they are looked up less often.
    """

    number: int
    shards: Mapping[str, Sequence[Shard]]
    identities: Mapping[str, StreamIdentity]


class ListedShards:
    """The newest listing of each stream."""

    def __init__(self) -> None:
        self._shards: dict[str, Mapping[str, Shard]] = {}
        self._parents: dict[str, frozenset[str]] = {}
        self._numbers: dict[str, int] = {}
        self._gone: set[str] = set()
        self._counter = itertools.count(1)

    def next_number(self) -> int:
        """Returns the number of a listing that begins now. Several threads may call this."""
        return next(self._counter)

    def is_new(self, stream: str, number: int) -> bool:
        """Returns whether the listing with this number began after the known listing."""
        return number > self._numbers.get(stream, 0)

    def put(self, stream: str, shards: Iterable[Shard], number: int) -> None:
        self._shards[stream] = {shard.shard_id: shard for shard in shards}
        self._parents[stream] = frozenset(
            parent for shard in self._shards[stream].values() for parent in shard.parents
        )
        self._numbers[stream] = number

    def parents_of(self, split: KinesisShardSplit) -> tuple[str, ...]:
        """Returns the ids of the splits of a shard's parents; none for a shard that is not listed."""
        shard = self._shards.get(split.stream, {}).get(split.shard_id)
        parents = () if shard is None else shard.parents
        return tuple(replace(split, shard_id=parent).split_id for parent in parents)

    def has_children(self, split: KinesisShardSplit) -> bool:
        return split.shard_id in self._parents.get(split.stream, ())

    def is_listed(self, split: KinesisShardSplit) -> bool:
        """Returns whether the service lists a shard, as it does until all records of a closed shard have expired."""
        is_gone = split.split_id in self._gone
        return not is_gone and split.shard_id in self._shards.get(split.stream, (split.shard_id,))

    def forget(self, split: KinesisShardSplit) -> None:
        """Records that the service does not list a shard any more. Several threads may call this."""
        self._gone.add(split.split_id)

    def waiting(self, streams: Mapping[str, StreamState]) -> Iterator[tuple[str, Shard]]:
        """Yields listed shards that are neither begun nor done, with their streams."""
        for stream, shards in self._shards.items():
            if (known := streams.get(stream)) is not None:
                for shard in shards.values():
                    if not known.knows(shard.shard_id):
                        yield stream, shard

    def is_ready(self, stream: str, shard: Shard, known: StreamState) -> bool:
        """Returns whether all parents that are listed, or were begun, are done."""
        listed = self._shards[stream]
        return not any(
            parent in known.begun or (parent in listed and parent not in known.done)
            for parent in shard.parents
        )

    def lost_parents(self, stream: str, shard: Shard, known: StreamState) -> list[str]:
        """Returns the parents of a shard that were missed: they are not listed any more, and were never begun.

        The result is empty for a shard of the first listing, whose parents ended before the query began.
        """
        if known.is_initial(shard.shard_id):
            return []
        return [
            parent
            for parent in shard.parents
            if parent not in self._shards[stream] and not known.knows(parent)
        ]

    def positions_within(self, stream: str, positions: Mapping[str, int]) -> dict[str, int]:
        """Returns the positions, by shard id, that are in the shards as they are listed now, and not before them."""
        listed = self._shards[stream]
        return {i: at for i, at in positions.items() if i in listed and at >= before(listed[i].first_number)}
