"""Parses the options of the Pulsar source."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flip27_stream.api import ReadLimits
from flip27_stream.connectors.pulsar.options import option_list as names
from flip27_stream.connectors.pulsar.options.auth_params import check_auth_params
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.connectors.pulsar.options.option_list import (
    KNOWN_OPTIONS,
    REFUSED,
    SUPPORTED_OPTIONS,
    WITHOUT_EFFECT,
)
from flip27_stream.connectors.pulsar.options.start import StartKind, StartPosition
from flip27_stream.connectors.pulsar.options.topic_names import full_name, not_persistent, topic_of
from flip27_stream.errors import OptionError, some_of
from flip27_stream.options.given import given_options
from flip27_stream.options.known_options import check_known, check_supported

log = logging.getLogger(__name__)

Given = Mapping[str, str]
"""The options of a query, by their names in lower case."""

_PATTERN = re.compile(r"(?:persistent://)?(?:([^/\s]+)/([^/\s]+)/)?([^/\s]+)")


@dataclass(frozen=True)
class TopicPattern:
    """The topics in ``namespace`` whose local names match the regular expression ``name`` as a whole."""

    namespace: str
    name: str

    def matches(self, topic: str) -> bool:
        """Returns whether a topic of the namespace, given by its full name, matches."""
        return re.fullmatch(self.name, topic.rpartition("/")[2]) is not None


@dataclass(frozen=True)
class PulsarOptions:
    """The checked options of a Pulsar source.

    Attributes:
        connection: The options of the connections.
        topics: The full names of the topics to read, each once; or a pattern.
        start: The start position of a new query.
        limits: The read limits of a micro-batch.
        fail_on_data_loss: Whether lost messages fail the query.
        subscription: The subscription whose cursors are moved after processed messages; ``None`` for no subscription.
        role_prefix: The beginning of the names of the subscriptions that readers make; ``None`` for the default.
        poll_timeout_ms: The time (ms) that a task waits for a message.
        discovery_interval_ms: The time (ms) between two discoveries of partitions; ``None`` for one discovery only.
        receiver_queue: The number of messages that a task fetches in advance.
    """

    connection: PulsarConnectionOptions
    topics: tuple[str, ...] | TopicPattern
    start: StartPosition = field(default_factory=StartPosition)
    limits: ReadLimits = field(default_factory=ReadLimits)
    fail_on_data_loss: bool = True
    subscription: str | None = None
    role_prefix: str | None = None
    poll_timeout_ms: int = 120_000
    discovery_interval_ms: int | None = 10_000
    receiver_queue: int = 1000


def parse_pulsar_options(options: Mapping[str, str], *, bounded: bool = False) -> PulsarOptions:
    """Returns the checked options.

    Args:
        options: The options as the user gave them, with names in any case.
        bounded: Whether this is a batch read, which begins at the earliest message by default and has no limits.

    Raises:
        OptionError: An option is unknown, missing, wrong or not supported.
    """
    given = given_options(options)
    check_known(given, KNOWN_OPTIONS, suggested=(SUPPORTED_OPTIONS,))
    check_supported(given, REFUSED, WITHOUT_EFFECT, log)
    topics = _topics(given)
    limits = ReadLimits(
        max_rows=names.MAX_RECORDS_PER_TRIGGER.get(given), max_bytes=names.MAX_BYTES_PER_TRIGGER.get(given)
    )
    return PulsarOptions(
        connection=_connection(given),
        topics=topics,
        start=_start(given, topics, bounded=bounded),
        limits=ReadLimits() if bounded else limits,
        fail_on_data_loss=names.FAIL_ON_DATA_LOSS.require(given),
        subscription=names.PREDEFINED_SUBSCRIPTION.get(given),
        role_prefix=_role_prefix(given),
        poll_timeout_ms=names.POLL_TIMEOUT.require(given),
        discovery_interval_ms=None if bounded else names.DISCOVERY_INTERVAL.get(given),
        receiver_queue=names.RECEIVER_QUEUE.require(given),
    )


def _topics(given: Given) -> tuple[str, ...] | TopicPattern:
    ways = [o for o in (names.TOPIC, names.TOPICS, names.TOPICS_PATTERN) if o.is_given(given)]
    if len(ways) != 1:
        raise OptionError(
            "Set exactly one of the options 'topic', 'topics' and 'topicsPattern', which name the topics to read."
        )
    option, text = ways[0], ways[0].require(given)
    if option is names.TOPICS_PATTERN:
        return _pattern(text, given)
    listed = [text] if option is names.TOPIC else text.split(",")
    return tuple(dict.fromkeys(full_name(topic, option.name) for topic in listed))


def _pattern(text: str, given: Given) -> TopicPattern:
    if text.startswith("non-persistent://"):
        raise not_persistent(text, names.TOPICS_PATTERN.name)
    allowed = (
        "Allowed: a regular expression, or persistent://tenant/namespace/ followed by a regular expression"
    )
    found = _PATTERN.fullmatch(text)
    if found is None:
        raise names.TOPICS_PATTERN.wrong(text, f"{allowed}, without white space and without a slash.")
    try:
        re.compile(found[3])
    except re.error as error:
        raise names.TOPICS_PATTERN.wrong(text, f"{allowed} ({error}).") from error
    if not names.ADMIN_URL.is_given(given):
        raise OptionError(
            "Option 'topicsPattern' needs option 'admin.url': pulsar-client cannot list topics, only the admin API can."
        )
    return TopicPattern(f"{found[1] or 'public'}/{found[2] or 'default'}", found[3])


def _role_prefix(given: Given) -> str | None:
    prefixes = {o.require(given) for o in (names.SUBSCRIPTION_PREFIX, names.ROLE_PREFIX) if o.is_given(given)}
    if len(prefixes) > 1:
        raise OptionError(
            "Options 'subscriptionPrefix' and 'pulsar.reader.subscriptionRolePrefix' are two names of one option, and "
            f"have different values: {', '.join(sorted(prefixes))}. Give one of them."
        )
    return next(iter(prefixes), None)


def _start(given: Given, topics: tuple[str, ...] | TopicPattern, *, bounded: bool) -> StartPosition:
    if names.STARTING_OFFSETS.is_given(given) and names.STARTING_TIME.is_given(given):
        raise OptionError("Set one of the options 'startingOffsets' and 'startingTime', not both.")
    option = names.STARTING_TIME if names.STARTING_TIME.is_given(given) else names.STARTING_OFFSETS
    start = option.get(given)
    if start is None:
        return StartPosition(StartKind.EARLIEST if bounded else StartKind.LATEST)
    if not isinstance(topics, TopicPattern):
        _check_topics(option.name, start, topics)
    if not bounded:
        return start
    if StartKind.LATEST in (start.by_topic.values() or (start.otherwise,)):
        raise names.STARTING_OFFSETS.wrong(
            option.text(given),
            "A batch read has nothing to read then. Allowed: earliest, JSON without latest.",
        )
    return replace(start, otherwise=StartKind.EARLIEST) if start.by_topic else start


def _check_topics(option: str, start: StartPosition, topics: tuple[str, ...]) -> None:
    """Checks that the start positions of an option are of topics that are read, or of partitions of these."""
    read = {*topics, *map(topic_of, topics)}
    for name in start.by_topic:
        if name not in read and topic_of(name) not in topics:
            raise OptionError(
                f"Option '{option}' names {name}, which is not read: option 'topic' or 'topics' names "
                f"{some_of(topics)}. Correct the name, or leave it out."
            )


def _connection(given: Given) -> PulsarConnectionOptions:
    method, params = names.AUTH_PLUGIN.get(given), names.AUTH_PARAMS.get(given) or ""
    if params and method is None:
        raise OptionError(
            "Option 'pulsar.client.authParams' needs option 'pulsar.client.authPluginClassName'. Give both, or "
            "neither."
        )
    if method is not None:
        check_auth_params(method, params)
    if method not in (None, "token") and names.TOPICS_PATTERN.is_given(given):
        raise OptionError(
            "Option 'topicsPattern' asks the admin API, which is reached with a token or without authentication. Name "
            "the topics in option 'topics'."
        )
    return PulsarConnectionOptions(
        service_url=names.SERVICE_URL.require(given),
        admin_url=names.ADMIN_URL.get(given),
        auth_method=method,
        auth_params=params,
        operation_timeout_ms=names.OPERATION_TIMEOUT.require(given),
        connection_timeout_ms=names.CONNECTION_TIMEOUT.require(given),
        io_threads=names.IO_THREADS.require(given),
        concurrent_lookups=names.CONCURRENT_LOOKUPS.require(given),
        tls_trust_certs=names.TLS_TRUST_CERTS.get(given),
        tls_allow_insecure=names.TLS_ALLOW_INSECURE.require(given),
        tls_validate_hostname=names.TLS_HOSTNAME.require(given),
        listener_name=names.LISTENER_NAME.get(given),
    )
