"""Options of the Kafka source: the names, meanings and errors of Spark's built-in source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from flip27_stream.connectors.kafka.client import ConnectionOptions
from flip27_stream.connectors.kafka.offsets_initializer import Earliest, Latest, OffsetsInitializer, Specific
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.connectors.kafka.subscriber import (
    KafkaSubscriber,
    PartitionSetSubscriber,
    TopicListSubscriber,
    TopicPatternSubscriber,
)
from flip27_stream.errors import OptionError
from watermark_alignment.options import check_known, parse_duration

OPTION_NAMES = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "maxOffsetsPerTrigger",
    "failOnDataLoss",
    "scan.topic-partition-discovery.interval",
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.isolation.level",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
)
"""Every option, in its canonical spelling."""

STRATEGIES = ("subscribe", "subscribePattern", "assign")
_SEE_BOTH = "startingOffsets says where a new query starts; after that the checkpoint does, so that no record is missed"

FORBIDDEN = {
    "kafka.auto.offset.reset": f"Set startingOffsets to earliest or latest instead: {_SEE_BOTH}.",
    "kafka.key.deserializer": "Keys are binary columns; deserialize them with DataFrame operations.",
    "kafka.value.deserializer": "Values are binary columns; deserialize them with DataFrame operations.",
    "kafka.enable.auto.commit": "The source commits no offsets to Kafka; the checkpoint holds them.",
    "kafka.interceptor.classes": "Interceptors can change records, and are Java classes.",
}
"""Kafka settings that cannot be given, and why (the first five are Spark's)."""

_ENDINGS = {"endingoffsets": "Ending offset", "endingoffsetsbytimestamp": "Ending timestamp"}

T = TypeVar("T")
N = TypeVar("N", int, None)


@dataclass(frozen=True)
class KafkaOptions:
    """What the options say, checked.

    Attributes:
        discovery_interval_ms: how often new partitions are looked for; ``None`` for never.
        max_offsets_per_trigger: rows per micro-batch; ``None`` for no limit.
        fetch_max_bytes: bytes per fetch from one broker; a larger record batch is read all the same.
        max_partition_fetch_bytes: bytes per fetch of one partition, likewise.
    """

    connection: ConnectionOptions
    subscriber: KafkaSubscriber
    starting_offsets: OffsetsInitializer
    fail_on_data_loss: bool = True
    read_committed: bool = False
    discovery_interval_ms: int | None = 1000
    max_offsets_per_trigger: int | None = None
    fetch_max_bytes: int = 4 << 20
    max_partition_fetch_bytes: int = 1 << 20


def parse_kafka_options(options: Mapping[str, str], *, bounded: bool = False) -> KafkaOptions:
    """Check options, whose names may be in any case.

    Args:
        options: as the user gave them.
        bounded: for a batch read, which begins at the earliest offset by default and cannot begin at the latest.

    Raises:
        OptionError: one is unknown, missing or wrong.
    """
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given)
    subscriber = _subscriber(given)
    read = _Reader(given)
    api_timeout = read.positive("kafka.default.api.timeout.ms", None)
    return KafkaOptions(
        connection=ConnectionOptions(
            bootstrap_servers=_bootstrap_servers(given.get("kafka.bootstrap.servers")),
            client_id=given.get("kafka.client.id", ConnectionOptions.client_id),
            request_timeout_ms=read.positive(
                "kafka.request.timeout.ms", ConnectionOptions.request_timeout_ms
            ),
            api_timeout_ms=api_timeout or ConnectionOptions.api_timeout_ms,
            first_contact_timeout_ms=api_timeout or ConnectionOptions.first_contact_timeout_ms,
        ),
        subscriber=subscriber,
        starting_offsets=_starting_offsets(given.get("startingoffsets"), bounded),
        fail_on_data_loss=read.parsed("failOnDataLoss", _boolean, True),
        read_committed=read.parsed("kafka.isolation.level", _isolation_level, False),
        discovery_interval_ms=read.parsed(
            "scan.topic-partition-discovery.interval", _interval, KafkaOptions.discovery_interval_ms
        ),
        max_offsets_per_trigger=read.positive("maxOffsetsPerTrigger", None),
        fetch_max_bytes=read.positive("kafka.fetch.max.bytes", KafkaOptions.fetch_max_bytes, _MOST_BYTES),
        max_partition_fetch_bytes=read.positive(
            "kafka.max.partition.fetch.bytes", KafkaOptions.max_partition_fetch_bytes, _MOST_BYTES
        ),
    )


_MOST_BYTES = 2**31 - 1


