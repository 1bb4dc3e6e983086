"""Splits of a hybrid source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from flip27_stream.api import JsonValue, SimpleVersionedSerializer, SourceSplit
from flip27_stream.connectors.hybrid.seam.overlap import Intervals, intervals_of
from flip27_stream.connectors.hybrid.source_list import ActiveSource, SourceList
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class SerializedSplit:
    """A split as the serializer of its source wrote it.

    Attributes:
        id: The id of the split in its source.
        version: The version of the serializer.
        data: The serialized split.
    """

    id: str
    version: int
    data: JsonValue


@dataclass(frozen=True)
class HybridSourceSplit(SourceSplit):
    """A split of the source at one index (Flink ``HybridSourceSplit``).

    Its positions are those in the source's own split.

    The source's own split is deserialized when it is needed, so that an offset can be read even if a factory fails. A
    pickled split has the source's own split, so a task needs no factory.

    Attributes:
        index: The index of its source.
        end_position: The end position of the previous source, from which its source was made.
        serialized: The serialized split of the source.
        known: The positions whose rows the previous source has.
        active: The source of the split.
        cut: The split of the source, if it is known without deserializing ``serialized``.
        span: The range of positions to read; ``None`` for a whole split.
    """

    index: int
    end_position: JsonValue
    serialized: SerializedSplit
    known: Intervals = ()
    active: ActiveSource = field(compare=False, kw_only=True)
    cut: SourceSplit | None = field(default=None, compare=False, kw_only=True)
    span: tuple[int, int] | None = field(default=None, compare=False, kw_only=True)

    @staticmethod
    def of(active: ActiveSource, split: SourceSplit, known: Intervals = ()) -> HybridSourceSplit:
        serializer = active.source.split_serializer
        serialized = SerializedSplit(split.split_id, serializer.version, serializer.serialize(split))
        return HybridSourceSplit(
            active.index, active.end_position, serialized, known, active=active, cut=split
        )

    def __hash__(self) -> int:
        return hash((self.index, self.serialized.id))

    @cached_property
    def split_id(self) -> str:
        return split_id(self.index, self.serialized.id)

    @cached_property
    def split(self) -> Any:
        """The split as the Kafka, file or other source inside this hybrid source made it."""
        if self.cut is not None:
            return self.cut
        return self.active.source.split_serializer.deserialize(self.serialized.version, self.serialized.data)

    @property
    def positions_count_rows(self) -> bool:
        return bool(self.split.positions_count_rows)

    def between(self, start: int, end: int) -> HybridSourceSplit:
        return replace(self, cut=self.split.between(start, end), span=(start, end))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"cut": self.split}


def split_id(index: int, child_id: str) -> str:
    """Returns the id of a split in the hybrid source."""
    return f"{index}:{child_id}"


class HybridSourceSplitSerializer(SimpleVersionedSerializer[HybridSourceSplit]):
    """Serializes a split as ``[index, version, id, data, end position, [[from, to], ...]]``.

    ``data`` is the split as ``version`` of the source's own serializer wrote it; null if it equals the id. Null and
    empty values at the end of the list are left out.
    """

    def __init__(self, sources: SourceList) -> None:
        self._sources = sources

    version = 1

    def serialize(self, value: HybridSourceSplit) -> JsonValue:
        own = value.serialized
        data = None if own.data == own.id else own.data
        known: list[JsonValue] = [list(pair) for pair in value.known]
        written: list[JsonValue] = [value.index, own.version, own.id, data, value.end_position, known]
        while written[-1] in (None, []):
            written.pop()
        return written

    def deserialize(self, version: int, data: JsonValue) -> HybridSourceSplit:
        self.check_version("hybrid split", version)
        match data:
            case [int(index), int(child_version), str(name), *rest] if len(rest) <= 3:
                state, end, known = (*rest, None, None, None)[:3]
                if not 0 <= index < len(self._sources.entries):
                    raise CorruptCheckpointError(
                        f"The checkpoint has a split of source number {index}, counted from 0, but this hybrid source "
                        f"has only {len(self._sources.entries)} sources. Give it the list of sources with which the "
                        "checkpoint was written."
                    )
                return HybridSourceSplit(
                    index,
                    end,
                    SerializedSplit(name, child_version, name if state is None else state),
                    intervals_of(known or ()),  # type: ignore[arg-type]
                    active=self._sources.active(index, end),
                )
        raise CorruptCheckpointError(
            f"A hybrid split is stored as [index, version, id, ...], not as {data!r}."
        )
