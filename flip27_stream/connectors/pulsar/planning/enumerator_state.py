"""The state that the enumerator keeps in a checkpoint, and its serializer."""

from __future__ import annotations

from dataclasses import dataclass, field

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.errors import CorruptCheckpointError


@dataclass(frozen=True)
class PulsarEnumeratorState:
    """The known partitions.

    Attributes:
        begun: The partitions that are in the offset.
        waiting: The partitions of the initial discovery that are not in the offset yet; ``None`` before that discovery.
    """

    begun: frozenset[str] = field(default_factory=frozenset)
    waiting: frozenset[str] | None = None


class PulsarEnumeratorStateSerializer(SimpleVersionedSerializer[PulsarEnumeratorState]):
    """Serializes the state as ``{"begun": [topic], "waiting": [topic] or null}``."""

    version = 1

    def serialize(self, value: PulsarEnumeratorState) -> JsonValue:
        waiting: JsonValue = None if value.waiting is None else [*sorted(value.waiting)]
        return {"begun": [*sorted(value.begun)], "waiting": waiting}

    def deserialize(self, version: int, data: JsonValue) -> PulsarEnumeratorState:
        self.check_version("Pulsar enumerator state", version)
        match data:
            case {"begun": list(begun), "waiting": list() | None as waiting, **rest} if not rest and all(
                isinstance(topic, str) for topic in [*begun, *(waiting or [])]
            ):
                return PulsarEnumeratorState(
                    frozenset(map(str, begun)), None if waiting is None else frozenset(map(str, waiting))
                )
        raise CorruptCheckpointError(
            f"A Pulsar enumerator state must be an object with the fields 'begun' and 'waiting', but is {data!r}."
        )
