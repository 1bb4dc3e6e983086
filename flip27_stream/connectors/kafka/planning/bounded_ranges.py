"""The ranges of a bounded source, which end at the stopping offsets of the options."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping

from flip27_stream.api import SplitRange
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kafka.options.source_options import KafkaOptions
from flip27_stream.connectors.kafka.planning.log_bounds import LogRangesResult
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import OptionError

log = logging.getLogger(__name__)

Splits = Mapping[str, KafkaPartitionSplit]
Stops = Mapping[TopicPartition, int]


def up_to(stops: Stops, splits: Splits, ranges: Mapping[str, SplitRange]) -> dict[str, SplitRange]:
    """Returns each range cut at its stopping offset. A range that ends at its stopping offset is final.

    Args:
        stops: The offsets (exclusive) at which reading ends.
        splits: The splits by split id.
        ranges: The ranges of the logs by split id.
    """
    cut = {}
    for split_id, r in ranges.items():
        stop = stops.get(splits[split_id].topic_partition, r.position)
        cut[split_id] = (
            r if r.end < stop else SplitRange(r.position, max(stop, r.position), r.drained, final=True)
        )
    return cut


def refuse_reversed(starts: Mapping[TopicPartition, int], stops: Stops) -> None:
    """Checks that no partition of a batch read starts after its end (Spark ``KafkaSourceRDD``).

    The marker :data:`EARLIEST` is less than all offsets, so it passes.

    Raises:
        OptionError: A partition starts after its end.
    """
    for tp, start in sorted(starts.items()):
        if start > stops[tp]:
            raise OptionError(
                f"Beginning offset {start} is after the ending offset {stops[tp]} for topic {tp.topic} partition "
                f"{tp.partition}. Check the options that say where reading begins and ends, such as "
                "'startingOffsets' and 'endingOffsets'."
            )


def reachable(
    stops: Stops,
    splits: Splits,
    result: LogRangesResult,
    new: Container[str],
    options: KafkaOptions,
) -> Stops:
    """Returns the stopping offsets, where those that a log cannot reach any more become the end of that log.

    Otherwise the source would wait for records that are lost. The stopping offset of a topic that was created again is
    an offset of the former topic. Any other log is short if it had its stopping offset once, ends before it, and all
    its records are read; a batch read, which waits for no records, does not read them first.

    Args:
        stops: The offsets (exclusive) at which reading ends.
        splits: The splits by split id.
        result: The ranges of the logs, and the topics that were created again, whose loss was reported.
        new: The ids of the splits that were not planned yet.
        options: The options of the source.

    Raises:
        OptionError: A log of a batch read begins after its stopping offset.
        DataLossError: A log is short, and ``failOnDataLoss`` is set.
    """
    found, initializer = {splits[i]: r for i, r in result.ranges.items()}, options.stopping_offsets
    if options.batch:
        begins = {s: r.position for s, r in found.items() if s.split_id in new}
        earliest = {s.topic_partition: at for s, at in begins.items() if s.starting_offset == EARLIEST}
        refuse_reversed(earliest, stops)
    ends = {}
    for split, r in found.items():
        tp = split.topic_partition
        stop = stops.get(tp, r.end)
        if r.final or r.end >= stop:
            continue
        waits = not options.batch and initializer is not None and initializer.waits_for_records(tp)
        is_read = r.drained and r.position == r.end and not waits
        is_short = is_read or (options.batch and split.split_id in new)
        if is_short and tp not in result.recreated:
            _report_short_log(split.split_id, stop, r.end, fail=options.fail_on_data_loss)
        if is_short or tp in result.recreated:
            ends[tp] = r.end
    return {**stops, **ends} if ends else stops


def _report_short_log(split_id: str, stop: int, end: int, *, fail: bool) -> None:
    report_data_loss(
        log,
        f"Requested records of {split_id} do not exist: wanted up to offset {stop}, but the log ends at {end}.",
        fail=fail,
        remedy="Choose an earlier end (option 'endingOffsets', in a stream 'scan.bounded.mode'). To go on with the "
        "data that is left, set option 'failOnDataLoss' to false.",
        goes_on="The read goes on",
    )
