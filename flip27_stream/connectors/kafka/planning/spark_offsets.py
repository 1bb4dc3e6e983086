"""Reads the offsets that Spark's built-in Kafka source stored in a checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from typing import Any

from flip27_stream.api import AdoptedOffset
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.offsets_initializer import (
    AtTimestamp,
    Earliest,
    Latest,
    OffsetLookups,
    OffsetsInitializer,
    Specific,
)
from flip27_stream.connectors.kafka.options.source_options import KafkaOptions
from flip27_stream.connectors.kafka.planning.enumerator_state import AssignedTopic, KafkaEnumeratorState
from flip27_stream.connectors.kafka.planning.offset_lookups import ClusterOffsets
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.connectors.kafka.subscriber import TopicPatternSubscriber
from flip27_stream.errors import shortened

log = logging.getLogger(__name__)

_NEW_PARTITION_BEGINS_AT = 0

Offsets = Mapping[TopicPartition, int]


def adopted(
    document: Mapping[str, Any], first_begins: Callable[[Offsets], Offsets]
) -> AdoptedOffset[KafkaPartitionSplit, KafkaEnumeratorState] | None:
    """Returns the state of this source at an offset of Spark's source; ``None`` if the document has another form.

    Spark's source writes ``{"topic": {"0": 23}}`` (Spark ``JsonUtils.partitionOffsets``). Before Spark 3.4
    (SPARK-41375) it writes ``{}`` where it has found no partitions.

    Args:
        document: The offset as the offset log of the checkpoint has it.
        first_begins: Returns the offsets at which the first batch begins, for the offsets at which it ends; see
            :func:`first_begins`. It sends requests to the brokers, so it is called only if its result is used.
    """
    found = list(_offsets(document))
    if any(offset is None for _, offset in found):
        return None
    offsets = {tp: offset for tp, offset in found if offset is not None}
    partitions: dict[str, list[int]] = {}
    for tp in sorted(offsets):
        partitions.setdefault(tp.topic, []).append(tp.partition)
    topics = {name: AssignedTopic("", tuple(numbers)) for name, numbers in partitions.items()}
    return AdoptedOffset(
        splits=tuple((KafkaPartitionSplit(*tp), offset) for tp, offset in sorted(offsets.items())),
        checkpoint=KafkaEnumeratorState(topics, initial_discovery_finished=True),
        first_begins=_LazyMapping(lambda: {str(tp): at for tp, at in first_begins(offsets).items()}),
        later_begin=_NEW_PARTITION_BEGINS_AT,
    )


def warn_of_skipped_records(options: KafkaOptions, starts: Offsets) -> None:
    """Logs a warning if a query of a topic pattern begins at ``latest`` where there are records.

    Spark's source stores no offset while its pattern matches no topic, and reads topics that come later from their
    beginning. A Python source cannot distinguish such a query from a new query: Spark asks for a first offset in both.

    Args:
        options: The options of the query.
        starts: The offsets at which the first batch begins.
    """
    skipped = sorted(tp for tp, offset in starts.items() if offset > 0)
    pattern = isinstance(options.subscriber, TopicPatternSubscriber)
    if pattern and isinstance(options.starting_offsets, Latest) and skipped:
        log.warning(
            "Partitions %s begin at their end, since startingOffsets is latest: the records in them are not read. "
            "This is right for a new query. If this query goes on from a checkpoint of Spark's Kafka source, which "
            "would read them from their beginning, stop it, restore the copy of its checkpointLocation, and set "
            "option 'startingOffsets' to earliest.",
            shortened(", ".join(map(str, skipped))),
        )


def first_begins_by(options: KafkaOptions) -> Callable[[Offsets], Offsets]:
    """Returns a function that calls :func:`first_begins` with these options and with requests to their brokers."""

    def ask(ends: Offsets) -> Offsets:
        with closing(KafkaClient(options.connection)) as client:
            lookups = ClusterOffsets(
                client, options.read_committed, options.fetch_retries, options.fetch_retry_interval_ms
            )
            return first_begins(ends, options, lookups)

    return ask


def first_begins(ends: Offsets, options: KafkaOptions, lookups: OffsetLookups) -> Offsets:
    """Returns the offsets at which the first batch of a checkpoint begins, only those that are certain.

    The offset log of Spark's source does not have these offsets. An offset that the options name is certain. The
    beginning of a log, and the first record after a time, are looked up now. Spark's source found the same offset,
    unless records were deleted since then. For a log that begins at offset 0 this is certain. For another log the
    offset is returned only if the options accept the loss of records.

    If the pattern of topics matched none when the query began, Spark's source reads those that came later from their
    beginning, whatever time the options name. So with a pattern a time is certain only if it leads to offset 0.

    Args:
        ends: The offsets at which the first batch ends.
        options: The options of the query.
        lookups: The requests to the cluster.
    """
    start = options.starting_offsets
    named = start.offsets if isinstance(start, Specific) else {}
    begins = {tp: at for tp, at in named.items() if tp in ends and at >= 0}
    asked = _asked(start, ends)
    if asked:
        first = lookups.start_offsets(asked)
        empty = {tp: ends[tp] for tp in asked if first[tp] == ends[tp]}
        found = {**lookups.offsets_for_times(asked), **empty}
        by_time = isinstance(start, AtTimestamp) and isinstance(options.subscriber, TopicPatternSubscriber)
        begins |= {
            tp: at
            for tp, at in found.items()
            if (first[tp] == 0 or not options.fail_on_data_loss)
            and (tp in empty or at < ends[tp])
            and (at == 0 or tp in empty or not by_time)
        }
    return begins


def _asked(start: OffsetsInitializer, ends: Offsets) -> Offsets:
    """Returns what the brokers are asked for to find where each partition begins.

    It is a time (ms), for the first record at that time or later, or :data:`EARLIEST`, for the beginning of the log. A
    partition is left out if no such request finds its beginning.
    """
    if isinstance(start, AtTimestamp):
        times = start.times
        return (
            dict.fromkeys(ends, times)
            if isinstance(times, int)
            else {tp: times[tp] for tp in ends if tp in times}
        )
    if isinstance(start, Specific):
        return {tp: EARLIEST for tp in ends if start.offsets.get(tp) == EARLIEST}
    return dict.fromkeys(ends, EARLIEST) if isinstance(start, Earliest) else {}


class _LazyMapping(Mapping[str, int]):
    """A mapping whose content is looked up at the first access.

    Args:
        look_up: Returns the content of the mapping.
    """

    def __init__(self, look_up: Callable[[], Mapping[str, int]]) -> None:
        self._look_up = look_up

    @cached_property
    def _found(self) -> Mapping[str, int]:
        return self._look_up()

    def __getitem__(self, key: str) -> int:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def _offsets(document: Mapping[str, Any]) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yields each partition and its offset; the offset is ``None`` if the entry has another form."""
    for topic, partitions in document.items():
        if not isinstance(partitions, Mapping) or not partitions:
            yield TopicPartition(topic, 0), None
            continue
        for number, offset in partitions.items():
            valid = str(number).isdecimal() and type(offset) is int and offset >= 0
            yield TopicPartition(topic, int(number) if valid else 0), offset if valid else None
