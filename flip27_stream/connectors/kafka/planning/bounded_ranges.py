"""The ranges of the logs that a bounded source reads, which end where the options say."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kafka.split import EARLIEST, KafkaPartitionSplit, TopicPartition
from flip27_stream.errors import DataLossError, OptionError

log = logging.getLogger(__name__)

Splits = Mapping[str, KafkaPartitionSplit]
Ranges = Mapping[str, SplitRange]
Stops = Mapping[TopicPartition, int]


def up_to(stops: Stops, splits: Splits, ranges: Ranges) -> dict[str, SplitRange]:
    """The part of each range before its stop. A split is finished once its stop is reached."""
    cut = {}
    for split_id, r in ranges.items():
        stop = stops.get(splits[split_id].topic_partition, r.position)
        cut[split_id] = (
            r if r.end < stop else SplitRange(r.position, max(stop, r.position), r.drained, final=True)
        )
    return cut


def refuse_reversed(starts: Mapping[TopicPartition, int], stops: Stops) -> None:
    """A batch read does not begin behind its end (Spark's ``KafkaSourceRDD``); :data:`EARLIEST` is not known yet.

    Raises:
        OptionError: it would.
    """
    for tp, start in sorted(starts.items()):
        if start > stops[tp]:
            raise OptionError(
                f"Beginning offset {start} is after the ending offset {stops[tp]} for topic {tp.topic} partition "
                f"{tp.partition}. Check the options that say where reading begins and ends, such as "
                "'startingOffsets' and 'endingOffsets'."
            )


def check_batch(stops: Stops, splits: Splits, ranges: Ranges, *, fail_on_data_loss: bool) -> None:
    """A stream waits for records up to its stop; a batch read has only those that are there now.

    Args:
        stops: where reading ends, exclusively.
        splits: never planned, so that they still say where reading begins.
        ranges: what the logs have, of the splits whose leaders answered.
        fail_on_data_loss: else what is there is read, with a warning.

    Raises:
        OptionError: a log begins behind its stop.
        DataLossError: a log ends before its stop.
    """
    looked = [(splits[split_id], r) for split_id, r in ranges.items()]
    earliest = {s.topic_partition: r.position for s, r in looked if s.starting_offset == EARLIEST}
    refuse_reversed(earliest, stops)
    for split, r in looked:
        stop = stops[split.topic_partition]
        if r.end < stop:
            what = (
                f"Records of {split.split_id} that were asked for are not there: wanted up to offset {stop}, but the "
                f"log ends at {r.end}."
            )
            if fail_on_data_loss:
                raise DataLossError(
                    f"{what} Choose an earlier end (option 'endingOffsets'). To go on with what is there, set option "
                    "'failOnDataLoss' to false."
                )
            log.warning("%s The read goes on, since option 'failOnDataLoss' is false.", what)
