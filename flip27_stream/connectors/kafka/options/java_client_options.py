"""Settings of Java's Kafka consumer (``kafka.*``): which have a meaning here, which have none, which cannot be kept.

Each name that Apache Kafka's ``ConsumerConfig`` has is in one of the tables, so nothing that a user sets is ignored
without a word: a setting is translated, or warned of once, or refused with the reason; what is no setting is unknown.
"""

from __future__ import annotations

import functools
import logging
import re

from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.security.security_names import SECURITY_NAMES, parse_security
from flip27_stream.errors import OptionError
from flip27_stream.options.option_values import MOST_INT, OptionValues

log = logging.getLogger(__name__)

CONNECTION_NAMES = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.client.rack",
    "kafka.client.dns.lookup",
    "kafka.request.timeout.ms",
    "kafka.default.api.timeout.ms",
    "kafka.reconnect.backoff.ms",
    "kafka.reconnect.backoff.max.ms",
    "kafka.retry.backoff.ms",
    "kafka.socket.connection.setup.timeout.ms",
    "kafka.socket.connection.setup.timeout.max.ms",
    "kafka.connections.max.idle.ms",
    "kafka.fetch.max.wait.ms",
    "kafka.metadata.max.age.ms",
    "kafka.receive.buffer.bytes",
    "kafka.send.buffer.bytes",
)

OPTION_NAMES = (*CONNECTION_NAMES, *SECURITY_NAMES)
"""Settings that are translated, in their canonical spelling."""

_SEE_BOTH = "startingOffsets says where a new query starts; after that the checkpoint does, so that no record is missed"
_JAVA_CLASS = "It names a Java class, and no Java client runs here."
_PASSWORDS_ONLY = (
    "Connections authenticate with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or a TLS certificate only."
)

FORBIDDEN = {
    "kafka.auto.offset.reset": f"Set startingOffsets to earliest or latest instead: {_SEE_BOTH}.",
    "kafka.key.deserializer": "Keys are binary columns; deserialize them with DataFrame operations.",
    "kafka.value.deserializer": "Values are binary; deserialize them with value.format or DataFrame operations.",
    "kafka.enable.auto.commit": "What was processed is in the checkpoint; option scan.commit-offsets commits it, too.",
    "kafka.interceptor.classes": "Interceptors can change records, and are Java classes.",
    "kafka.config.providers": "Settings are taken as they are written; put the values themselves.",
    "kafka.security.providers": _JAVA_CLASS,
    "kafka.sasl.client.callback.handler.class": _JAVA_CLASS,
    "kafka.sasl.jwt": _PASSWORDS_ONLY,
    "kafka.sasl.kerberos": _PASSWORDS_ONLY,
    "kafka.sasl.login.callback.handler.class": _JAVA_CLASS,
    "kafka.sasl.login.class": _JAVA_CLASS,
    "kafka.sasl.oauthbearer": _PASSWORDS_ONLY,
    "kafka.ssl.cipher.suites": "They are named in Java's words, and OpenSSL's defaults are used.",
    "kafka.ssl.engine.factory.class": _JAVA_CLASS,
    "kafka.ssl.provider": _JAVA_CLASS,
}
"""Settings that cannot be given, and those whose names begin so and a dot, and why (the first five are Spark's)."""

_NO_MEMBER = "this source takes no part in the group's rebalancing"
_KNOWN_RANGES = "each task reads a range that is known to be there"
_NO_METRICS = "no Java metrics are kept"
_NO_TOKENS = "no tokens are used"
_OPENSSL = "OpenSSL does this in its own way"

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
    "kafka.max.poll.records": "rows come in Arrow batches, not polls",
    "kafka.metadata.recovery.rebootstrap.trigger.ms": "the bootstrap servers are asked again where no broker answers",
    "kafka.metadata.recovery.strategy": "the bootstrap servers are asked again where no broker answers",
    "kafka.metric.reporters": _NO_METRICS,
    "kafka.metrics.num.samples": _NO_METRICS,
    "kafka.metrics.recording.level": _NO_METRICS,
    "kafka.metrics.sample.window.ms": _NO_METRICS,
    "kafka.partition.assignment.strategy": _NO_MEMBER,
    "kafka.retry.backoff.max.ms": "retries come at even intervals",
    "kafka.sasl.login.connect.timeout.ms": _NO_TOKENS,
    "kafka.sasl.login.read.timeout.ms": _NO_TOKENS,
    "kafka.sasl.login.refresh.buffer.seconds": _NO_TOKENS,
    "kafka.sasl.login.refresh.min.period.seconds": _NO_TOKENS,
    "kafka.sasl.login.refresh.window.factor": _NO_TOKENS,
    "kafka.sasl.login.refresh.window.jitter": _NO_TOKENS,
    "kafka.sasl.login.retry.backoff.max.ms": _NO_TOKENS,
    "kafka.sasl.login.retry.backoff.ms": _NO_TOKENS,
    "kafka.session.timeout.ms": _NO_MEMBER,
    "kafka.share.acknowledgement.mode": _NO_MEMBER,
    "kafka.ssl.keymanager.algorithm": _OPENSSL,
    "kafka.ssl.secure.random.implementation": _OPENSSL,
    "kafka.ssl.trustmanager.algorithm": _OPENSSL,
    "groupIdPrefix": "this source makes up no consumer group",
}
"""Options that are accepted and change nothing, and why."""