class _Reader:
    """Reads single options; a name that was not given has its default."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def parsed(self, name: str, parse: Callable[[str, str], T], default: T) -> T:
        text = self._given.get(name.lower())
        return default if text is None else parse(name, text.strip())

    def positive(self, name: str, default: N, most: int = 2**63 - 1) -> int | N:
        text = self._given.get(name.lower())
        if text is None:
            return default
        if not re.fullmatch(r"\+?\d{1,19}", text.strip()) or not 0 < int(text) <= most:
            raise OptionError.of(name, text, f"Allowed: a whole number from 1 to {most}.")
        return int(text)


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for name in sorted(given):
        if name in FORBIDDEN:
            raise OptionError(
                f"Kafka option '{name.removeprefix('kafka.')}' is not supported. {FORBIDDEN[name]}"
            )
        if name in _ENDINGS:
            raise OptionError(
                f"{_ENDINGS[name]} not valid in streaming queries; batch reads of this format end at the latest "
                f"offsets. Leave option '{name}' out."
            )
    check_known(given, {name.lower(): name for name in OPTION_NAMES})


def _subscriber(given: Mapping[str, str]) -> KafkaSubscriber:
    chosen = [name for name in STRATEGIES if name.lower() in given]
    one_of = f"{', '.join(STRATEGIES)}. See the docs for more details."
    if not chosen:
        raise OptionError(f"One of the following options must be specified for Kafka source: {one_of}")
    if len(chosen) > 1:
        raise OptionError(f"Only one of the following options can be specified for Kafka source: {one_of}")
    text = given[chosen[0].lower()]
    return {"subscribe": _topic_list, "subscribePattern": _pattern, "assign": _partition_set}[chosen[0]](text)


def _topic_list(text: str) -> TopicListSubscriber:
    topics = sorted({name.strip() for name in text.split(",")} - {""})
    if not topics:
        raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
    return TopicListSubscriber(tuple(topics))


def _pattern(text: str) -> TopicPatternSubscriber:
    if not text.strip():
        raise OptionError(
            f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'"
        )
    try:
        return TopicPatternSubscriber(re.compile(text.strip()))
    except re.error as error:
        raise OptionError.of(
            "subscribePattern", text, f"Allowed: a regular expression; this is none: {error}."
        ) from error


def _partition_set(text: str) -> PartitionSetSubscriber:
    if not text.strip().startswith("{"):
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
    partitions = set()
    for topic, numbers in _json_object("assign", text, _ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise OptionError.of("assign", text, _ASSIGN_EXAMPLE)
        partitions |= {TopicPartition(topic, n) for n in numbers}
    if not partitions:
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
    return PartitionSetSubscriber(frozenset(partitions))


_ASSIGN_EXAMPLE = 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}.'
_OFFSETS_EXAMPLE = 'Expected earliest, latest, or e.g. {"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}.'


def _starting_offsets(text: str | None, bounded: bool) -> OffsetsInitializer:
    word = (text or ("earliest" if bounded else "latest")).strip().lower()
    if word == "earliest":
        return Earliest()
    if word == "latest":
        if bounded:
            raise OptionError(
                "starting offset can't be latest for batch queries on Kafka (option 'startingOffsets')."
            )
        return Latest()
    offsets = _partition_offsets(text or "")
    for tp, offset in offsets.items():
        if bounded and offset == LATEST:
            raise OptionError(f"startingOffsets for {tp} can't be latest for batch queries on Kafka.")
    return Specific(offsets)


def _partition_offsets(text: str) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    for topic, by_partition in _json_object("startingOffsets", text, _OFFSETS_EXAMPLE).items():
        if not isinstance(by_partition, dict):
            raise OptionError.of("startingOffsets", text, _OFFSETS_EXAMPLE)
        for number, offset in by_partition.items():
            if not number.isdecimal() or type(offset) is not int or not EARLIEST <= offset < 2**63:
                raise OptionError.of("startingOffsets", text, _OFFSETS_EXAMPLE)
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def _json_object(option: str, text: str, example: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise OptionError.of(option, text, example)
    return value


def _bootstrap_servers(text: str | None) -> str:
    servers = [server.strip() for server in (text or "").split(",") if server.strip()]
    if not servers:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    for server in servers:
        if not re.fullmatch(r"(\w+://)?(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):\d{1,5}", server):
            allowed = "Allowed: host:port, or several with commas between."
            raise OptionError.of("kafka.bootstrap.servers", text, allowed)
    return ",".join(servers)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise OptionError.of(name, text, "Allowed: true, false.")
    return text.lower() == "true"


def _isolation_level(name: str, text: str) -> bool:
    if text not in ("read_committed", "read_uncommitted"):
        raise OptionError.of(name, text, "Allowed: read_committed, read_uncommitted.")
    return text == "read_committed"


def _interval(name: str, text: str) -> int | None:
    return parse_duration(text, name) or None
