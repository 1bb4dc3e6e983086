"""The ranges of a bounded source, which end at the stopping offsets of the options."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flip27_stream.api import SplitRange
from flip27_stream.connector_base.data_loss import report_data_loss
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import OptionError

log = logging.getLogger(__name__)

Splits = Mapping[str, KafkaPartitionSplit]
Ranges = Mapping[str, SplitRange]
Stops = Mapping[TopicPartition, int]


def up_to(stops: Stops, splits: Splits, ranges: Ranges) -> dict[str, SplitRange]:
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


def check_batch(stops: Stops, splits: Splits, ranges: Ranges, *, fail_on_data_loss: bool) -> None:
    """Checks that the logs have all records of a batch read, which does not wait for records as a stream does.

    Args:
        stops: The offsets (exclusive) at which reading ends.
        splits: The splits by split id, not planned yet, so that their starting offsets are those of the options.
        ranges: The ranges of the logs, of the splits whose leaders answered.
        fail_on_data_loss: Whether missing records are an error; else a warning is logged and the rest is read.

    Raises:
        OptionError: A log begins after its stopping offset.
        DataLossError: A log ends before its stopping offset, and ``fail_on_data_loss`` is set.
    """
    found = [(splits[split_id], r) for split_id, r in ranges.items()]
    earliest = {s.topic_partition: r.position for s, r in found if s.starting_offset == EARLIEST}
    refuse_reversed(earliest, stops)
    for split, r in found:
        stop = stops[split.topic_partition]
        if r.end < stop:
            what = (
                f"Requested records of {split.split_id} do not exist: wanted up to offset {stop}, but the "
                f"log ends at {r.end}."
            )
            report_data_loss(
                log,
                what,
                fail=fail_on_data_loss,
                remedy="Choose an earlier end (option 'endingOffsets'). To go on with the data that is left, set "
                "option 'failOnDataLoss' to false.",
                goes_on="The read goes on",
            )
