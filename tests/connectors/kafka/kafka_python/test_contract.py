"""Names of kafka-python that the project uses and that are not documented for other projects.

A new version of kafka-python that moves or changes one of them fails here, with the name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.kafka.kafka_python.connections import Connection
from flip27_stream.connectors.kafka.kafka_python.transports import TcpTransport, TlsTransport

ROOT = Path(__file__).parents[4]
ADAPTER = "flip27_stream/connectors/kafka/kafka_python"
DOCUMENTED = {"kafka", "kafka.admin", "kafka.errors", "kafka.structs"}

SIGNATURES = {
    "kafka.cluster.collect_hosts": ("hosts", "randomize"),
    "kafka.cluster.expand_to_canonical_bootstrap_hosts": ("hosts",),
    "kafka.cluster.ClusterMetadata.leader_for_partition": ("partition",),
    "kafka.cluster.ClusterMetadata.set_topics": ("topics",),
    "kafka.future.Future.add_both": ("f", "args", "kwargs"),
    "kafka.future.Future.add_callback": ("f", "args", "kwargs"),
    "kafka.future.Future.failure": ("e",),
    "kafka.future.Future.succeeded": (),
    "kafka.net.compat.KafkaNetClient.close": ("node_id",),
    "kafka.net.compat.KafkaNetClient.poll": ("timeout_ms", "future"),
    "kafka.net.compat.KafkaNetClient.send_and_receive": ("node_id", "request", "timeout_ms"),
    "kafka.net.connection.KafkaConnection.__init__": ("net", "node_id", "broker_version_data", "configs"),
    "kafka.net.connection.KafkaConnection._init_complete": (),
    "kafka.net.connection.KafkaConnection._maybe_throttle": ("response",),
    "kafka.net.connection.KafkaConnection._sasl_authenticate": ("timeout_at",),
    "kafka.net.connection.KafkaConnection._send_request": ("request", "future", "timeout_at"),
    "kafka.net.connection.KafkaConnection._timeout_at": ("now", "timeout_ms"),
    "kafka.net.connection.KafkaConnection.close": ("error",),
    "kafka.net.connection.KafkaConnection.connection_lost": ("exc",),
    "kafka.net.connection.KafkaConnection.connection_made": ("transport",),
    "kafka.net.connection.KafkaConnection.data_received": ("data",),
    "kafka.net.connection.KafkaConnection.initialize": ("timeout_at",),
    "kafka.net.connection.KafkaConnection.send_buffered": (),
    "kafka.net.connection.KafkaConnection.send_request": ("request", "request_timeout_ms"),
    "kafka.net.connection.KafkaConnection.unpause": ("v",),
    "kafka.net.connection.SaslReauthenticator.session_updated": ("session_lifetime_ms",),
    "kafka.net.sasl.msk.AwsMskIamClient.__init__": ("host", "access_key", "secret_key", "region", "token"),
    "kafka.net.sasl.msk.AwsMskIamClient.first_message": (),
    "kafka.net.sasl.plain.SaslMechanismPlain.__init__": ("config",),
    "kafka.net.sasl.plain.SaslMechanismPlain.auth_bytes": (),
    "kafka.net.sasl.plain.SaslMechanismPlain.is_authenticated": (),
    "kafka.net.sasl.plain.SaslMechanismPlain.is_done": (),
    "kafka.net.sasl.plain.SaslMechanismPlain.receive": ("auth_bytes",),
    "kafka.net.sasl.scram.SaslMechanismScram.__init__": ("config",),
    "kafka.net.sasl.scram.SaslMechanismScram.auth_bytes": (),
    "kafka.net.sasl.scram.SaslMechanismScram.is_authenticated": (),
    "kafka.net.sasl.scram.SaslMechanismScram.is_done": (),
    "kafka.net.sasl.scram.SaslMechanismScram.receive": ("auth_bytes",),
    "kafka.net.selector.NetworkSelector.call_soon": ("task",),
    "kafka.net.selector.NetworkSelector.close": (),
    "kafka.net.selector.NetworkSelector.poll": ("timeout_ms", "future"),
    "kafka.net.selector.NetworkSelector.wait_read": ("fileobj", "timeout_at"),
    "kafka.net.selector.NetworkSelector.wait_write": ("fileobj", "timeout_at"),
    "kafka.net.transport.KafkaSSLTransport.__init__": ("net", "sock", "host", "configs"),
    "kafka.net.transport.KafkaSSLTransport._sock_recv": (),
    "kafka.net.transport.KafkaTCPTransport.__init__": ("net", "sock", "host"),
    "kafka.net.transport.KafkaTCPTransport._sock_recv": (),
    "kafka.net.transport.KafkaTCPTransport.abort": ("error",),
    "kafka.net.transport.KafkaTCPTransport.close": (),
    "kafka.protocol.api_header.RequestHeader.get_response_class": (),
    "kafka.protocol.api_message.ApiMessage.decode": ("data", "version", "header", "framed"),
    "kafka.protocol.api_message.ApiMessage.encode": ("version", "header", "framed"),
    "kafka.protocol.api_message.ApiMessage.with_header": ("correlation_id", "client_id"),
    "kafka.protocol.broker_version_data.BrokerVersionData.__init__": ("broker_version", "api_versions"),
    "kafka.protocol.broker_version_data.BrokerVersionData.api_version": (
        "operation",
        "min_version",
        "max_version",
    ),
    "kafka.protocol.parser.KafkaProtocol.receive_bytes": ("data",),
    "kafka.protocol.parser.KafkaProtocol.send_bytes": (),
    "kafka.protocol.parser.KafkaProtocol.send_request": ("request", "correlation_id"),
}
"""The parameters of each function that is called or replaced."""

ATTRIBUTES = {
    "kafka.net.connection.KafkaConnection": (
        "_reauth",
        "_request_buffer",
        "_throttle_time",
        "broker_version_data",
        "close_future",
        "closed",
        "config",
        "connected",
        "in_flight_requests",
        "init_future",
        "initializing",
        "parser",
        "paused",
        "transport",
    ),
    "kafka.net.transport.KafkaTCPTransport": (
        "_net",
        "_sock",
        "host",
        "getPeer",
        "last_activity",
        "last_read",
    ),
    "kafka.protocol.api_message.ApiMessage": ("API_VERSION", "header"),
    "kafka.protocol.parser.KafkaProtocol": ("_max_frame_size",),
    "kafka.version": ("__version__",),
    "kafka.codec": ("gzip_encode", "lz4_encode", "snappy_encode", "zstd_encode"),
    "kafka.net.compat": ("KafkaNetClient",),
    "kafka.net.compat.KafkaNetClient": ("cluster", "get_broker_version"),
    "kafka.protocol.producer": ("ProduceRequest",),
    "kafka.protocol.producer.ProduceRequest": ("TopicProduceData",),
    "kafka.protocol.producer.ProduceRequest.TopicProduceData": ("PartitionProduceData",),
    "kafka.protocol.consumer": (
        "FetchRequest",
        "ListOffsetsRequest",
        "OffsetCommitRequest",
        "OffsetFetchRequest",
        "OffsetForLeaderEpochRequest",
    ),
    "kafka.protocol.metadata": ("ApiVersionsRequest", "FindCoordinatorRequest", "MetadataRequest"),
    "kafka.protocol.metadata.ApiVersionsRequest": ("API_KEY", "max_version", "name"),
    "kafka.protocol.sasl": ("SaslAuthenticateRequest", "SaslBytesRequest", "SaslHandshakeRequest"),
}
"""Attributes that are read or set. Those of an instance are looked for in the source of its class."""


def resolved(name: str) -> Any:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_of_kafka_python_has_its_parameters(name: str) -> None:
    parameters = inspect.signature(resolved(name)).parameters
    assert tuple(p for p in parameters if p != "self") == SIGNATURES[name]


@pytest.mark.parametrize(("owner", "attribute"), [(o, a) for o, names in ATTRIBUTES.items() for a in names])
def test_an_attribute_of_kafka_python_exists(owner: str, attribute: str) -> None:
    found = resolved(owner)
    assert hasattr(found, attribute) or (inspect.isclass(found) and assigned(found, attribute))


def assigned(cls: type, attribute: str) -> bool:
    return any(
        f"self.{attribute} = " in inspect.getsource(base) or f"self.{attribute}: " in inspect.getsource(base)
        for base in cls.__mro__[:-1]
        if base.__module__.startswith("kafka.")
    )


def test_requests_in_flight_have_the_time_when_they_were_sent_third() -> None:
    source = inspect.getsource(resolved("kafka.net.connection.KafkaConnection._send_request"))
    assert "in_flight_requests.append((correlation_id, future, sent_time," in "".join(
        source.split("\n")
    ).replace("  ", "")


@pytest.mark.parametrize("adapted", [Connection, TcpTransport, TlsTransport])
def test_methods_that_the_adapter_replaces_exist(adapted: type) -> None:
    """The adapter replaces methods that kafka-python has. If kafka-python renamed one, the
    replacement would be dead code.
    """
    own = {"handshake", "last_heard", "last_used", "is_idle", "oldest_request", "throttled_for"}
    own |= {"sasl_steps", "explained", "_sasl_answer", "on_open", "on_close", "was_open"}
    theirs = [base for base in adapted.__mro__ if base.__module__.startswith("kafka.")]
    replaced = {name for name, value in vars(adapted).items() if inspect.isfunction(value)} - own
    assert [name for name in replaced if not any(hasattr(base, name) for base in theirs)] == []


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_only_the_adapter_uses_undocumented_names() -> None:
    users = {
        str(path.relative_to(ROOT))
        for package in ("flip27_stream", "offsets", "watermark_alignment")
        for path in (ROOT / package).rglob("*.py")
        for name in imports(path)
        if name.partition(".")[0] == "kafka" and name not in DOCUMENTED
    }
    assert {user for user in users if not user.startswith(ADAPTER)} == set()
