"""The options of the Kafka source, with the names, meanings and errors of Spark's built-in source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flip27_stream.api.limits import ReadLimits
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.offsets_initializer import Committed, OffsetsInitializer
from flip27_stream.connectors.kafka.options import (
    java_client_options,
    offset_options,
    subscriber_options,
)
from flip27_stream.connectors.kafka.options.java_client_options import (
    FORBIDDEN,
    WITHOUT_EFFECT,
    refuse_forbidden,
    warn_without_effect,
)
from flip27_stream.connectors.kafka.subscriber import KafkaSubscriber
from flip27_stream.connectors.kafka.values import value_options
from flip27_stream.connectors.kafka.values.value_options import ValueOptions
from flip27_stream.errors import OptionError
from flip27_stream.options.given import given_options
from flip27_stream.options.kinds import BOOLEAN, DURATION_OR_MS, DURATION_OR_NEVER, MOST_INT, text, whole
from flip27_stream.options.known_options import check_known
from flip27_stream.options.option import Kind, Option, canonical_names

__all__ = [
    "FORBIDDEN",
    "KNOWN_OPTIONS",
    "OPTIONS",
    "SUPPORTED_OPTIONS",
    "WITHOUT_EFFECT",
    "KafkaOptions",
    "parse_kafka_options",
]


_ROWS_WORTH_A_TASK = 500  # Spark's CPU time for a Python task is that of some thousand small rows.


def _isolation_level(text: str, option: str) -> bool:
    if text.strip() not in ("read_committed", "read_uncommitted"):
        raise OptionError.of(option, text.strip(), "Allowed: read_committed, read_uncommitted.")
    return text.strip() == "read_committed"


MAX_OFFSETS: Final = Option(
    "maxOffsetsPerTrigger",
    whole(),
    None,
    "How many offsets a micro-batch reads. With alignment it is a strict limit, and the only one on the speed of"
    " catching up.",
)
MIN_OFFSETS: Final = Option(
    "minOffsetsPerTrigger",
    whole(),
    None,
    "A micro-batch waits until at least so many offsets can be read.",
)
MAX_DELAY: Final = Option(
    "maxTriggerDelay",
    DURATION_OR_MS,
    "15m",
    "The longest time that a micro-batch waits for `minOffsetsPerTrigger`. Without a unit: ms.",
)
MIN_PARTITIONS: Final = Option(
    "minPartitions",
    whole(most=MOST_INT),
    None,
    "How many tasks a micro-batch has at least, approximately; large partitions are divided.",
)
MAX_PER_PARTITION: Final = Option(
    "maxRecordsPerPartition",
    whole(),
    None,
    "How many offsets a task reads at most.",
)
INCLUDE_HEADERS: Final = Option(
    "includeHeaders",
    BOOLEAN,
    "false",
    "Adds a column `headers`.",
)
FAIL_ON_DATA_LOSS: Final = Option(
    "failOnDataLoss",
    BOOLEAN,
    "true",
    "`true`: the query fails if records that it must read no longer exist. `false`: it goes on with the next "
    "records, and logs a warning.",
)
FETCH_RETRIES: Final = Option(
    "fetchOffset.numRetries",
    whole(most=MOST_INT),
    "3",
    "How often a new query asks the brokers for its first offsets before it fails. A running query fails when there "
    "was no answer about a partition for this number times `kafka.default.api.timeout.ms`.",
)
FETCH_RETRY_INTERVAL: Final = Option(
    "fetchOffset.retryIntervalMs",
    whole(0),
    "1000",
    "How long to wait between two of these tries (ms).",
)
POLL_TIMEOUT: Final = Option(
    "kafkaConsumer.pollTimeoutMs",
    whole(),
    None,
    "How long a task waits for records before it fails (ms).",
    default_words="that of `kafka.default.api.timeout.ms`",
)
DISCOVERY_INTERVAL: Final = Option(
    "scan.topic-partition-discovery.interval",
    DURATION_OR_NEVER,
    "1 s",
    "How often to look for new partitions. They are read from their beginning. `0`: never while the query "
    "runs.",
)
TRUSTED_CLUSTER: Final = Option(
    "scan.trusted-cluster-id",
    text("id of a Kafka cluster", "the id of a Kafka cluster"),
    None,
    "The Kafka cluster to which topics were migrated with their offsets kept (cluster linking, a restore). A "
    "checkpoint of another cluster goes on there at its offsets, though the topics have other ids; see "
    "[decisions](decisions.md#from-sparks-own-kafka-source).",
)
GROUP_ID: Final = Option(
    "kafka.group.id",
    text("text", "the name of a consumer group"),
    None,
    "The consumer group of `scan.commit-offsets`, and of `group-offsets` of `startingOffsets` and `scan.bounded.mode`. "
    "It does nothing else; by itself it moves no offset of the group.",
)
COMMIT_OFFSETS: Final = Option(
    "scan.commit-offsets",
    BOOLEAN,
    "false",
    "Commit processed offsets to the group `kafka.group.id`, so that tools that watch lag see the query. "
    "Nothing is read from the group. Give each query a group that no other query and no application uses: a "
    "commit moves the position of all that use it.",
)
ISOLATION_LEVEL: Final = Option(
    "kafka.isolation.level",
    Kind("`read_uncommitted` or `read_committed`", _isolation_level),
    "read_uncommitted",
    "Whether records of open and aborted transactions are read.",
)
FETCH_MAX_BYTES: Final = Option(
    "kafka.fetch.max.bytes",
    whole(most=MOST_INT),
    "16777216",
    "Bytes per fetch from one broker. A larger record batch is fetched whole.",
)
MAX_PARTITION_FETCH_BYTES: Final = Option(
    "kafka.max.partition.fetch.bytes",
    whole(most=MOST_INT),
    "16777216",
    "Bytes per fetch of one partition. A larger record batch is fetched whole.",
)

_STREAM_LIMITS: Final[tuple[Option[Any], ...]] = (MAX_OFFSETS, MIN_OFFSETS, MAX_DELAY)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    java_client_options.BOOTSTRAP_SERVERS,
    *subscriber_options.OPTIONS,
    *offset_options.OPTIONS,
    *_STREAM_LIMITS,
    MIN_PARTITIONS,
    MAX_PER_PARTITION,
    INCLUDE_HEADERS,
    FAIL_ON_DATA_LOSS,
    FETCH_RETRIES,
    FETCH_RETRY_INTERVAL,
    POLL_TIMEOUT,
    DISCOVERY_INTERVAL,
    TRUSTED_CLUSTER,
    *value_options.OPTIONS,
    GROUP_ID,
    COMMIT_OFFSETS,
    ISOLATION_LEVEL,
    FETCH_MAX_BYTES,
    MAX_PARTITION_FETCH_BYTES,
    *java_client_options.OPTIONS[1:],
)
"""All options that have an effect."""

SUPPORTED_OPTIONS: Final = canonical_names(OPTIONS)
"""The canonical spelling of the options that have an effect, by their names in lower case."""

KNOWN_OPTIONS: Final = SUPPORTED_OPTIONS | {name.lower(): name for name in WITHOUT_EFFECT}
"""The canonical spelling of all accepted options, by their names in lower case."""


@dataclass(frozen=True)
class KafkaOptions:
    """The checked options of a Kafka source.

    Attributes:
        connection: The options of the connections.
        subscriber: Chooses the partitions.
        starting_offsets: The offsets at which a new query begins.
        stopping_offsets: The offsets at which reading ends; ``None`` for an unbounded stream.
        limits: The sizes of micro-batches and tasks.
        fail_on_data_loss: Whether lost records are an error.
        read_committed: Whether the isolation level is ``read_committed``.
        discovery_interval_ms: The time between two discoveries of partitions; ``None`` for one discovery only.
        trusted_cluster: The id of a Kafka cluster to which topics were migrated with their offsets kept; ``None`` if no
            cluster is trusted.
        include_headers: Whether there is a column ``headers``.
        batch: Whether this is a batch read, for which all named records have to exist.
        group_id: The consumer group that processed offsets are committed to; ``None`` if they are not committed.
        fetch_retries: The number of attempts to look up the first offsets.
        fetch_retry_interval_ms: The pause between two of these attempts.
        poll_timeout_ms: The time that a task waits for planned records; ``None`` for ``default.api.timeout.ms``.
        fetch_max_bytes: The bytes of a fetch from one broker; a larger record batch is still read.
        max_partition_fetch_bytes: The bytes of a fetch of one partition; a larger record batch is still read.
        values: The options of decoding values.
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
    fetch_max_bytes: int = 16 << 20
    max_partition_fetch_bytes: int = 16 << 20
    values: ValueOptions = field(default_factory=ValueOptions)


