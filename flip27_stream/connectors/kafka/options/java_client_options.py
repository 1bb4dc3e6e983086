"""The settings of Java's Kafka consumer (``kafka.*``): translated settings, settings without effect, refused settings.

Each name of Apache Kafka's ``ConsumerConfig`` is in one of the tables, so that no setting is ignored silently. A
setting is translated, or logged once as a warning, or refused with the reason. Other names are unknown options.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.sasl import service_credential
from flip27_stream.connectors.kafka.security.security_settings import (
    MECHANISMS,
    SECURITY_OPTIONS,
    parse_security,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import MOST_INT, any_text, whole, words
from flip27_stream.options.option import Kind, Option

log = logging.getLogger(__name__)

_SERVER = re.compile(r"(\w+://)?(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")


def _bootstrap_servers(text: str, option: str) -> str:
    servers = [server.strip() for server in text.split(",") if server.strip()]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            raise OptionError.of(option, text, "Allowed: host:port, or several with commas between.")
    return ",".join(servers)


BOOTSTRAP_SERVERS: Final = Option(
    "kafka.bootstrap.servers",
    Kind("`host:port`, several with commas between", _bootstrap_servers),
    None,
    "Brokers to ask first. Required.",
)
CLIENT_ID: Final = Option(
    "kafka.client.id",
    any_text(),
    "flip27-stream",
    "The name of this client in the logs of brokers.",
)
CLIENT_RACK: Final = Option(
    "kafka.client.rack",
    any_text(),
    None,
    "The rack of this client, for brokers that let clients read from the nearest replica.",
)
DNS_LOOKUP: Final = Option(
    "kafka.client.dns.lookup",
    words("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    "use_all_dns_ips",
    "How the names of brokers are resolved.",
)
REQUEST_TIMEOUT: Final = Option(
    "kafka.request.timeout.ms",
    whole(most=MOST_INT),
    "30000",
    "How long one request may take.",
)
API_TIMEOUT: Final = Option(
    "kafka.default.api.timeout.ms",
    whole(most=MOST_INT),
    None,
    "How long requests are tried. The first contact and tasks fail after this time, planning of a running query "
    "after `fetchOffset.numRetries` times this time.",
    default_words="15000 before the first answer, 60000 after it",
)
RECONNECT_BACKOFF: Final = Option(
    "kafka.reconnect.backoff.ms",
    whole(0, MOST_INT),
    "50",
    "How long to wait before a broker is tried again.",
)
RECONNECT_BACKOFF_MAX: Final = Option(
    "kafka.reconnect.backoff.max.ms",
    whole(0, MOST_INT),
    "1000",
    "The longest wait before a broker that fails repeatedly is tried again.",
)
RETRY_BACKOFF: Final = Option(
    "kafka.retry.backoff.ms",
    whole(0, MOST_INT),
    "50",
    "How long to wait before a request is repeated; at least 10.",
)
SETUP_TIMEOUT: Final = Option(
    "kafka.socket.connection.setup.timeout.ms",
    whole(most=MOST_INT),
    "10000",
    "How long a connection may take to open, with TLS and authentication.",
)
SETUP_TIMEOUT_MAX: Final = Option(
    "kafka.socket.connection.setup.timeout.max.ms",
    whole(most=MOST_INT),
    "30000",
    "The longest time for a connection that fails repeatedly to open.",
)
MAX_IDLE: Final = Option(
    "kafka.connections.max.idle.ms",
    whole(-1, MOST_INT),
    "540000",
    "Connections that are idle for longer than this are not used again. -1: never. Set it below the time after which "
    "your network forgets connections (Azure: 4 minutes).",
)
FETCH_MAX_WAIT: Final = Option(
    "kafka.fetch.max.wait.ms",
    whole(0, MOST_INT),
    "500",
    "How long a broker may wait for the first byte before it answers a fetch. Raise it where old records are "
    "in tiered storage.",
)
METADATA_MAX_AGE: Final = Option(
    "kafka.metadata.max.age.ms",
    whole(0, MOST_INT),
    "300000",
    "The greatest age of the known leaders and addresses.",
)
RECEIVE_BUFFER: Final = Option(
    "kafka.receive.buffer.bytes",
    whole(-1, MOST_INT),
    "-1",
    "Size of the receive buffer of a socket. -1: the default of the system.",
)
SEND_BUFFER: Final = Option(
    "kafka.send.buffer.bytes",
    whole(-1, MOST_INT),
    "-1",
    "Size of the send buffer of a socket. -1: the default of the system.",
)

CONNECTION_OPTIONS: Final[tuple[Option[Any], ...]] = (
    BOOTSTRAP_SERVERS,
    CLIENT_ID,
    CLIENT_RACK,
    DNS_LOOKUP,
    REQUEST_TIMEOUT,
    API_TIMEOUT,
    RECONNECT_BACKOFF,
    RECONNECT_BACKOFF_MAX,
    RETRY_BACKOFF,
    SETUP_TIMEOUT,
    SETUP_TIMEOUT_MAX,
    MAX_IDLE,
    FETCH_MAX_WAIT,
    METADATA_MAX_AGE,
    RECEIVE_BUFFER,
    SEND_BUFFER,
)

OPTIONS: Final = (*CONNECTION_OPTIONS, *SECURITY_OPTIONS, *service_credential.OPTIONS)
"""The settings that are translated."""

_SEE_BOTH = "a new query starts at startingOffsets, and a restarted query at its checkpoint"
_JAVA_CLASS = "It names a Java class, and no Java client runs here."
_SUPPORTED_MECHANISMS = f"Connections authenticate with {', '.join(MECHANISMS)} or a TLS certificate only."

FORBIDDEN = {
    "kafka.auto.offset.reset": f"Set startingOffsets to earliest or latest instead: {_SEE_BOTH}.",
    "kafka.key.deserializer": "Keys are binary columns; deserialize them with DataFrame operations.",
    "kafka.value.deserializer": "Values are binary; deserialize them with value.format or DataFrame operations.",
    "kafka.enable.auto.commit": "The checkpoint has the processed offsets; option scan.commit-offsets commits them.",
    "kafka.interceptor.classes": "Interceptors can change records, and are Java classes.",
    "kafka.config.providers": "References to config providers are not resolved; give the values themselves.",
    "kafka.security.providers": _JAVA_CLASS,
    "kafka.sasl.jwt": _SUPPORTED_MECHANISMS,
    "kafka.sasl.login.class": _JAVA_CLASS,
    "kafka.sasl.oauthbearer.assertion": "Clients authenticate at token endpoints by a secret only.",
    "kafka.ssl.cipher.suites": "The names are those of Java, and OpenSSL's default suites are used.",
    "kafka.ssl.engine.factory.class": _JAVA_CLASS,
    "kafka.ssl.provider": _JAVA_CLASS,
}
"""The refused settings and the reasons; the first five are Spark's.

