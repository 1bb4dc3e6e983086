"""Finds the reason why a broker closes connections; kafka-python reports only the closed socket.

The diagnosis makes its own connection and takes the steps one by one: TCP, TLS, SASL.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable
from contextlib import closing

from kafka.errors import KafkaError

from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.kafka_python.api_versions import ask_versions
from flip27_stream.connectors.kafka.kafka_python.conversation import Conversation
from flip27_stream.connectors.kafka.kafka_python.messages import (
    ApiVersionsRequest,
    SaslHandshakeRequest,
)
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslCredentials
from flip27_stream.connectors.kafka.sasl.sasl_steps import CredentialsUncheckedError, run_sasl, sasl_steps
from flip27_stream.connectors.kafka.tls.tls_refusal import tls_refusal
from flip27_stream.errors import AuthenticationError, ConnectorError, UnreachableError

_TIME_LIMIT_S = 5.0
_UNSUPPORTED_MECHANISM = 33
_PROTOCOL = "'kafka.security.protocol'"


def diagnose(options: ConnectionOptions, servers: Iterable[str] | None = None) -> ConnectorError | None:
    """Returns the error in the options that the first listening server shows; ``None`` if no error is found.

    Args:
        options: The options of the connections.
        servers: The servers to try, each as ``host:port``; by default the bootstrap servers.
    """
    for server in options.bootstrap_servers.split(",") if servers is None else servers:
        try:
            found = _diagnose(options, server.rpartition("//")[2])
        except (OSError, UnicodeError, KafkaError):
            continue
        return found
    return None


def _diagnose(options: ConnectionOptions, server: str) -> ConnectorError | None:
    security = options.security
    context = security.ssl_context()
    connection = _connect(server)
    if context is not None:
        try:
            connection = context.wrap_socket(connection, server_hostname=_host(server)[0])
        except TimeoutError:
            return _silent(server)
        except OSError as error:
            return tls_refusal(server, error) or _speaks_no_tls(server, security.protocol)
    with closing(connection):
        conversation = Conversation(connection)
        try:
            if security.sasl is None:
                return _wants_sasl(server, security.protocol, conversation)
            return _authenticate(server, security.sasl, conversation)
        except ssl.SSLError as error:
            return AuthenticationError(
                f"The broker at {server} ended the TLS handshake: {error.reason}. It may require a certificate of this "
                "client: check option 'kafka.ssl.keystore.location'."
            )
        except (OSError, KafkaError):
            return None if context is not None else _speaks_tls(server, security.protocol)


def _authenticate(server: str, sasl: SaslCredentials, conversation: Conversation) -> ConnectorError | None:
    versions = ask_versions(conversation.ask)
    try:
        run_sasl(sasl_steps(server, _host(server)[0], sasl, versions), conversation.ask, _no_raw_tokens)
    except AuthenticationError as refusal:
        return refusal
    except CredentialsUncheckedError:
        return None
    return None


def _no_raw_tokens(_: bytes) -> bytes:
    raise CredentialsUncheckedError("a broker before 1.0 does not report errors in credentials")


def _wants_sasl(server: str, protocol: str, conversation: Conversation) -> ConnectorError | None:
    """Returns an error if the listener requires SASL.

    A listener without SASL answers a SaslHandshake with another error code.
    """
    handshake = conversation.ask(SaslHandshakeRequest(mechanism=""), 1)
    if handshake.error_code != _UNSUPPORTED_MECHANISM:
        return None
    return AuthenticationError(
        f"The broker at {server} requires SASL authentication, but option {_PROTOCOL} is {protocol}. Set it to "
        f"SASL_{protocol}, and options 'kafka.sasl.mechanism' (the broker offers {', '.join(handshake.mechanisms)}) "
        "and 'kafka.sasl.jaas.config'."
    )


def _speaks_tls(server: str, protocol: str) -> ConnectorError | None:
    # No data is sent over this connection, so the certificate does not need to be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(_connect(server)).close()
    except OSError:
        return None
    return UnreachableError(
        f"The broker at {server} requires TLS, but option {_PROTOCOL} is {protocol}. Set it to "
        f"{'SSL or SASL_SSL' if protocol == 'PLAINTEXT' else 'SASL_SSL'}."
    )


def _silent(server: str) -> ConnectorError:
    return UnreachableError(
        f"The broker at {server} accepts connections, but does not answer a TLS handshake. Check options {_PROTOCOL} "
        "and 'kafka.bootstrap.servers', and that the broker runs without errors."
    )


def _speaks_no_tls(server: str, protocol: str) -> ConnectorError | None:
    with closing(_connect(server)) as plain:
        Conversation(plain).ask(ApiVersionsRequest(), 0)
    return UnreachableError(
        f"The broker at {server} does not support TLS, but option {_PROTOCOL} is {protocol}. Set it to PLAINTEXT or "
        "SASL_PLAINTEXT, or give a port with TLS."
    )


def _connect(server: str) -> socket.socket:
    return socket.create_connection(_host(server), _TIME_LIMIT_S)


def _host(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return re.sub(r"^\[(.*)\]$", r"\1", host), int(port)
