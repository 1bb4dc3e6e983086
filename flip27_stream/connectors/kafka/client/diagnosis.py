"""Why a broker hangs up: kafka-python sees the socket close, not the answer that said why.

One connection of its own goes through the same steps, each by itself: TCP, TLS, SASL.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterable
from contextlib import closing
from typing import Any

from kafka.errors import (
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from flip27_stream.connectors.kafka.client.api_versions import ask_versions
from flip27_stream.connectors.kafka.client.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.security.sasl import REFUSALS
from flip27_stream.connectors.kafka.security.security_options import SaslOptions
from flip27_stream.errors import AuthenticationError, ConnectorError, UnreachableError

_PATIENCE_S = 5.0
_UNSUPPORTED_MECHANISM = 33
_ILLEGAL_SASL_STATE = 34
_PROTOCOL = "'kafka.security.protocol'"


def diagnose(options: ConnectionOptions, servers: Iterable[str] | None = None) -> ConnectorError | None:
    """What is wrong between the options and the first of these servers that listens; ``None`` for nothing found.

    Args:
        options: how to reach the cluster.
        servers: ``host:port`` each; by default the bootstrap servers.
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
        conversation = _Conversation(connection)
        try:
            if security.sasl is None:
                return _wants_sasl(server, security.protocol, conversation)
            return _authenticate(server, security.sasl, security.protocol, conversation)
        except ssl.SSLError as error:
            return AuthenticationError(
                f"The broker at {server} ended the TLS handshake: {error.reason}. It may want a certificate of this "
                "client: check option 'kafka.ssl.keystore.location'."
            )
        except (OSError, KafkaError):
            return None if context is not None else _speaks_tls(server, security.protocol)


