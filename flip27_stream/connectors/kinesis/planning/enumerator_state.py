"""The state that the enumerator keeps in a checkpoint, and its serializer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.connectors.kinesis.client.client import Shard, StreamIdentity
from flip27_stream.errors import CorruptCheckpointError

_RENEWED_MS = 3_600_000


@dataclass(frozen=True)
class StreamState:
    """The state of one stream.

    Attributes:
        arn: The ARN of the stream.
        created: The time at which the stream was created (ms). A stream with another time is another stream.
        generation: The number of streams of the same name that were read before this one.
        begun: The shards that are assigned and not done.
        done: The shards that were read to their ends and that the service still lists, or whose children it lists.
        initial: The shards of the first listing; in a checkpoint only those that are not begun. They begin at the start
            time, and shards that are listed later at their first record. ``None`` before the first listing.
    """

    arn: str
    created: int
    generation: int = 0
    begun: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()
    initial: frozenset[str] | None = None

    def is_of(self, identity: StreamIdentity) -> bool:
        """Returns whether this is the state of the stream with that identity."""
        return (self.arn, self.created) == (identity.arn, identity.created)

    def knows(self, shard_id: str) -> bool:
        """Returns whether a shard is begun or done."""
        return shard_id in self.begun or shard_id in self.done

    def is_initial(self, shard_id: str) -> bool:
        return self.initial is not None and shard_id in self.initial

    def with_begun(self, shard_id: str) -> StreamState:
        return replace(self, begun=self.begun | {shard_id})

    def with_done(self, shard_id: str) -> StreamState:
        return replace(self, begun=self.begun - {shard_id}, done=self.done | {shard_id})

    def listed(self, shards: Sequence[Shard]) -> StreamState:
        """Returns the state after a listing, without shards that are neither listed nor parents of listed shards."""
        ids = frozenset(shard.shard_id for shard in shards)
        parents = frozenset(parent for shard in shards for parent in shard.parents)
        initial = ids if self.initial is None else self.initial & ids
        return replace(self, done=self.done & (ids | parents), initial=initial)

    def planned(self, unplanned: Set[str]) -> StreamState:
        """Returns the state for a checkpoint, in which the shards ``unplanned`` are not begun."""
        begun = self.begun - unplanned
        initial = None if self.initial is None else self.initial - begun - self.done
        return replace(self, begun=begun, initial=initial)


@dataclass(frozen=True)
class KinesisEnumeratorState:
    """The state of the enumerator.

    Attributes:
        streams: The state of each stream, by its name or ARN in the options.
        start_time: The time (ms) from which a new query reads shards, unless it reads them from the trim horizon;
            ``None`` before the initial discovery.
        seen_at: A time (ms). At this time or later planning has looked at each open shard that is planned up to its
            end, and has found no record after that end. The records of shards that are not planned yet arrived later,
            if their parents are planned up to their ends. ``None`` if no such time is known. It is renewed only once
            an hour, because a new time makes a new offset, and a new offset makes an empty batch.
        cut: The ids of the splits whose planned ranges may end before the ends of their shards.
    """

    streams: Mapping[str, StreamState] = field(default_factory=dict)
    start_time: int | None = None
    seen_at: int | None = None
    cut: frozenset[str] = frozenset()

    def with_stream(self, name: str, stream: StreamState) -> KinesisEnumeratorState:
        return replace(self, streams={**self.streams, name: stream})

    def with_seen_ends(
        self, now: int, ends: Iterable[int], waited_for: Collection[int], cut: Iterable[str]
    ) -> KinesisEnumeratorState:
        """Returns the state after planning has looked at all shards.

        Args:
            now: The present time (ms).
            ends: One time (ms) for each open shard that is planned up to its end: the time at which planning has found
                no record after that end.
            waited_for: Times (ms) before the records of shards that are not planned yet.
            cut: The ids of the splits whose planned ranges may end before the ends of their shards.
        """
        seen_at = self.seen_at
        if seen_at is None or abs(now - seen_at) >= _RENEWED_MS:
            seen_at = min(ends, default=now)
        return replace(self, seen_at=min([seen_at, *waited_for]), cut=frozenset(cut))

    def __hash__(self) -> int:
        return hash((self.start_time, tuple(sorted(self.streams))))


class KinesisEnumeratorStateSerializer(SimpleVersionedSerializer[KinesisEnumeratorState]):
    """Serializes the state as ``{"start": ms, "streams": {name: stream}, "seen": ms, "cut": [split ids]}``.

    A stream is ``[arn, created, generation, [begun], [done], [initial] or null]``. Version 2 has no ``seen`` and no
    ``cut``. Version 1 also has no ``initial``: the first listing after the restart counts as the first one of the
    query.
    """

    version = 3

    def serialize(self, value: KinesisEnumeratorState) -> JsonValue:
        streams: dict[str, JsonValue] = {
            name: [
                s.arn,
                s.created,
                s.generation,
                [*sorted(s.begun)],
                [*sorted(s.done)],
                None if s.initial is None else [*sorted(s.initial)],
            ]
            for name, s in sorted(value.streams.items())
        }
        return {
            "start": value.start_time,
            "streams": streams,
            "seen": value.seen_at,
            "cut": [*sorted(value.cut)],
        }

    def deserialize(self, version: int, data: JsonValue) -> KinesisEnumeratorState:
        self.check_version("Kinesis enumerator state", version)
        match data:
            case {"start": int() | None as start, "streams": dict(streams), **rest} if (
                version < 3 and not rest
            ):
                return KinesisEnumeratorState(_streams(streams), start)
            case {
                "start": int() | None as start,
                "streams": dict(streams),
                "seen": int() | None as seen,
                "cut": cut,
                **rest,
            } if not rest:
                return KinesisEnumeratorState(_streams(streams), start, seen, _ids(cut))
        raise _corrupt(data)


def _streams(data: Mapping[str, JsonValue]) -> dict[str, StreamState]:
    return {name: _stream(stream) for name, stream in data.items()}


def _stream(data: JsonValue) -> StreamState:
    match data:
        case [str(arn), int(created), int(generation), begun, done]:
            return StreamState(arn, created, generation, _ids(begun), _ids(done))
        case [str(arn), int(created), int(generation), begun, done, initial]:
            first = None if initial is None else _ids(initial)
            return StreamState(arn, created, generation, _ids(begun), _ids(done), first)
    raise _corrupt(data)


def _ids(data: JsonValue) -> frozenset[str]:
    if not isinstance(data, list) or not all(isinstance(shard, str) for shard in data):
        raise _corrupt(data)
    return frozenset(map(str, data))


def _corrupt(data: JsonValue) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        "A Kinesis enumerator state must be an object with the fields 'start', 'streams', 'seen' and 'cut', but is "
        f"{data!r}."
    )