def parse_kafka_options(options: Mapping[str, str], *, bounded: bool = False) -> KafkaOptions:
    """Returns the checked options.

    Args:
        options: The options as the user gave them, with names in any case.
        bounded: Whether this is a batch read. It begins at the earliest offsets by default and cannot begin at the
            latest; it ends at the latest offsets by default.

    Raises:
        OptionError: An option is unknown, missing or wrong.
    """
    given = given_options(options)
    for name in sorted(given):
        refuse_forbidden(name)
    check_known(given, KNOWN_OPTIONS, suggested=(SUPPORTED_OPTIONS,))
    for name, reason in WITHOUT_EFFECT.items():
        if name.lower() in given:
            warn_without_effect(name, reason)
    subscriber = subscriber_options.parse_subscriber(given)
    group = GROUP_ID.get(given)
    start = offset_options.parse_starting_offsets(given, group, bounded=bounded)
    stop = offset_options.parse_stopping_offsets(given, subscriber, group, bounded=bounded)
    offset_options.check_order(start, stop)
    discovery_interval = DISCOVERY_INTERVAL.get(given)
    reads_group = isinstance(start, Committed) or isinstance(stop, Committed)
    commits = _commits(given, group, reads_group=reads_group, bounded=bounded)
    return KafkaOptions(
        connection=java_client_options.parse_connection(given),
        subscriber=subscriber,
        starting_offsets=start,
        stopping_offsets=stop,
        limits=_limits(given, bounded=bounded),
        fail_on_data_loss=FAIL_ON_DATA_LOSS.require(given),
        read_committed=ISOLATION_LEVEL.require(given),
        discovery_interval_ms=discovery_interval if stop is None else None,
        trusted_cluster=TRUSTED_CLUSTER.get(given),
        include_headers=INCLUDE_HEADERS.require(given),
        batch=bounded,
        group_id=group if commits else None,
        fetch_retries=FETCH_RETRIES.require(given),
        fetch_retry_interval_ms=FETCH_RETRY_INTERVAL.require(given),
        poll_timeout_ms=POLL_TIMEOUT.get(given),
        fetch_max_bytes=FETCH_MAX_BYTES.require(given),
        max_partition_fetch_bytes=MAX_PARTITION_FETCH_BYTES.require(given),
        values=value_options.parse(given),
    )


