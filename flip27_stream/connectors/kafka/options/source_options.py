"""Options of the Kafka source: the names, meanings and errors of Spark's built-in source."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flip27_stream.api.limits import ReadLimits
from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.offsets_initializer import Committed, OffsetsInitializer
from flip27_stream.connectors.kafka.options import (
    java_client_options,
    offset_options,
    subscriber_options,
    value_options,
)
from flip27_stream.connectors.kafka.options.java_client_options import (
    FORBIDDEN,
    WITHOUT_EFFECT,
    refuse_forbidden,
    warn_without_effect,
)
from flip27_stream.connectors.kafka.options.value_options import ValueOptions
from flip27_stream.connectors.kafka.subscriber import KafkaSubscriber
from flip27_stream.errors import OptionError
from flip27_stream.options.option_values import MOST_INT, OptionValues
from watermark_alignment.options import check_known, parse_duration

__all__ = ["FORBIDDEN", "OPTION_NAMES", "WITHOUT_EFFECT", "KafkaOptions", "parse_kafka_options"]

_STREAM_LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")

TRUSTED_CLUSTER = "scan.trusted-cluster-id"

OPTION_NAMES = (
    *subscriber_options.OPTION_NAMES,
    *offset_options.OPTION_NAMES,
    *_STREAM_LIMITS,
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "failOnDataLoss",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafkaConsumer.pollTimeoutMs",
    "scan.topic-partition-discovery.interval",
    TRUSTED_CLUSTER,
    *value_options.OPTION_NAMES,
    "kafka.group.id",
    "scan.commit-offsets",
    "kafka.isolation.level",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    *java_client_options.OPTION_NAMES,
)
"""Every option that has an effect, in its canonical spelling."""

_KNOWN = {name.lower(): name for name in (*OPTION_NAMES, *WITHOUT_EFFECT)}


@dataclass(frozen=True)
class KafkaOptions:
    """What the options say, checked.

    Attributes:
        stopping_offsets: where reading ends; ``None`` for a stream without end.
        discovery_interval_ms: how often new partitions are looked for; ``None`` for never.
        trusted_cluster: the id of a Kafka cluster to which topics were migrated with their offsets kept; ``None`` for
            none.
        batch: a batch read, for which all that the options name has to be there.
        group_id: the consumer group that processed offsets are committed to; ``None`` where nothing is committed.
        fetch_retries: how often offsets are asked for before giving up.
        fetch_retry_interval_ms: how long to wait in between.
        poll_timeout_ms: how long a task waits for records that should be there.
        fetch_max_bytes: bytes per fetch from one broker; a larger record batch is read all the same.
        max_partition_fetch_bytes: bytes per fetch of one partition, likewise.
    """

    connection: ConnectionOptions
    subscriber: KafkaSubscriber
    starting_offsets: OffsetsInitializer
    stopping_offsets: OffsetsInitializer | None = None
    limits: ReadLimits = field(default_factory=ReadLimits)
    fail_on_data_loss: bool = True
    read_committed: bool = False
    discovery_interval_ms: int | None = 1000
    trusted_cluster: str | None = None
    include_headers: bool = False
    batch: bool = False
    group_id: str | None = None
    fetch_retries: int = 3
    fetch_retry_interval_ms: int = 1000
    poll_timeout_ms: int | None = None
    fetch_max_bytes: int = 8 << 20
    max_partition_fetch_bytes: int = 4 << 20
    values: ValueOptions = field(default_factory=ValueOptions)


def parse_kafka_options(options: Mapping[str, str], *, bounded: bool = False) -> KafkaOptions:
    """Check options, whose names may be in any case.

    Args:
        options: as the user gave them.
        bounded: for a batch read, which begins at the earliest offset by default and cannot begin at the latest, and
            ends at the latest by default.

    Raises:
        OptionError: one is unknown, missing or wrong.
    """
    given = {name.lower(): value for name, value in options.items()}
    values = OptionValues(given)
    for name in sorted(given):
        refuse_forbidden(name)
    check_known(given, _KNOWN)
    for name, reason in WITHOUT_EFFECT.items():
        if values.has(name):
            warn_without_effect(name, reason)
    subscriber = subscriber_options.parse_subscriber(values)
    group = values.parsed("kafka.group.id", _named("the name of a consumer group"), None)
    start = offset_options.parse_starting_offsets(values, bounded=bounded)
    stop = offset_options.parse_stopping_offsets(values, subscriber, group, bounded=bounded)
    offset_options.check_order(start, stop)
    commits = _commits(values, group, reads_group=isinstance(stop, Committed), bounded=bounded)
    return KafkaOptions(
        connection=java_client_options.parse_connection(values),
        subscriber=subscriber,
        starting_offsets=start,
        stopping_offsets=stop,
        limits=_limits(values, bounded=bounded),
        fail_on_data_loss=values.boolean("failOnDataLoss", True),
        read_committed=values.parsed("kafka.isolation.level", _isolation_level, False),
        discovery_interval_ms=_discovery_interval(values) if stop is None else None,
        trusted_cluster=values.parsed(TRUSTED_CLUSTER, _named("the id of a Kafka cluster"), None),
        include_headers=values.boolean("includeHeaders", False),
        batch=bounded,
        group_id=group if commits else None,
        fetch_retries=values.whole("fetchOffset.numRetries", KafkaOptions.fetch_retries, most=MOST_INT),
        fetch_retry_interval_ms=values.whole(
            "fetchOffset.retryIntervalMs", KafkaOptions.fetch_retry_interval_ms, 0
        ),
        poll_timeout_ms=values.whole("kafkaConsumer.pollTimeoutMs", None),
        fetch_max_bytes=values.whole("kafka.fetch.max.bytes", KafkaOptions.fetch_max_bytes, most=MOST_INT),
        max_partition_fetch_bytes=values.whole(
            "kafka.max.partition.fetch.bytes", KafkaOptions.max_partition_fetch_bytes, most=MOST_INT
        ),
        values=value_options.parse(given, values),
    )


def _limits(values: OptionValues, *, bounded: bool) -> ReadLimits:
    most = values.whole("maxOffsetsPerTrigger", None)
    least = values.whole("minOffsetsPerTrigger", None)
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}) (options "
            "'minOffsetsPerTrigger' and 'maxOffsetsPerTrigger')."
        )
    delay = values.parsed("maxTriggerDelay", _delay, ReadLimits.max_trigger_delay_ms)
    tasks = values.whole("minPartitions", None, most=MOST_INT)
    per_task = values.whole("maxRecordsPerPartition", None)
    if not bounded:
        return ReadLimits(most, least, delay, tasks, per_task)
    for name in _STREAM_LIMITS:
        if values.has(name):
            warn_without_effect(name, "this is a batch read")
    return ReadLimits(min_tasks=tasks, max_rows_per_task=per_task)


def _discovery_interval(values: OptionValues) -> int | None:
    """What is bounded has the splits it began with (as in Flink), so nothing is looked for there."""
    default = KafkaOptions.discovery_interval_ms
    return values.parsed(
        "scan.topic-partition-discovery.interval",
        lambda name, text: parse_duration(text, name) or None,
        default,
    )


def _delay(name: str, text: str) -> int:
    """A number without a unit is milliseconds, as in Spark."""
    return parse_duration(f"{text} ms" if re.fullmatch(r"\d+", text, re.ASCII) else text, name)


def _named(what: str) -> Callable[[str, str], str]:
    def parse(name: str, text: str) -> str:
        if not text:
            raise OptionError.of(name, text, f"Allowed: {what}.")
        return text

    return parse


def _commits(values: OptionValues, group: str | None, *, reads_group: bool, bounded: bool) -> bool:
    """Whether processed offsets are committed (Flink ``commit.offsets.on.checkpoint``); by default they are not.

    The group may belong to another application, whose position a commit would move.
    """
    name = "scan.commit-offsets"
    commits = values.boolean(name, False)
    if commits and group is None:
        raise OptionError(f"Option '{name}' needs option 'kafka.group.id', the group to commit to.")
    if commits and bounded:
        warn_without_effect(name, "this is a batch read")
    if group is not None and not commits and not reads_group:
        warn_without_effect(
            "kafka.group.id", f"processed offsets are committed only where option '{name}' is true"
        )
    return commits and not bounded


def _isolation_level(name: str, text: str) -> bool:
    if text not in ("read_committed", "read_uncommitted"):
        raise OptionError.of(name, text, "Allowed: read_committed, read_uncommitted.")
    return text == "read_committed"