A name stands for itself and for all names that begin with it and a dot.
"""

_NO_MEMBER = "this source takes no part in the group's rebalancing"
_KNOWN_RANGES = "each task reads a range of existing offsets"
_NO_METRICS = "no Java metrics are kept"
_RENEWAL = "tokens are renewed when 80 % of their life time is over"
_TICKETS = "the Kerberos library renews tickets when half of their life time is over"
_BROKERS_CHECK = "brokers check tokens, this client does not"
_PRODUCER = "it is a setting of producers or of the admin client"
_SERIALIZERS = (
    "it is a setting of Confluent's serializers; value.schema.registry.url decodes values with a registry"
)
_OPENSSL = "OpenSSL has its own settings for this"

WITHOUT_EFFECT = {
    "kafka.allow.auto.create.topics": "topics are never created",
    "kafka.auto.commit.interval.ms": "offsets are committed as batches are processed",
    "kafka.auto.include.jmx.reporter": _NO_METRICS,
    "kafka.check.crcs": "checksums are always checked",
    "kafka.enable.metrics.push": _NO_METRICS,
    "kafka.exclude.internal.topics": "a pattern never matches internal topics",
    "kafka.fetch.min.bytes": _KNOWN_RANGES,
    "kafka.group.instance.id": _NO_MEMBER,
    "kafka.group.protocol": _NO_MEMBER,
    "kafka.group.remote.assignor": _NO_MEMBER,
    "kafka.heartbeat.interval.ms": _NO_MEMBER,
    "kafka.max.poll.interval.ms": _NO_MEMBER,
    "kafka.max.poll.records": "rows come in Arrow batches, not in polls",
    "kafka.metadata.recovery.rebootstrap.trigger.ms": "the bootstrap servers are asked again where no broker answers",
    "kafka.metadata.recovery.strategy": "the bootstrap servers are asked again where no broker answers",
    "kafka.metric.reporters": _NO_METRICS,
    "kafka.metrics.num.samples": _NO_METRICS,
    "kafka.metrics.recording.level": _NO_METRICS,
    "kafka.metrics.sample.window.ms": _NO_METRICS,
    "kafka.partition.assignment.strategy": _NO_MEMBER,
    "kafka.retry.backoff.max.ms": "retries come at even intervals",
    "kafka.sasl.kerberos.kinit.cmd": _TICKETS,
    "kafka.sasl.kerberos.min.time.before.relogin": _TICKETS,
    "kafka.sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "kafka.sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "kafka.sasl.login.connect.timeout.ms": "kafka.sasl.login.read.timeout.ms bounds connecting, too",
    "kafka.sasl.login.refresh.buffer.seconds": _RENEWAL,
    "kafka.sasl.login.refresh.min.period.seconds": _RENEWAL,
    "kafka.sasl.login.refresh.window.factor": _RENEWAL,
    "kafka.sasl.login.refresh.window.jitter": _RENEWAL,
    "kafka.sasl.oauthbearer.clock.skew.seconds": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.expected.audience": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.expected.issuer": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.jwks.endpoint.refresh.ms": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.jwks.endpoint.url": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.jwt.validator.class": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.scope.claim.name": _BROKERS_CHECK,
    "kafka.sasl.oauthbearer.sub.claim.name": _BROKERS_CHECK,
    "kafka.session.timeout.ms": _NO_MEMBER,
    "kafka.share.acknowledgement.mode": _NO_MEMBER,
    "kafka.ssl.keymanager.algorithm": _OPENSSL,
    "kafka.ssl.secure.random.implementation": _OPENSSL,
    "kafka.ssl.trustmanager.algorithm": _OPENSSL,
    "value.schema.registry.bearer.auth.cache.expiry.buffer.seconds": _RENEWAL,
    "value.schema.registry.bearer.auth.scope.claim.name": "this client does not check tokens, the registry does",
    "value.schema.registry.bearer.auth.sub.claim.name": "this client does not check tokens, the registry does",
    "bytesEstimateWindowLength": "the bytes that a query is behind are estimated from its newest batches",
    "groupIdPrefix": "this source generates no consumer group",
    "topic": "it is an option of Spark's Kafka sink; `subscribe` names the topics to read",
    **dict.fromkeys(
        (
            "kafka.acks",
            "kafka.batch.size",
            "kafka.bootstrap.controllers",
            "kafka.buffer.memory",
            "kafka.compression.gzip.level",
            "kafka.compression.lz4.level",
            "kafka.compression.type",
            "kafka.compression.zstd.level",
            "kafka.delivery.timeout.ms",
            "kafka.enable.idempotence",
            "kafka.key.serializer",
            "kafka.linger.ms",
            "kafka.max.block.ms",
            "kafka.max.in.flight.requests.per.connection",
            "kafka.max.request.size",
            "kafka.metadata.max.idle.ms",
            "kafka.partitioner.adaptive.partitioning.enable",
            "kafka.partitioner.availability.timeout.ms",
            "kafka.partitioner.class",
            "kafka.partitioner.ignore.keys",
            "kafka.partitioner.rack.aware",
            "kafka.retries",
            "kafka.transaction.timeout.ms",
            "kafka.transaction.two.phase.commit.enable",
            "kafka.transactional.id",
            "kafka.value.serializer",
        ),
        _PRODUCER,
    ),
    **dict.fromkeys(
        (
            "kafka.auto.register.schemas",
            "kafka.basic.auth.credentials.source",
            "kafka.basic.auth.user.info",
            "kafka.bearer.auth.cache.expiry.buffer.seconds",
            "kafka.bearer.auth.client.id",
            "kafka.bearer.auth.client.secret",
            "kafka.bearer.auth.credentials.source",
            "kafka.bearer.auth.custom.provider.class",
            "kafka.bearer.auth.identity.pool.id",
            "kafka.bearer.auth.issuer.endpoint.url",
            "kafka.bearer.auth.logical.cluster",
            "kafka.bearer.auth.scope",
            "kafka.bearer.auth.scope.claim.name",
            "kafka.bearer.auth.sub.claim.name",
            "kafka.bearer.auth.token",
            "kafka.bearer.auth.uami.endpoint.query",
            "kafka.bearer.auth.uami.endpoint.url",
            "kafka.key.subject.name.strategy",
            "kafka.normalize.schemas",
            "kafka.schema.registry.basic.auth.user.info",
            "kafka.schema.registry.ssl.key.password",
            "kafka.schema.registry.ssl.keystore.location",
            "kafka.schema.registry.ssl.keystore.password",
            "kafka.schema.registry.ssl.keystore.type",
            "kafka.schema.registry.ssl.truststore.location",
            "kafka.schema.registry.ssl.truststore.password",
            "kafka.schema.registry.ssl.truststore.type",
            "kafka.schema.registry.url",
            "kafka.specific.avro.reader",
            "kafka.use.latest.version",
            "kafka.value.subject.name.strategy",
        ),
        _SERIALIZERS,
    ),
}
"""The options that are accepted and have no effect, and the reasons."""


def refuse_forbidden(name: str) -> None:
    """Checks the name of an option, in lower case.

    Raises:
        OptionError: The option is refused.
    """
    for forbidden, reason in FORBIDDEN.items():
        if name == forbidden or name.startswith(f"{forbidden}."):
            raise OptionError(f"Kafka option '{name.removeprefix('kafka.')}' is not supported. {reason}")


@functools.cache
def warn_without_effect(name: str, reason: str) -> None:
    """Logs a warning that an option has no effect, once per process."""
    log.warning("Option '%s' has no effect: %s.", name, reason)


def parse_connection(options: Mapping[str, str]) -> ConnectionOptions:
    """Returns the options of the connections to the cluster.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: A value is wrong or missing.
    """
    default = ConnectionOptions("")
    servers = BOOTSTRAP_SERVERS.get(options)
    if not servers:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    api_timeout, idle = API_TIMEOUT.get(options), MAX_IDLE.require(options)
    backoff, setup = RECONNECT_BACKOFF.require(options), SETUP_TIMEOUT.require(options)
    return ConnectionOptions(
        bootstrap_servers=servers,
        client_id=CLIENT_ID.get(options) or default.client_id,
        client_rack=(CLIENT_RACK.get(options) or "").strip(),
        dns_lookup=DNS_LOOKUP.require(options),
        request_timeout_ms=REQUEST_TIMEOUT.require(options),
        api_timeout_ms=api_timeout or default.api_timeout_ms,
        first_contact_timeout_ms=api_timeout or default.first_contact_timeout_ms,
        reconnect_backoff_ms=backoff,
        reconnect_backoff_max_ms=max(backoff, RECONNECT_BACKOFF_MAX.require(options)),
        retry_backoff_ms=RETRY_BACKOFF.require(options),
        connection_setup_timeout_ms=setup,
        connection_setup_timeout_max_ms=max(setup, SETUP_TIMEOUT_MAX.require(options)),
        connections_max_idle_ms=MOST_INT if idle < 0 else idle,
        fetch_max_wait_ms=FETCH_MAX_WAIT.require(options),
        metadata_max_age_ms=METADATA_MAX_AGE.require(options),
        receive_buffer_bytes=_buffer(RECEIVE_BUFFER, options),
        send_buffer_bytes=_buffer(SEND_BUFFER, options),
        security=parse_security(options, warn_without_effect),
    )


def _buffer(option: Option[int], options: Mapping[str, str]) -> int | None:
    """Returns the size of a socket buffer in bytes; ``None`` for -1, the default of the system, as in Java."""
    given = option.require(options)
    return None if given < 0 else given