def _limits(options: Mapping[str, str], *, bounded: bool) -> ReadLimits:
    most, least, delay = MAX_OFFSETS.get(options), MIN_OFFSETS.get(options), MAX_DELAY.require(options)
    if most is not None and least is not None and least > most:
        raise OptionError(
            f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}) (options "
            "'minOffsetsPerTrigger' and 'maxOffsetsPerTrigger')."
        )
    tasks, per_task = MIN_PARTITIONS.get(options), MAX_PER_PARTITION.get(options)
    if not bounded:
        return ReadLimits(most, least, delay, tasks, per_task, rows_worth_a_task=_ROWS_WORTH_A_TASK)
    for option in _STREAM_LIMITS:
        if option.is_given(options):
            warn_without_effect(option.name, "this is a batch read")
    return ReadLimits(min_tasks=tasks, max_rows_per_task=per_task, rows_worth_a_task=_ROWS_WORTH_A_TASK)


def _commits(options: Mapping[str, str], group: str | None, *, reads_group: bool, bounded: bool) -> bool:
    """Returns whether processed offsets are committed (Flink ``commit.offsets.on.checkpoint``).

    By default they are not committed: the group may belong to another application, whose position would change.
    """
    commits = COMMIT_OFFSETS.require(options)
    if commits and group is None:
        raise OptionError(
            f"Option '{COMMIT_OFFSETS.name}' needs option '{GROUP_ID.name}', the group to commit to."
        )
    if commits and bounded:
        warn_without_effect(COMMIT_OFFSETS.name, "this is a batch read")
    if group is not None and not commits and not reads_group:
        warn_without_effect(
            GROUP_ID.name,
            f"processed offsets are committed only if option '{COMMIT_OFFSETS.name}' is true",
        )
    return commits and not bounded
