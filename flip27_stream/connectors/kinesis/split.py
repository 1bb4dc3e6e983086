"""The split: a shard of a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class KinesisShardSplit(SourceSplit):
    """A shard of a stream (Flink ``KinesisShardSplit``); see :mod:`flip27_stream.connectors.kinesis.positions`.

    Attributes:
        stream: The stream's name, or its ARN.
        shard_id: The id of the shard.
        first_hash_key: The least hash key of the shard.
        last_hash_key: The greatest hash key of the shard.
        generation: The number of streams of the same name that were read before this one and were deleted.
        start: The position to read from.
        end: The position to read up to; ``None`` for a split that is not bounded.
    """

    stream: str
    shard_id: str
    first_hash_key: int = 0
    last_hash_key: int = 2**128 - 1
    generation: int = 0
    start: int = 0
    end: int | None = None

    positions_count_rows = False

    @property
    def split_id(self) -> str:
        again = f"#{self.generation}" if self.generation else ""
        return f"{self.stream}/{self.shard_id}{again}"

    @property
    def stream_name(self) -> str:
        """The name of the stream, also if the stream is given by its ARN."""
        return self.stream.rpartition("/")[2]

    def between(self, start: int, end: int) -> KinesisShardSplit:
        return replace(self, start=start, end=end)


class KinesisShardSplitSerializer(SimpleVersionedSerializer[KinesisShardSplit]):
    """Serializes a split as ``[stream, shard id, first hash key, last hash key, generation]``."""

    version = 1

    def serialize(self, value: KinesisShardSplit) -> JsonValue:
        return [value.stream, value.shard_id, value.first_hash_key, value.last_hash_key, value.generation]

    def deserialize(self, version: int, data: JsonValue) -> KinesisShardSplit:
        self.check_version("Kinesis split", version)
        match data:
            case [str(stream), str(shard_id), int(first), int(last), int(generation)]:
                return KinesisShardSplit(stream, shard_id, first, last, generation)
        raise CorruptCheckpointError(
            "A Kinesis split is stored as [stream, shard id, first hash key, last hash key, generation], not as "
            f"{data!r}."
        )