def refuse_forbidden(name: str) -> None:
    """Check a name, in lower case.

    Raises:
        OptionError: it is forbidden.
    """
    for forbidden, reason in FORBIDDEN.items():
        if name == forbidden or name.startswith(f"{forbidden}."):
            raise OptionError(f"Kafka option '{name.removeprefix('kafka.')}' is not supported. {reason}")


@functools.cache
def warn_without_effect(name: str, reason: str) -> None:
    """Once per process, however often options are parsed."""
    log.warning("Option '%s' has no effect: %s.", name, reason)


def parse_connection(values: OptionValues) -> ConnectionOptions:
    """How to reach the cluster.

    Raises:
        OptionError: something is wrong or missing.
    """
    default = ConnectionOptions("")
    api_timeout = values.whole("kafka.default.api.timeout.ms", None, most=MOST_INT)

    def ms(name: str, default_ms: int, least: int = 1) -> int:
        return values.whole(f"kafka.{name}", default_ms, least, MOST_INT)

    backoff = ms("reconnect.backoff.ms", default.reconnect_backoff_ms, 0)
    setup = ms("socket.connection.setup.timeout.ms", default.connection_setup_timeout_ms)
    return ConnectionOptions(
        bootstrap_servers=_bootstrap_servers(values.text("kafka.bootstrap.servers")),
        client_id=values.text("kafka.client.id") or default.client_id,
        client_rack=(values.text("kafka.client.rack") or "").strip(),
        dns_lookup=values.one_of("kafka.client.dns.lookup", default.dns_lookup, _DNS_LOOKUPS),
        request_timeout_ms=ms("request.timeout.ms", default.request_timeout_ms),
        api_timeout_ms=api_timeout or default.api_timeout_ms,
        first_contact_timeout_ms=api_timeout or default.first_contact_timeout_ms,
        reconnect_backoff_ms=backoff,
        reconnect_backoff_max_ms=max(
            backoff, ms("reconnect.backoff.max.ms", default.reconnect_backoff_max_ms, 0)
        ),
        retry_backoff_ms=ms("retry.backoff.ms", default.retry_backoff_ms, 0),
        connection_setup_timeout_ms=setup,
        connection_setup_timeout_max_ms=max(
            setup, ms("socket.connection.setup.timeout.max.ms", default.connection_setup_timeout_max_ms)
        ),
        connections_max_idle_ms=_or_never(
            values, "kafka.connections.max.idle.ms", default.connections_max_idle_ms
        ),
        fetch_max_wait_ms=ms("fetch.max.wait.ms", default.fetch_max_wait_ms, 0),
        metadata_max_age_ms=ms("metadata.max.age.ms", default.metadata_max_age_ms, 0),
        receive_buffer_bytes=_buffer(values, "kafka.receive.buffer.bytes"),
        send_buffer_bytes=_buffer(values, "kafka.send.buffer.bytes"),
        security=parse_security(values, warn_without_effect),
    )


_DNS_LOOKUPS = {word: word for word in ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")}


def _or_never(values: OptionValues, name: str, default: int) -> int:
    given = values.whole(name, default, -1, MOST_INT)
    return MOST_INT if given < 0 else given


def _buffer(values: OptionValues, name: str) -> int | None:
    """Of a socket; -1 leaves it to the system, as in Java."""
    given = values.whole(name, None, -1, MOST_INT)
    return None if given is None or given < 0 else given


_SERVER = re.compile(r"(\w+://)?(\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")


def _bootstrap_servers(text: str | None) -> str:
    servers = [server.strip() for server in (text or "").split(",") if server.strip()]
    if not servers:
        raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 1 << 16:
            allowed = "Allowed: host:port, or several with commas between."
            raise OptionError.of("kafka.bootstrap.servers", text, allowed)
    return ",".join(servers)
