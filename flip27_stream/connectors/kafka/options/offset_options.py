"""The options of the offsets or times at which reading begins and ends."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from flip27_stream.connectors.kafka.offsets_initializer import (
    AtTimestamp,
    Committed,
    Earliest,
    Latest,
    OffsetsInitializer,
    Specific,
)
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.connectors.kafka.subscriber import KafkaSubscriber, TopicListSubscriber
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import MOST_LONG, any_text, json_object, one_of, words
from flip27_stream.options.option import Kind, Option
from flip27_stream.time_text import time_text

log = logging.getLogger(__name__)

_STARTS_EXAMPLE = (
    'Expected earliest, latest, group-offsets, or e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}.'
)
_ENDS_EXAMPLE = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":42}}.'
_TIMES_EXAMPLE = 'Expected e.g. {"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}.'
_FLINK_OFFSETS = re.compile(r"partition:(\d{1,9}),offset:(\d{1,18})", re.ASCII)
_GROUP_OFFSETS: Final = "group-offsets"
_SECONDS: Final = range(100_000_000, 31_536_000_000)
"""The range of numbers that are times from 1973 on in seconds, and in 1970 in milliseconds."""


def _epoch_ms(text: str, option: str) -> int:
    if not re.fullmatch(r"\+?\d{1,19}", text.strip(), re.ASCII) or int(text) > MOST_LONG:
        raise OptionError.of(option, text, "Expected a single long value: milliseconds since the epoch.")
    _warn_of_seconds(option, int(text))
    return int(text)


def _times(text: str, option: str) -> dict[TopicPartition, int]:
    times = _by_partition(text, option, _TIMES_EXAMPLE, 0)
    if times:
        _warn_of_seconds(option, min(times.values()))
    return times


@functools.cache
def _warn_of_seconds(option: str, time: int) -> None:
    """Logs a warning, once per process, about a time that is probably in seconds. Spark reads it as milliseconds."""
    if time in _SECONDS:
        read, meant = time_text(time), time_text(time * 1000)
        log.warning(
            "Option '%s' has the time %d, which is %s: it is in milliseconds. If you mean %s, write %d.",
            *(option, time, read, meant, time * 1000),
        )


_EPOCH_MS: Final = Kind("whole number from 0", _epoch_ms)
_TIMES: Final = Kind('JSON such as `{"clicks":{"0":1700000000000}}`', _times)

STARTING_OFFSETS: Final = Option(
    "startingOffsets",
    any_text('`earliest`, `latest`, `group-offsets`, or JSON such as `{"clicks":{"0":23,"1":-2}}`'),
    None,
    "Where a new query begins. A query with a checkpoint goes on at its offsets. `group-offsets`: at the offsets that "
    "the consumer group `kafka.group.id` has committed, of which each partition must have one. JSON must name exactly "
    "the partitions that are read; -2 stands for the earliest offset, -1 for the latest.",
    default_words="`latest`; in a batch read `earliest`",
)
STARTING_TIMES: Final = Option(
    "startingOffsetsByTimestamp",
    _TIMES,
    None,
    "A new query begins at the first record at or after a time (ms since the epoch), one for each partition. "
    "It takes precedence over `startingOffsets`.",
)
STARTING_TIMESTAMP: Final = Option(
    "startingTimestamp",
    _EPOCH_MS,
    None,
    "As `startingOffsetsByTimestamp`, with one time for all partitions. It takes precedence over that option and over "
    "`startingOffsets`.",
)
STARTING_STRATEGY: Final = Option(
    "startingOffsetsByTimestampStrategy",
    one_of({"error": False, "latest": True}),
    "error",
    "Where a partition has no record at or after that time: fail, or begin at its end.",
)
ENDING_OFFSETS: Final = Option(
    "endingOffsets",
    any_text('`latest`, or JSON such as `{"clicks":{"0":23,"1":-1}}`'),
    None,
    "Where a batch read ends, exclusively; -1 stands for the latest offset. An offset after the end of the log counts "
    "as lost records. Refused in streams, as `endingOffsetsByTimestamp` and `endingTimestamp` are.",
    default_words="in a batch read `latest`",
)
ENDING_TIMES: Final = Option(
    "endingOffsetsByTimestamp",
    _TIMES,
    None,
    "A batch read ends at the first record at or after a time, or at the end of a partition without such a record.",
)
ENDING_TIMESTAMP: Final = Option(
    "endingTimestamp",
    _EPOCH_MS,
    None,
    "As `endingOffsetsByTimestamp`, with one time for all partitions.",
)
BOUNDED_MODE: Final = Option(
    "scan.bounded.mode",
    words("unbounded", "latest-offset", "timestamp", "specific-offsets", _GROUP_OFFSETS),
    "unbounded",
    "Where a stream ends, as in Flink. A bounded stream reads only the partitions that exist when it begins. Spark "
    "stops the query there only with the trigger AvailableNow; with other triggers it goes on without rows.",
)
BOUNDED_TIMESTAMP: Final = Option(
    "scan.bounded.timestamp-millis",
    _EPOCH_MS,
    None,
    "The time at which `scan.bounded.mode` `timestamp` ends a stream.",
)
BOUNDED_OFFSETS: Final = Option(
    "scan.bounded.specific-offsets",
    any_text(
        'JSON such as `{"clicks":{"0":23}}`, or `partition:0,offset:42;partition:1,offset:7` for a single topic'
    ),
    None,
    "The offsets at which `scan.bounded.mode` `specific-offsets` ends a stream, of exactly the partitions that are "
    "read; -1 stands for the latest offset.",
)

STARTING: Final[tuple[Option[Any], ...]] = (
    STARTING_OFFSETS,
    STARTING_TIMES,
    STARTING_TIMESTAMP,
    STARTING_STRATEGY,
)
ENDING: Final[tuple[Option[Any], ...]] = (ENDING_OFFSETS, ENDING_TIMES, ENDING_TIMESTAMP)
BOUNDED: Final[tuple[Option[Any], ...]] = (BOUNDED_MODE, BOUNDED_TIMESTAMP, BOUNDED_OFFSETS)
OPTIONS: Final = (*STARTING, *ENDING, *BOUNDED)


def parse_starting_offsets(
    options: Mapping[str, str], group: str | None, *, bounded: bool
) -> OffsetsInitializer:
    """Returns the initializer of the offsets at which a query begins.

    One time for all partitions takes precedence over a time for each, and that takes precedence over offsets (SK-15).

    Args:
        options: The options of the query, by their names in lower case.
        group: The consumer group of option ``kafka.group.id``; ``None`` if it is not given.
        bounded: Whether this is a batch read.

    Raises:
        OptionError: A value is wrong, or is latest for a batch read; or the consumer group is missing.
    """
    latest = STARTING_STRATEGY.require(options)
    by_time = _by_time(options, STARTING_TIMESTAMP, STARTING_TIMES, latest)
    if by_time is not None:
        return by_time
    text = _word(STARTING_OFFSETS, options, "earliest" if bounded else "latest")
    if text.lower() == "earliest":
        return Earliest()
    if text.lower() == "latest":
        if bounded:
            raise OptionError(
                "starting offset can't be latest for batch queries on Kafka (option 'startingOffsets')."
            )
        return Latest()
    if text.lower() == _GROUP_OFFSETS:
        return _committed(group, STARTING_OFFSETS.name)
    offsets = _by_partition(text, STARTING_OFFSETS.name, _STARTS_EXAMPLE, EARLIEST)
    for tp, offset in offsets.items():
        if bounded and offset == LATEST:
            raise OptionError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka.")
    return Specific(offsets)


def parse_stopping_offsets(
    options: Mapping[str, str], subscriber: KafkaSubscriber, group: str | None, *, bounded: bool
) -> OffsetsInitializer | None:
    """Returns the initializer of the offsets at which a query ends; ``None`` for an unbounded stream.

    A batch read has the options ``ending...`` and ends at the latest offsets by default. A stream has
    ``scan.bounded...``.

    Args:
        options: The options of the query, by their names in lower case.
        subscriber: The partitions to read.
        group: The consumer group of option ``kafka.group.id``; ``None`` if it is not given.
        bounded: Whether this is a batch read.

    Raises:
        OptionError: A value is wrong or earliest, or a batch read has an option of streams, or the reverse.
    """
    if not bounded:
        _refuse_endings(options)
        return _stream_end(options, subscriber, group)
    for option in BOUNDED:
        if option.is_given(options):
            instead = ", ".join(ending.name for ending in ENDING)
            raise OptionError(f"Option '{option.name}' is for streams; a batch read takes {instead}.")
    by_time = _by_time(options, ENDING_TIMESTAMP, ENDING_TIMES, True)
    if by_time is not None:
        return by_time
    text = _word(ENDING_OFFSETS, options, "latest")
    if text.lower() == "latest":
        return Latest()
    if text.lower() == "earliest":
        raise OptionError(
            "ending offset can't be earliest for batch queries on Kafka (option 'endingOffsets')."
        )
    return Specific(_ending_offsets(text), ENDING_OFFSETS.name)


def check_order(start: OffsetsInitializer, stop: OffsetsInitializer | None) -> None:
    """Checks that reading does not begin after its end, if this is known without lookups.

    Offsets are compared with offsets, and times with times.

    Raises:
        OptionError: The two options name different partitions, or a start is after its end.
    """
    if isinstance(start, Specific) and isinstance(stop, Specific):
        _compare("offset", start.option, start.offsets, stop.option, stop.offsets)
    if (
        isinstance(start, AtTimestamp)
        and isinstance(stop, AtTimestamp)
        and not isinstance(start.times, int)
        and not isinstance(stop.times, int)
    ):
        _compare("timestamp", start.option, start.times, stop.option, stop.times)


def _compare(
    what: str,
    start_option: str,
    starts: Mapping[TopicPartition, int],
    stop_option: str,
    stops: Mapping[TopicPartition, int],
) -> None:
    if starts.keys() != stops.keys():
        odd = ", ".join(map(str, sorted(starts.keys() ^ stops.keys())))
        raise OptionError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET] Options "
            f"'{start_option}' and '{stop_option}' must name the same partitions. Only one of them names {odd}."
        )
    for tp, start in sorted(starts.items()):
        if 0 <= stops[tp] < start:
            raise OptionError(
                f"[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start {what} {start} of option "
                f"'{start_option}' is greater than the end {what} {stops[tp]} of option '{stop_option}' for {tp}."
            )


def _refuse_endings(options: Mapping[str, str]) -> None:
    for option in ENDING:
        if option.is_given(options):
            what = "Ending offset" if option is ENDING_OFFSETS else "Ending timestamp"
            raise OptionError(
                f"{what} not valid in streaming queries. Leave option '{option.name}' out; option "
                f"'{BOUNDED_MODE.name}' bounds a stream."
            )


def _by_time(
    options: Mapping[str, str],
    for_all: Option[int],
    for_each: Option[dict[TopicPartition, int]],
    latest: bool,
) -> AtTimestamp | None:
    time = for_all.get(options)
    if time is not None:
        return AtTimestamp(time, for_all.name, latest)
    times = for_each.get(options)
    return None if times is None else AtTimestamp(times, for_each.name, latest)


def _word(option: Option[str], options: Mapping[str, str], default: str) -> str:
    text = option.get(options)
    return default if text is None else text.strip()


def _ending_offsets(text: str) -> dict[TopicPartition, int]:
    example = _ENDS_EXAMPLE.replace("e.g.", "latest, or e.g.")
    offsets = _by_partition(text, ENDING_OFFSETS.name, example, EARLIEST)
    for tp, offset in offsets.items():
        if offset == EARLIEST:
            raise OptionError(
                f"ending offset for {tp} can't be earliest for batch queries on Kafka (option 'endingOffsets')."
            )
    return offsets


def _by_partition(text: str, option: str, example: str, least: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, by_number in json_object(text, option, example).items():
        if not isinstance(by_number, dict):
            raise OptionError.of(option, text, example)
        for number, value in by_number.items():
            well_formed = number.isascii() and number.isdigit() and type(value) is int
            if not well_formed or not least <= value <= MOST_LONG:
                raise OptionError.of(option, text, example)
            found[TopicPartition(topic, int(number))] = value
    return found


def _stream_end(
    options: Mapping[str, str], subscriber: KafkaSubscriber, group: str | None
) -> OffsetsInitializer | None:
    mode = BOUNDED_MODE.require(options)
    for option, needed in ((BOUNDED_TIMESTAMP, "timestamp"), (BOUNDED_OFFSETS, "specific-offsets")):
        is_given = option.is_given(options)
        if mode == needed and not is_given:
            raise OptionError(
                f"Option '{BOUNDED_MODE.name}' {needed} needs option '{option.name}'. Give that option too."
            )
        if is_given and mode != needed:
            raise OptionError(
                f"Option '{option.name}' is given, but option '{BOUNDED_MODE.name}' is {mode}. Set "
                f"'{BOUNDED_MODE.name}' to {needed}, or leave option '{option.name}' out."
            )
    if mode == "latest-offset":
        return Latest()
    if mode == "timestamp":
        return AtTimestamp(BOUNDED_TIMESTAMP.require(options), BOUNDED_TIMESTAMP.name, True)
    if mode == "specific-offsets":
        return Specific(_bounded_offsets(options, subscriber), BOUNDED_OFFSETS.name)
    return _committed(group, BOUNDED_MODE.name) if mode == _GROUP_OFFSETS else None


def _committed(group: str | None, option: str) -> OffsetsInitializer:
    if group is None:
        raise OptionError(
            f"Option '{option}' {_GROUP_OFFSETS} needs option 'kafka.group.id'. Give that option too."
        )
    return Committed(group, option)


def _bounded_offsets(options: Mapping[str, str], subscriber: KafkaSubscriber) -> dict[TopicPartition, int]:
    """Returns the offsets of ``scan.bounded.specific-offsets``.

    The option is JSON, or has Flink's form, which does not name topics and so needs exactly one topic.
    """
    option, text = BOUNDED_OFFSETS.name, BOUNDED_OFFSETS.require(options).strip()
    if text.startswith("{"):
        return _by_partition(text, option, _ENDS_EXAMPLE, LATEST)
    found = [_FLINK_OFFSETS.fullmatch(part.strip()) for part in text.rstrip(";").split(";")]
    if not all(found):
        raise OptionError.of(
            option,
            text,
            f"{_ENDS_EXAMPLE[:-1]}, or, if the query reads one topic, 'partition:0,offset:42;partition:1,offset:7'.",
        )
    if not isinstance(subscriber, TopicListSubscriber) or len(subscriber.topics) != 1:
        raise OptionError.of(
            option, text, f"The query reads several topics, so the offsets must name them. {_ENDS_EXAMPLE}"
        )
    return {TopicPartition(subscriber.topics[0], int(m[1])): int(m[2]) for m in found if m is not None}
