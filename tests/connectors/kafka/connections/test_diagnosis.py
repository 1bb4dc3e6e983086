"""Servers that are no brokers, or do not speak as the options say: which error the user gets, and how soon."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections import diagnosis
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.connections.diagnosis import diagnose
from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.errors import AuthenticationError, ConnectorError, UnreachableError

TLS = SecurityOptions("SSL", SslOptions())
SCRAM = SecurityOptions("SASL_PLAINTEXT", None, PasswordCredentials("SCRAM-SHA-256", "alice", "hush-hush"))
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\n\r\n"


@pytest.fixture(autouse=True)
def _no_socket_is_left_open() -> Iterator[None]:
    """Collects garbage after each test: a socket that is left open causes a warning, which is an error here."""
    yield
    gc.collect()


@contextmanager
def server(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """Yields the address of a server that serves one connection after the other, and closes each of them."""

    def run() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)
    assert not thread.is_alive()


def web_server(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(BAD_REQUEST)


def tls_alert(connection: socket.socket) -> None:
    """Answers as OpenSSL does where it has no version of TLS in common: alert 70, fatal."""
    connection.recv(4096)
    connection.sendall(bytes([21, 3, 1, 0, 2, 2, 70]))


@pytest.mark.parametrize("security", [SecurityOptions(), TLS, SCRAM])
def test_a_web_server_gives_no_diagnosis(security: SecurityOptions) -> None:
    """A web server gives no diagnosis, and no error of kafka-python or Python comes out."""
    with server(web_server) as address:
        assert diagnose(ConnectionOptions(address, security=security)) is None


@pytest.mark.parametrize("host", ["a" * 70, "a..b"])
def test_texts_that_are_no_host_names_are_skipped(host: str) -> None:
    """A text that cannot be a host name is skipped, like a host name that does not exist."""
    with server(tls_alert) as address:
        found = diagnose(ConnectionOptions(f"{host}:9092,{address}", security=TLS))
    assert found is not None
    assert address in str(found)


def test_a_broker_without_a_common_version_of_tls_is_named() -> None:
    with server(tls_alert) as address:
        found = diagnose(ConnectionOptions(address, security=TLS))
    assert isinstance(found, AuthenticationError)
    assert "TLSV1_ALERT_PROTOCOL_VERSION. Check options 'kafka.ssl.enabled.protocols'" in str(found)


def test_a_tls_handshake_without_an_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TLS handshake without an answer ends at the given time. The error says which answer is missing."""
    monkeypatch.setattr(diagnosis, "_TIME_LIMIT_S", 0.2)
    options = ConnectionOptions("", first_contact_timeout_ms=200, security=TLS)
    with server(lambda connection: connection.recv(1 << 20) and connection.recv(1)) as address:
        client = KafkaClient(ConnectionOptions(**{**vars(options), "bootstrap_servers": address}))
        with pytest.raises(UnreachableError, match="does not answer a TLS handshake") as caught:
            client.topics(["t"])
        client.close()
    assert address in str(caught.value)


class Impostor:
    """A broker that asks the client to prove the password, and cannot prove that it knows the password itself."""

    def ask(self, request: Any, version: int) -> Any:
        if type(request).__name__ == "ApiVersionsRequest":
            key = ApiVersionsResponse.ApiVersion
            spoken = [key(api_key=n, min_version=0, max_version=1) for n in (17, 36)]
            return ApiVersionsResponse(error_code=0, api_keys=spoken)
        if type(request).__name__ == "SaslHandshakeRequest":
            return SaslHandshakeResponse(error_code=0, mechanisms=["SCRAM-SHA-256"])
        sent = request.auth_bytes.decode()
        answer = f"{sent.partition('r=')[2]}x,s=c2FsdA==,i=4096" if sent.startswith("n,,") else "v=AAAA"
        answer = f"r={answer}" if sent.startswith("n,,") else answer
        return SaslAuthenticateResponse(error_code=0, error_message=None, auth_bytes=answer.encode())


def test_a_broker_that_does_not_know_the_password() -> None:
    """SCRAM proves the password on both sides. The error for a broker without the proof has no secret."""
    assert SCRAM.sasl is not None
    found: ConnectorError | None = diagnosis._authenticate(
        "there:1",
        SCRAM.sasl,
        Impostor(),  # type: ignore[arg-type]
    )
    assert isinstance(found, AuthenticationError)
    assert "there:1 did not prove its identity by SASL/SCRAM-SHA-256" in str(found)
    assert "hush-hush" not in str(found)


class _Deceived(FetchConnection):
    def _ask(self, request: Any, version: int) -> Any:
        return Impostor().ask(request, version)


def test_no_records_from_a_broker_that_does_not_know_the_password() -> None:
    """A connection for records refuses a broker that does not prove by SCRAM that it knows the password."""
    with server(lambda connection: connection.recv(1)) as address:
        host, _, port = address.partition(":")
        with pytest.raises(
            AuthenticationError, match="did not prove its identity by SASL/SCRAM-SHA-256"
        ) as caught:
            _Deceived(host, int(port), ConnectionOptions(address, security=SCRAM))
    assert "hush-hush" not in str(caught.value)
