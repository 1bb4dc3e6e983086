"""Fake brokers of other versions than the tests' real one. The client asks each broker which versions it speaks."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import replace

import pytest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.errors import AuthenticationError, ConnectorError
from tests.connectors.kafka.support.fetch_server import (
    OPTIONS,
    SPOKEN,
    TOPIC_ID,
    Serve,
    fetch,
    fetching,
    frame,
    records,
    response,
)

API_VERSIONS, FETCH = ApiVersionsRequest.API_KEY, FetchRequest.API_KEY
HANDSHAKE, AUTHENTICATE = SaslHandshakeRequest.API_KEY, SaslAuthenticateRequest.API_KEY
PLAIN = replace(
    OPTIONS,
    security=SecurityOptions("SASL_PLAINTEXT", None, PasswordCredentials("PLAIN", "alice", "hush-hush")),
)
TOKEN = b"alice\0alice\0hush-hush"


def fetched(connection: socket.socket, request: bytes) -> None:
    _, version = struct.unpack_from(">hh", request)
    connection.sendall(frame(request, response(b"abc", version)))


@pytest.mark.parametrize(
    ("spoken", "topic_id", "version"),
    [
        ((4, 6), "", 6),  # Kafka 1.0
        ((4, 11), TOPIC_ID, 11),  # 2.3: no topic ids in fetches
        ((4, 12), TOPIC_ID, 12),
        ((4, 17), TOPIC_ID, 13),
        ((4, 17), "", 11),  # the planner was told no id
        ((13, 18), TOPIC_ID, 13),
    ],
)
def test_the_greatest_common_version_of_fetch_is_asked(
    spoken: tuple[int, int], topic_id: str, version: int
) -> None:
    with fetching(fetched, spoken={**SPOKEN, FETCH: spoken}) as (server, fetcher):
        assert records(fetch(fetcher, topic_id)) == b"abc"
        assert server.asked == [version]


@pytest.mark.parametrize("spoken", [{FETCH: (0, 3)}, {FETCH: (14, 20)}, {}])
def test_a_broker_without_a_common_version_of_fetch_is_named(spoken: Mapping[int, tuple[int, int]]) -> None:
    with (
        fetching(fetched, spoken={API_VERSIONS: (0, 4), **spoken}) as (_, fetcher),
        pytest.raises(ConnectorError, match=r"supports no version of Fetch\w* from 4 to 13"),
    ):
        fetch(fetcher, TOPIC_ID)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_broker_that_does_not_know_the_version_of_the_question(most: int) -> None:
    """A broker that does not know the version of ApiVersions answers in version 0, with an error and
    its versions (KIP-511).
    """
    with fetching(fetched, spoken={**SPOKEN, API_VERSIONS: (0, most)}) as (server, fetcher):
        assert records(fetch(fetcher)) == b"abc"
        assert len(server.connections) == 1


def test_a_broker_that_does_not_tell_its_versions_loses_the_connection() -> None:
    """A broker that does not tell its versions loses the connection, which has the reason. The
    query does not fail yet.
    """

    def serve(connection: socket.socket, request: bytes) -> None:
        connection.sendall(frame(request, struct.pack(">hi", 42, 0)))

    with fetching(serve, spoken={FETCH: (4, 11)}) as (_, fetcher):
        assert fetch(fetcher).fetched is None
        assert "does not send the versions that it supports: InvalidRequestError" in str(fetcher.failure)


def sasl_server(tokens: list[bytes], session_ms: int = 0) -> Serve:
    """Returns a server that takes the password in requests, and answers in the versions of the requests."""

    def serve(connection: socket.socket, request: bytes) -> None:
        kind, version = struct.unpack_from(">hh", request)
        if kind == HANDSHAKE:
            body = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]).encode(version=version)
        elif kind == AUTHENTICATE:
            tokens.append(request)
            answer = SaslAuthenticateResponse(
                error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=session_ms
            )
            body = b"\0" * (version >= 2) + answer.encode(version=version)
        else:
            fetched(connection, request)
            return
        connection.sendall(frame(request, bytes(body)))

    return serve


@pytest.mark.parametrize("most", [0, 1, 2])
def test_the_version_of_sasl_is_that_of_the_broker(most: int) -> None:
    tokens: list[bytes] = []
    spoken = {**SPOKEN, HANDSHAKE: (0, 1), AUTHENTICATE: (0, most)}
    with fetching(sasl_server(tokens), PLAIN, spoken) as (_, fetcher):
        assert records(fetch(fetcher)) == b"abc"
    (request,) = tokens
    assert struct.unpack_from(">hh", request) == (AUTHENTICATE, most)
    assert TOKEN in request


def test_a_session_that_ends_is_authenticated_again() -> None:
    """KIP-368: from version 1 on a session has a life time. When it is over, a new connection authenticates again."""
    tokens: list[bytes] = []
    spoken = {**SPOKEN, HANDSHAKE: (0, 1), AUTHENTICATE: (0, 1)}
    with fetching(sasl_server(tokens, session_ms=1), PLAIN, spoken) as (server, fetcher):
        for connections in (1, 2):
            assert records(fetch(fetcher)) == b"abc"
            assert len(server.connections) == connections
            while fetcher._open[1].is_usable:
                pass


@pytest.mark.parametrize("accepts", [True, False])
def test_brokers_before_1_0_get_tokens_without_requests(accepts: bool) -> None:
    """A broker before 1.0 knows version 0 of the handshake, and takes tokens that are no requests."""
    found: list[bytes] = []

    def serve(connection: socket.socket, request: bytes) -> None:
        kind, version = struct.unpack_from(">hh", request)
        if kind != HANDSHAKE:
            fetched(connection, request)
            return
        assert version == 0
        body = SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]).encode(version=0)
        connection.sendall(frame(request, bytes(body)))
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        found.append(connection.recv(size, socket.MSG_WAITALL))
        if accepts:
            connection.sendall(struct.pack(">i", 0))
        else:
            connection.shutdown(socket.SHUT_RDWR)

    with fetching(serve, PLAIN, {**SPOKEN, HANDSHAKE: (0, 0)}) as (_, fetcher):
        answer = fetch(fetcher)
        assert found == [TOKEN]
        assert (answer.fetched is not None) == accepts


def test_a_mechanism_that_the_broker_does_not_offer_is_named() -> None:
    def serve(connection: socket.socket, request: bytes) -> None:
        body = SaslHandshakeResponse(error_code=33, mechanisms=["GSSAPI"]).encode(version=1)
        connection.sendall(frame(request, bytes(body)))

    spoken = {**SPOKEN, HANDSHAKE: (0, 1), AUTHENTICATE: (0, 2)}
    with (
        fetching(serve, PLAIN, spoken) as (_, fetcher),
        pytest.raises(AuthenticationError, match=r"does not offer SASL/PLAIN; it offers GSSAPI") as caught,
    ):
        fetch(fetcher)
    assert "hush-hush" not in str(caught.value)
