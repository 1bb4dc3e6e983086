"""The state that the enumerator keeps in a checkpoint, and its serializer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class StreamState:
    """The state of one stream.

    Attributes:
        arn: The ARN of the stream.
        created: When the stream was created (ms). A stream with another time is another stream.
        generation: The number of streams of the same name that were read before this one.
        begun: The shards that are assigned and not done.
        done: The shards that were read to their ends, as far as the service still lists them.
    """

    arn: str
    created: int
    generation: int = 0
    begun: frozenset[str] = frozenset()
    done: frozenset[str] = frozenset()

    def with_begun(self, shard_id: str) -> StreamState:
        return replace(self, begun=self.begun | {shard_id})

    def with_done(self, shard_id: str) -> StreamState:
        return replace(self, begun=self.begun - {shard_id}, done=self.done | {shard_id})

    def listed(self, shard_ids: frozenset[str]) -> StreamState:
        """Returns the state without shards that the service does not list any more."""
        return replace(self, done=self.done & shard_ids)


@dataclass(frozen=True)
class KinesisEnumeratorState:
    """The state of the enumerator.

    Attributes:
        streams: The state of each stream, by its name or ARN in the options.
        start_time: The time (ms) from which a new query reads shards, unless it reads them from the trim horizon;
            ``None`` before the initial discovery.
    """

    streams: Mapping[str, StreamState] = field(default_factory=dict)
    start_time: int | None = None

    def with_stream(self, name: str, stream: StreamState) -> KinesisEnumeratorState:
        return replace(self, streams={**self.streams, name: stream})

    def __hash__(self) -> int:
        return hash((self.start_time, tuple(sorted(self.streams))))


class KinesisEnumeratorStateSerializer(SimpleVersionedSerializer[KinesisEnumeratorState]):
    """Serializes the state as ``{"start": ms, "streams": {name: [arn, created, generation, [begun], [done]]}}``."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: KinesisEnumeratorState) -> JsonValue:
        streams: dict[str, JsonValue] = {
            name: [s.arn, s.created, s.generation, [*sorted(s.begun)], [*sorted(s.done)]]
            for name, s in sorted(value.streams.items())
        }
        return {"start": value.start_time, "streams": streams}

    def deserialize(self, version: int, data: JsonValue) -> KinesisEnumeratorState:
        self.check_version("Kinesis enumerator state", version)
        match data:
            case {"start": int() | None as start, "streams": dict(streams), **rest} if not rest:
                return KinesisEnumeratorState({name: _stream(s) for name, s in streams.items()}, start)
        raise _corrupt(data)


def _stream(data: JsonValue) -> StreamState:
    match data:
        case [str(arn), int(created), int(generation), list(begun), list(done)] if all(
            isinstance(shard, str) for shard in [*begun, *done]
        ):
            return StreamState(
                arn, created, generation, frozenset(map(str, begun)), frozenset(map(str, done))
            )
    raise _corrupt(data)


def _corrupt(data: JsonValue) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"A Kinesis enumerator state is stored as an object of start and streams, not as {data!r}. Restore the "
        "checkpoint from a copy, or use another checkpointLocation."
    )
