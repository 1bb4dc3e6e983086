"""The state of the hybrid enumerator in a checkpoint, and its serializer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.connectors.hybrid.planning.source_end import SourceEnd, TailSplit
from flip27_stream.connectors.hybrid.seam.exact_seam import ExactSeam, ends_of
from flip27_stream.connectors.hybrid.seam.overlap import Intervals, intervals_of
from flip27_stream.connectors.hybrid.split import SerializedSplit
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class HybridEnumeratorState:
    """The active source, and what is needed to restore it (Flink ``HybridSourceEnumeratorState``).

    Attributes:
        index: The index of the active source.
        version: The version of the serializer that wrote ``data``.
        data: The serialized state of the active source's enumerator.
        source: The fingerprint of the active source.
        end_position: The end position of the previous source.
        source_end: The known end of the active source.
        known: By split of the active source, the positions whose rows the previous source has. Only splits that are in
            no offset yet are listed; and, with no positions, those of :attr:`replaced`.
    """

    index: int
    version: int
    data: JsonValue
    source: str
    end_position: JsonValue = None
    source_end: SourceEnd = field(default_factory=SourceEnd)
    known: Mapping[str, Intervals] = field(default_factory=dict)

    @property
    def known_of_new_splits(self) -> dict[str, Intervals]:
        """:attr:`known` without the splits of :attr:`replaced`."""
        return {split: positions for split, positions in self.known.items() if positions}

    @property
    def replaced(self) -> frozenset[str]:
        """The splits that are read again from an earlier position, in another log, whose rows no source has read."""
        return frozenset(split for split, positions in self.known.items() if not positions)


class HybridEnumeratorStateSerializer(SimpleVersionedSerializer[HybridEnumeratorState]):
    """Serializes the state as ``{"index": 1, "source": "...", "state": [version, data]}``.

    Optional keys are ``"end"`` (the end position), ``"greatest"``, ``"blind"``, ``"tail"``, ``"ends"``, ``"overlap"``
    and ``"seam"`` (see :class:`SourceEnd`), and ``"known"``. Version 1 had no ``"overlap"``, version 2 no ``"seam"``.
    """

    version = 3

    def serialize(self, value: HybridEnumeratorState) -> JsonValue:
        tail: dict[str, JsonValue] = {
            name: [t.split.version, t.split.data, t.begin, t.end, t.reach]
            for name, t in value.source_end.tail.items()
        }
        seam = value.source_end.seam
        known: dict[str, JsonValue] = {
            split: [list(pair) for pair in intervals] for split, intervals in value.known.items()
        }
        optional: dict[str, JsonValue] = {
            "end": value.end_position,
            "greatest": value.source_end.greatest,
            "blind": value.source_end.blind or None,
            "tail": tail or None,
            "ends": None if value.source_end.ends is None else dict(value.source_end.ends),
            "overlap": value.source_end.overlap_ms,
            "seam": None if seam is None else [seam.split, seam.position],
            "known": known or None,
        }
        return {
            "index": value.index,
            "source": value.source,
            "state": [value.version, value.data],
            **{name: field for name, field in optional.items() if field is not None},
        }

    def deserialize(self, version: int, data: JsonValue) -> HybridEnumeratorState:
        self.check_version("state of the hybrid enumerator", version)
        match data:
            case {"index": int(index), "source": str(source), "state": [int(state_version), state]}:
                more = _object(data)
                source_end = SourceEnd(
                    _time(more.get("greatest")),
                    bool(more.get("blind")),
                    _tail(more.get("tail")),
                    ends_of(more.get("ends")),
                    _time(more.get("overlap")),
                    _seam(more.get("seam")),
                )
                known = {split: intervals_of(pairs) for split, pairs in _object(more.get("known")).items()}
                return HybridEnumeratorState(
                    index, state_version, state, source, more.get("end"), source_end, known
                )
        raise CorruptCheckpointError(f"The state of the hybrid enumerator has an unknown form: {data!r}.")


def _tail(data: JsonValue) -> dict[str, TailSplit]:
    tail = {}
    for name, entry in _object(data).items():
        match entry:
            case [int(version), state, int(begin), int(end), reach]:
                tail[name] = TailSplit(SerializedSplit(name, version, state), begin, end, _time(reach))
            case _:
                raise CorruptCheckpointError(f"Split {name} of the overlap has an unknown form: {entry!r}.")
    return tail


def _seam(data: JsonValue) -> ExactSeam | None:
    match data:
        case None:
            return None
        case [str(split), str(position)]:
            return ExactSeam(split, position)
    raise CorruptCheckpointError(f"The state of the hybrid enumerator has {data!r} where a seam is expected.")


def _object(data: JsonValue) -> dict[str, Any]:
    if data is None or isinstance(data, dict):
        return data or {}
    raise CorruptCheckpointError(
        f"The state of the hybrid enumerator has {data!r} where an object is expected."
    )


def _time(data: JsonValue) -> int | None:
    if data is None or type(data) is int:
        return data
    raise CorruptCheckpointError(f"The state of the hybrid enumerator has {data!r} where a time is expected.")
