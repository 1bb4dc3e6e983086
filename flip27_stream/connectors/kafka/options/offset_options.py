"""Options that say where reading begins and ends."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
from flip27_stream.options.option_values import MOST_LONG, OptionValues, json_object

STARTING = (
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
)
ENDING = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
BOUNDED = ("scan.bounded.mode", "scan.bounded.timestamp-millis", "scan.bounded.specific-offsets")

OPTION_NAMES = (*STARTING, *ENDING, *BOUNDED)

_MODES = ("unbounded", "latest-offset", "timestamp", "specific-offsets", "group-offsets")
_OFFSETS_EXAMPLE = 'Expected e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}.'
_TIMES_EXAMPLE = 'Expected e.g. {"topicA":{"0":123456789,"1":123456789},"topicB":{"0":123456789}}.'
_FLINK_OFFSETS = re.compile(r"partition:(\d{1,9}),offset:(\d{1,18})", re.ASCII)


def parse_starting_offsets(values: OptionValues, *, bounded: bool) -> OffsetsInitializer:
    """One time for all partitions goes before one for each, and that before offsets (SK-15).

    Raises:
        OptionError: a value is wrong, or says latest for a batch read.
    """
    latest = values.one_of("startingOffsetsByTimestampStrategy", False, {"error": False, "latest": True})
    by_time = _by_time(values, "startingTimestamp", "startingOffsetsByTimestamp", latest)
    if by_time is not None:
        return by_time
    text = values.parsed("startingOffsets", _word, "earliest" if bounded else "latest")
    if text.lower() == "earliest":
        return Earliest()
    if text.lower() == "latest":
        if bounded:
            raise OptionError(
                "starting offset can't be latest for batch queries on Kafka (option 'startingOffsets')."
            )
        return Latest()
    offsets = _offsets("startingOffsets", text)
    for tp, offset in offsets.items():
        if bounded and offset == LATEST:
            raise OptionError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka.")
    return Specific(offsets)


def parse_stopping_offsets(
    values: OptionValues, subscriber: KafkaSubscriber, group: str | None, *, bounded: bool
) -> OffsetsInitializer | None:
    """``ending...`` of a batch read, which ends at the latest offsets by default, or ``scan.bounded...`` of a stream.

    Returns:
        ``None`` for a stream without end.

    Raises:
        OptionError: a value is wrong, says earliest, or the option is one of the other kind.
    """
    if not bounded:
        _refuse_endings(values)
        return _stream_end(values, subscriber, group)
    for name in BOUNDED:
        if values.has(name):
            raise OptionError(f"Option '{name}' is for streams; a batch read takes {', '.join(ENDING)}.")
    by_time = _by_time(values, "endingTimestamp", "endingOffsetsByTimestamp", True)
    if by_time is not None:
        return by_time
    text = values.parsed("endingOffsets", _word, "latest")
    if text.lower() == "latest":
        return Latest()
    if text.lower() == "earliest":
        raise OptionError(
            "ending offset can't be earliest for batch queries on Kafka (option 'endingOffsets')."
        )
    return Specific(_ends("endingOffsets", text), "endingOffsets")


def check_order(start: OffsetsInitializer, stop: OffsetsInitializer | None) -> None:
    """Compare what is comparable before anything is looked up: offsets with offsets, times with times.

    Raises:
        OptionError: the two name different partitions, or a start lies after its end.
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


def _refuse_endings(values: OptionValues) -> None:
    for name in ENDING:
        if values.has(name):
            what = "Ending offset" if name == "endingOffsets" else "Ending timestamp"
            raise OptionError(
                f"{what} not valid in streaming queries. Leave option '{name}' out; option 'scan.bounded.mode' bounds "
                "a stream."
            )


def _by_time(values: OptionValues, for_all: str, for_each: str, latest: bool) -> AtTimestamp | None:
    text = values.text(for_all)
    if text is not None:
        if not re.fullmatch(r"\+?\d{1,19}", text.strip(), re.ASCII) or int(text) > MOST_LONG:
            raise OptionError.of(for_all, text, "Expected a single long value: milliseconds since the epoch.")
        return AtTimestamp(int(text), for_all, latest)
    text = values.text(for_each)
    if text is None:
        return None
    return AtTimestamp(_by_partition(for_each, text, _TIMES_EXAMPLE, 0), for_each, latest)


def _word(_: str, text: str) -> str:
    return text


def _offsets(option: str, text: str) -> dict[TopicPartition, int]:
    words = {"startingOffsets": "earliest, latest, or ", "endingOffsets": "latest, or "}.get(option, "")
    return _by_partition(option, text, _OFFSETS_EXAMPLE.replace("e.g.", f"{words}e.g."), EARLIEST)


def _ends(option: str, text: str) -> dict[TopicPartition, int]:
    offsets = _offsets(option, text)
    for tp, offset in offsets.items():
        if offset == EARLIEST:
            raise OptionError(
                f"ending offset for {tp} can't be earliest for batch queries on Kafka (option '{option}')."
            )
    return offsets


def _by_partition(option: str, text: str, example: str, least: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, by_number in json_object(option, text, example).items():
        if not isinstance(by_number, dict):
            raise OptionError.of(option, text, example)
        for number, value in by_number.items():
            well_formed = number.isascii() and number.isdigit() and type(value) is int
            if not well_formed or not least <= value <= MOST_LONG:
                raise OptionError.of(option, text, example)
            found[TopicPartition(topic, int(number))] = value
    return found


def _stream_end(
    values: OptionValues, subscriber: KafkaSubscriber, group: str | None
) -> OffsetsInitializer | None:
    mode = values.one_of("scan.bounded.mode", "unbounded", {word: word for word in _MODES})
    for name, needed in (
        ("scan.bounded.timestamp-millis", "timestamp"),
        ("scan.bounded.specific-offsets", "specific-offsets"),
    ):
        if values.has(name) != (mode == needed):
            raise OptionError(
                f"Option '{name}' goes with option 'scan.bounded.mode' {needed}, and only with it; the mode is {mode}."
            )
    if mode == "latest-offset":
        return Latest()
    if mode == "timestamp":
        return _by_time(values, "scan.bounded.timestamp-millis", "", True)
    if mode == "specific-offsets":
        return Specific(_bounded_offsets(values, subscriber), "scan.bounded.specific-offsets")
    if mode == "group-offsets":
        if group is None:
            raise OptionError("Option 'scan.bounded.mode' group-offsets needs option 'kafka.group.id'.")
        return Committed(group)
    return None


def _bounded_offsets(values: OptionValues, subscriber: KafkaSubscriber) -> dict[TopicPartition, int]:
    """As JSON, or in Flink's form, which names no topic and so needs exactly one."""
    option = "scan.bounded.specific-offsets"
    text = (values.text(option) or "").strip()
    if text.startswith("{"):
        return _ends(option, text)
    found = [_FLINK_OFFSETS.fullmatch(part.strip()) for part in text.rstrip(";").split(";")]
    if not all(found):
        raise OptionError.of(
            option,
            text,
            f"{_OFFSETS_EXAMPLE[:-1]}, or for a single topic partition:0,offset:42;partition:1,offset:7.",
        )
    if not isinstance(subscriber, TopicListSubscriber) or len(subscriber.topics) != 1:
        raise OptionError.of(
            option, text, f"With more than one topic their names are needed. {_OFFSETS_EXAMPLE}"
        )
    return {TopicPartition(subscriber.topics[0], int(m[1])): int(m[2]) for m in found if m is not None}
