"""The options of the Pulsar source: the names and meanings of StreamNative's and Databricks' sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from flip27_stream.connectors.pulsar.options.start import (
    StartPosition,
    parse_starting_offsets,
    parse_starting_time,
)
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import BOOLEAN, DURATION_OR_NEVER, MOST_INT, TEXT, whole
from flip27_stream.options.option import Kind, Option, canonical_names

AUTH_PLUGINS: Final[Mapping[str, str]] = {
    "org.apache.pulsar.client.impl.auth.AuthenticationToken": "token",
    "org.apache.pulsar.client.impl.auth.AuthenticationTls": "tls",
    "org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2": "oauth2",
    "org.apache.pulsar.client.impl.auth.AuthenticationBasic": "basic",
}
"""The names of authentication methods in pulsar-client, by the names of the classes in the Java client."""


def _url(schemes: str, allowed: str) -> Callable[[str, str], str]:
    """Returns the parser of a URL of servers. Its errors show no user information, query and fragment of a URL."""

    def parse(text: str, option: str) -> str:
        if re.search("[@?#]", text):
            raise OptionError(
                f"Invalid value for option '{option}' (it has @, ? or #, and is not shown, because it may have a "
                f"secret). Allowed: {allowed}. Credentials are given in option 'pulsar.client.authParams'."
            )
        if not re.fullmatch(rf"{schemes}://[^\s/]+/?", text.strip()):
            raise OptionError.of(option, text, f"Allowed: {allowed}.")
        return text.strip()

    return parse


def _plugin(text: str, option: str) -> str:
    word = text.strip()
    method = AUTH_PLUGINS.get(word, word.lower())
    if method not in AUTH_PLUGINS.values():
        raise OptionError(
            f"Invalid value for option '{option}' (it is not shown, because it may be a secret, which belongs into "
            f"option 'pulsar.client.authParams'). Allowed: {', '.join((*AUTH_PLUGINS.values(), *AUTH_PLUGINS))}."
        )
    return method


_SERVICE_URL: Final = Kind(
    "URL", _url(r"pulsar(\+ssl)?", "pulsar://host:port,host:port or pulsar+ssl://host:port")
)
_ADMIN_URL: Final = Kind("URL", _url("https?", "http://host:port or https://host:port"))
_PLUGIN: Final = Kind("`token`, `tls`, `oauth2`, `basic`, or the Java client's class", _plugin)
_OFFSETS: Final[Kind[StartPosition]] = Kind("`earliest`, `latest`, or JSON", parse_starting_offsets)
_TIME: Final[Kind[StartPosition]] = Kind("ms since 1970, or JSON of ms by topic", parse_starting_time)
_FILE: Final = Kind("path", TEXT.parse)

SERVICE_URL: Final = Option("service.url", _SERVICE_URL, None, "The URL of the brokers. Required.")
ADMIN_URL: Final = Option(
    "admin.url", _ADMIN_URL, None, "The URL of the admin API; only `topicsPattern` needs it."
)
TOPIC: Final = Option(
    "topic", TEXT, None, "A topic to read. Exactly one of `topic`, `topics` and `topicsPattern` is required."
)
TOPICS: Final = Option("topics", TEXT, None, "Topics to read, separated by commas.")
TOPICS_PATTERN: Final = Option(
    "topicsPattern",
    TEXT,
    None,
    "A regular expression of the names of topics; a namespace before it is taken literally: "
    "`persistent://tenant/namespace/clicks-.*`.",
)
STARTING_OFFSETS: Final = Option(
    "startingOffsets",
    _OFFSETS,
    None,
    "Where a new query begins.",
    default_words="`latest`; `earliest` for a batch read",
)
STARTING_TIME: Final = Option(
    "startingTime",
    _TIME,
    None,
    "A new query begins at the first message that was published at this time or later.",
)
FAIL_ON_DATA_LOSS: Final = Option(
    "failOnDataLoss",
    BOOLEAN,
    "true",
    "Fail if messages that must be read no longer exist, or may no longer exist.",
)
MAX_BYTES_PER_TRIGGER: Final = Option(
    "maxBytesPerTrigger",
    whole(),
    None,
    "How many bytes a micro-batch reads at most, an estimate. It does not need `admin.url`.",
)
MAX_RECORDS_PER_TRIGGER: Final = Option(
    "maxRecordsPerTrigger",
    whole(),
    None,
    "How many messages a micro-batch reads at most; see [estimates](#what-is-exact-and-what-is-estimated).",
)
PREDEFINED_SUBSCRIPTION: Final = Option(
    "predefinedSubscription", TEXT, None, "A subscription whose cursor follows the processed micro-batches."
)
SUBSCRIPTION_PREFIX: Final = Option(
    "subscriptionPrefix",
    TEXT,
    None,
    "The prefix of the names of the subscriptions that readers have while they read.",
)
POLL_TIMEOUT: Final = Option(
    "pollTimeoutMs", whole(), "120000", "How long (ms) a task waits for a message that planning has seen."
)
DISCOVERY_INTERVAL: Final = Option(
    "partitionDiscoveryInterval",
    DURATION_OR_NEVER,
    "10 s",
    "How often new partitions are looked for. `0`: only once.",
)
AUTH_PLUGIN: Final = Option(
    "pulsar.client.authPluginClassName", _PLUGIN, None, "How the client authenticates."
)
AUTH_PARAMS: Final = Option(
    "pulsar.client.authParams",
    TEXT,
    None,
    "Parameters of the authentication, in the form of the Java client.",
    secret=True,
)
OPERATION_TIMEOUT: Final = Option(
    "pulsar.client.operationTimeoutMs",
    whole(most=MOST_INT),
    "30000",
    "How long (ms) a call is tried before it fails: three attempts, each of which has a third of the time.",
)
CONNECTION_TIMEOUT: Final = Option(
    "pulsar.client.connectionTimeoutMs",
    whole(most=MOST_INT),
    "10000",
    "How long (ms) a connection is tried before it fails.",
)
IO_THREADS: Final = Option("pulsar.client.numIoThreads", whole(most=1024), "1", "Threads of the client.")
CONCURRENT_LOOKUPS: Final = Option(
    "pulsar.client.concurrentLookupRequest",
    whole(most=MOST_INT),
    "50000",
    "How many lookups a client makes at the same time.",
)
TLS_TRUST_CERTS: Final = Option(
    "pulsar.client.tlsTrustCertsFilePath",
    _FILE,
    None,
    "Certificates to trust, in PEM, on driver and executors.",
)
TLS_ALLOW_INSECURE: Final = Option(
    "pulsar.client.tlsAllowInsecureConnection", BOOLEAN, "false", "Accept any certificate."
)
TLS_HOSTNAME: Final = Option(
    "pulsar.client.tlsHostnameVerificationEnable", BOOLEAN, "false", "Check the host name in the certificate."
)
LISTENER_NAME: Final = Option(
    "pulsar.client.listenerName", TEXT, None, "The advertised listener to connect to."
)
RECEIVER_QUEUE: Final = Option(
    "pulsar.reader.receiverQueueSize",
    whole(most=100_000),
    "1000",
    "How many messages of a partition a task fetches in advance.",
)
ROLE_PREFIX: Final = Option(
    "pulsar.reader.subscriptionRolePrefix", TEXT, None, "Another name of `subscriptionPrefix`."
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    SERVICE_URL,
    ADMIN_URL,
    TOPIC,
    TOPICS,
    TOPICS_PATTERN,
    STARTING_OFFSETS,
    STARTING_TIME,
    FAIL_ON_DATA_LOSS,
    MAX_RECORDS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER,
    PREDEFINED_SUBSCRIPTION,
    SUBSCRIPTION_PREFIX,
    POLL_TIMEOUT,
    DISCOVERY_INTERVAL,
    AUTH_PLUGIN,
    AUTH_PARAMS,
    OPERATION_TIMEOUT,
    CONNECTION_TIMEOUT,
    IO_THREADS,
    CONCURRENT_LOOKUPS,
    TLS_TRUST_CERTS,
    TLS_ALLOW_INSECURE,
    TLS_HOSTNAME,
    LISTENER_NAME,
    RECEIVER_QUEUE,
    ROLE_PREFIX,
)
"""All options that have an effect, in the order of the options page."""

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "waitingForNonExistedTopic": "a topic must exist when the query starts",
    "pulsar.client.useTls": "option 'service.url' with pulsar+ssl:// turns TLS on",
    "pulsar.client.numListenerThreads": "messages are received without a listener",
    "pulsar.reader.readerName": "each plan and task has its own readers; 'subscriptionPrefix' begins their names",
    "allowDifferentTopicSchemas": "values are bytes, whatever schema a topic has",
    "useParquetSchemaForBatchRead": "values are bytes, whatever schema a topic has",
}
"""The options of StreamNative's and Databricks' sources that have no effect here, and the reasons."""

REFUSED: Final[Mapping[str, str]] = {
    "endingOffsets": "a batch read ends at the last messages that exist when it begins",
    "endingTime": "a batch read ends at the last messages that exist when it begins",
    "pulsar.reader.readCompacted": "ranges of a compacted topic change with each compaction; the topic is read as it "
    "was written. Leave the option out",
    "pulsar.reader.cryptoKeyReader": "encrypted messages are not supported",
    "pulsar.reader.defaultCryptoKeyReader": "encrypted messages are not supported",
    "pulsar.client.tlsTrustStorePath": "pulsar-client reads PEM files; set 'pulsar.client.tlsTrustCertsFilePath'",
    "pulsar.client.useKeyStoreTls": "pulsar-client reads PEM files; set 'pulsar.client.tlsTrustCertsFilePath'",
    "pulsar.client.authParamMap": "set 'pulsar.client.authParams'",
}
"""The options of StreamNative's and Databricks' sources that are refused, and the reason or remedy."""

SUPPORTED_OPTIONS: Final = canonical_names(OPTIONS)
"""The canonical spelling of the options that have an effect, by their names in lower case."""

KNOWN_OPTIONS: Final = SUPPORTED_OPTIONS | {name.lower(): name for name in (*WITHOUT_EFFECT, *REFUSED)}
"""The canonical spelling of all known options, by their names in lower case."""