class _Conversation:
    """Requests and responses, one at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._protocol = KafkaProtocol(client_id="flip27-stream")

    def ask(self, request: Any, version: int) -> Any:
        request.API_VERSION = version
        self._protocol.send_request(request)
        self._connection.sendall(self._protocol.send_bytes())
        while True:
            data = self._connection.recv(65536)
            if not data:
                raise ConnectionResetError("the broker hung up")
            for _, response in self._protocol.receive_bytes(data):
                return response


def sasl_refusal(server: str, mechanism: str, error: BaseException) -> AuthenticationError | None:
    """The error for a SASL exchange that one side refused; ``None`` where it failed in another way.

    Args:
        server: ``host:port``.
        mechanism: the one in the options.
        error: what kafka-python ended the exchange with.
    """
    if isinstance(error, UnsupportedSaslMechanismError):
        return AuthenticationError(
            f"The broker at {server} does not offer SASL/{mechanism}. Check option 'kafka.sasl.mechanism'."
        )
    if isinstance(error, IllegalSaslStateError):
        return AuthenticationError(
            f"The broker at {server} takes no SASL here, and option {_PROTOCOL} asks for it. Check that option."
        )
    if isinstance(error, SaslAuthenticationFailedError):
        kind, _, why = str(error.args[0] if error.args else "").partition(": ")
        if why and kind != SaslAuthenticationFailedError.__name__:
            return None  # the broker could not check them
        return _wrong_password(server, mechanism, why or kind)
    if isinstance(error, (ValueError, LookupError)):
        return _unproven(server, mechanism)
    return None


def _wrong_password(server: str, mechanism: str, why: object) -> AuthenticationError:
    return AuthenticationError(
        f"The broker at {server} refused the user name and password by SASL/{mechanism}: {why}. "
        "Check option 'kafka.sasl.jaas.config'."
    )


def _unproven(server: str, mechanism: str) -> AuthenticationError:
    return AuthenticationError(
        f"The broker at {server} did not prove by SASL/{mechanism} that it knows the password, so it may "
        "be another than it says. Check option 'kafka.bootstrap.servers'."
    )


def _authenticate(
    server: str, sasl: SaslOptions, protocol: str, conversation: _Conversation
) -> ConnectorError | None:
    versions = ask_versions(conversation.ask)
    handshake = conversation.ask(SaslHandshakeRequest(mechanism=sasl.mechanism), 1)
    if handshake.error_code == _UNSUPPORTED_MECHANISM:
        return AuthenticationError(
            f"The broker at {server} does not offer SASL/{sasl.mechanism}, but {', '.join(handshake.mechanisms)}. "
            "Check option 'kafka.sasl.mechanism'."
        )
    if handshake.error_code == _ILLEGAL_SASL_STATE:
        return AuthenticationError(
            f"The broker at {server} takes no SASL here. Check option {_PROTOCOL} ({protocol})."
        )
    if handshake.error_code:
        return None  # it cannot tell now
    mechanism = get_sasl_mechanism(sasl.mechanism)(
        sasl_mechanism=sasl.mechanism,
        sasl_plain_username=sasl.username,
        sasl_plain_password=sasl.password,
        security_protocol=protocol,
    )
    while not mechanism.is_done():
        request = SaslAuthenticateRequest(mechanism.auth_bytes())
        response = conversation.ask(request, versions.api_version(request))
        if response.error_code and response.error_code not in REFUSALS:
            return None  # it could not check them
        if response.error_code:
            return _wrong_password(server, sasl.mechanism, response.error_message)
        try:
            mechanism.receive(response.auth_bytes)
        except (ValueError, LookupError):
            return _unproven(server, sasl.mechanism)
    return None


def _wants_sasl(server: str, protocol: str, conversation: _Conversation) -> ConnectorError | None:
    """A listener without SASL answers that a handshake is out of place."""
    handshake = conversation.ask(SaslHandshakeRequest(mechanism=""), 1)
    if handshake.error_code != _UNSUPPORTED_MECHANISM:
        return None
    return AuthenticationError(
        f"The broker at {server} wants SASL authentication, but option {_PROTOCOL} is {protocol}. Set it to "
        f"SASL_{protocol}, and options 'kafka.sasl.mechanism' (the broker offers {', '.join(handshake.mechanisms)}) "
        "and 'kafka.sasl.jaas.config'."
    )


def _speaks_tls(server: str, protocol: str) -> ConnectorError | None:
    # Nothing is sent over this connection, so nothing needs to be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(_connect(server)).close()
    except OSError:
        return None
    return UnreachableError(
        f"The broker at {server} speaks TLS, but option {_PROTOCOL} is {protocol}. Set it to "
        f"{'SSL or SASL_SSL' if protocol == 'PLAINTEXT' else 'SASL_SSL'}."
    )


def _silent(server: str) -> ConnectorError:
    return UnreachableError(
        f"The broker at {server} takes connections, but does not answer a TLS handshake. Check options {_PROTOCOL} and "
        "'kafka.bootstrap.servers', and that the broker is well."
    )


def tls_refusal(server: str, error: BaseException) -> AuthenticationError | None:
    """The error for a TLS handshake that one side refused; ``None`` where it failed in another way."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(server, error)
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" not in reason and reason != "UNSUPPORTED_PROTOCOL":
        return None
    return AuthenticationError(
        f"The broker at {server} ended the TLS handshake: {reason}. Check options 'kafka.ssl.enabled.protocols' and "
        "'kafka.ssl.protocol', and, if the broker wants a certificate of this client, 'kafka.ssl.keystore.location'."
    )


def _speaks_no_tls(server: str, protocol: str) -> ConnectorError | None:
    with closing(_connect(server)) as plain:
        _Conversation(plain).ask(ApiVersionsRequest(), 0)
    return UnreachableError(
        f"The broker at {server} does not speak TLS, but option {_PROTOCOL} is {protocol}. Set it to PLAINTEXT or "
        "SASL_PLAINTEXT, or name a port that speaks TLS."
    )


def _untrusted(server: str, error: ssl.SSLCertVerificationError) -> AuthenticationError:
    return AuthenticationError(
        f"The certificate of the broker at {server} is not trusted: {error.verify_message}. Check options "
        "'kafka.ssl.truststore.location', 'kafka.ssl.truststore.type' and "
        "'kafka.ssl.endpoint.identification.algorithm'."
    )


def _connect(server: str) -> socket.socket:
    return socket.create_connection(_host(server), _PATIENCE_S)


def _host(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return re.sub(r"^\[(.*)\]$", r"\1", host), int(port)
