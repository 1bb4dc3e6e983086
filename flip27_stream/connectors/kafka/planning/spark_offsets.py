"""Reads the offsets that Spark's built-in Kafka source stored in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flip27_stream.api import AdoptedOffset
from flip27_stream.connectors.kafka.offsets_initializer import OffsetsInitializer, Specific
from flip27_stream.connectors.kafka.planning.enumerator_state import AssignedTopic, KafkaEnumeratorState
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit, TopicPartition

_NEW_PARTITION_BEGINS_AT = 0


def adopted(
    document: Mapping[str, Any], starting_offsets: OffsetsInitializer
) -> AdoptedOffset[KafkaPartitionSplit, KafkaEnumeratorState] | None:
    """Returns the state of this source at an offset of Spark's source; ``None`` if the document has another form.

    Spark's source writes ``{"topic": {"0": 23}}`` (Spark ``JsonUtils.partitionOffsets``).

    Args:
        document: the offset as the offset log of the checkpoint has it.
        starting_offsets: the starting offsets of the options. The offset log of Spark's source does not have the
            beginning of the first batch; if the options give an offset for each partition, the first batch can be read
            again.
    """
    found = list(_offsets(document))
    if not found or any(offset is None for _, offset in found):
        return None
    offsets = {tp: offset for tp, offset in found if offset is not None}
    partitions: dict[str, list[int]] = {}
    for tp in sorted(offsets):
        partitions.setdefault(tp.topic, []).append(tp.partition)
    topics = {name: AssignedTopic("", tuple(numbers)) for name, numbers in partitions.items()}
    said = starting_offsets.offsets if isinstance(starting_offsets, Specific) else {}
    return AdoptedOffset(
        splits=tuple((KafkaPartitionSplit(*tp), offset) for tp, offset in sorted(offsets.items())),
        checkpoint=KafkaEnumeratorState(topics, initial_discovery_finished=True),
        first_begins={str(tp): offset for tp, offset in said.items() if tp in offsets and offset >= 0},
        later_begin=_NEW_PARTITION_BEGINS_AT,
    )


def _offsets(document: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yields each partition and its offset; the offset is ``None`` if the entry has another form."""
    for topic, partitions in document.items():
        if not isinstance(partitions, Mapping):
            yield TopicPartition(topic, 0), None
            continue
        for number, offset in partitions.items():
            valid = str(number).isdecimal() and type(offset) is int and offset >= 0
            yield TopicPartition(topic, int(number) if valid else 0), offset if valid else None
