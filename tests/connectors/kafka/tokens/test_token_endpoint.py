"""Tokens of an OAuth server: the request, tokens that are kept, and servers that fail or are silent."""

from __future__ import annotations

import base64
import json
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import pytest

from flip27_stream.connectors.kafka.tokens.token_cache import Token, TokenCache
from flip27_stream.connectors.kafka.tokens.token_endpoint import TokenEndpoint
from flip27_stream.connectors.kafka.tokens.token_function import TokenFunction
from flip27_stream.errors import AuthenticationError, OptionError
from flip27_stream.testing.waiting import wait_until
from tests.connectors.kafka.support.token_server import Signer, TokenServer, granted, token_server

SECRET = "hush-hush/&"


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer()


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with token_server(lambda: granted("opaque")) as running:
        yield running


def endpoint(server: TokenServer) -> TokenEndpoint:
    return TokenEndpoint(server.url, "me", SECRET, timeout_ms=2000, retry_ms=1, retry_max_ms=200)


def test_the_request_is_that_of_java(server: TokenServer, signer: Signer) -> None:
    token = signer.token(900)
    server.answer = lambda: granted(token)
    found = replace(endpoint(server), scope="a b").fetch()
    (asked,) = server.asked
    assert asked.form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    assert asked.headers["authorization"] == "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert found.value == token
    assert found.expires_at is not None
    assert token not in repr(found)
    replace(endpoint(server), url_encode=True).fetch()
    assert base64.b64decode(server.asked[1].headers["authorization"][6:]) == b"me:hush-hush%2F%26"


def test_a_token_may_have_no_expiry(server: TokenServer) -> None:
    assert endpoint(server).fetch() == Token("opaque", None)
    server.answer = lambda: granted("opaque", expires_in=100)
    assert endpoint(server).fetch().expires_at is not None


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"error": "invalid_client", "error_description": "no such key: aHVzaA"}, ": invalid_client"),
        ({"error": "hush"}, ""),
        ({"error": ["hush"]}, ""),
        ({"error": {"a": "hush"}}, ""),
        ({"errorCode": "hush", "errorSummary": "hush"}, ""),
    ],
)
def test_a_server_that_refuses_is_named_without_what_it_repeats(
    server: TokenServer, fields: dict[str, Any], shown: str
) -> None:
    """Only the error code of the standard is shown: anything else may be the secret in some spelling."""
    server.answer = lambda: (401, json.dumps(fields | {"sent": SECRET}).encode())
    with pytest.raises(
        AuthenticationError, match=rf"refused client 'me' with 401 Unauthorized{shown}\. Check"
    ):
        endpoint(server).fetch()
    assert len(server.asked) == 1


def test_the_phrase_of_a_server_is_not_shown() -> None:
    """A server may repeat the request in its status line."""
    lines = [b"HTTP/1.1 401 hush-hush", b"HTTP/1.1 599 hush-hush", b"HTTP/1.1 hush-hush"]
    for line in lines:
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def serve(listening: socket.socket = listening, line: bytes = line) -> None:
                connection, _ = listening.accept()
                with connection:
                    request = b""
                    while b"client_credentials" not in request and (more := connection.recv(4096)):
                        request += more
                    connection.sendall(line + b"\r\nContent-Length: 0\r\n\r\n")

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/token?code=hush"
            with pytest.raises((AuthenticationError, OSError)) as error:
                TokenEndpoint(url, "me", SECRET, timeout_ms=5000, retry_ms=1, retry_max_ms=0).fetch()
            thread.join(10)
        assert "hush" not in str(error.value)


@pytest.mark.parametrize("body", [b"", b"hush", b"[7]", b'{"error": 7}', b"[" * 100_000, b"\xff"])
def test_a_refusal_in_another_form_is_named_by_its_status(server: TokenServer, body: bytes) -> None:
    server.answer = lambda: (403, body)
    with pytest.raises(AuthenticationError, match=r"refused client 'me' with 403 Forbidden\. Check clientId"):
        endpoint(server).fetch()


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_server_that_answers_with_a_server_error_is_asked_again(server: TokenServer, status: int) -> None:
    answers = chain([(status, b"")] * 3, repeat(granted("opaque")))
    server.answer = lambda: next(answers)
    assert replace(endpoint(server), retry_max_ms=60_000).fetch().value == "opaque"
    server.answer = lambda: (status, SECRET.encode())
    with pytest.raises(OSError, match=f"no token from {server.url}: the server answers {status}") as error:
        endpoint(server).fetch()
    assert SECRET not in str(error.value)


def test_a_redirect_does_not_take_the_secret_elsewhere(server: TokenServer) -> None:
    with token_server(lambda: granted("stolen")) as other:
        server.answer = lambda: (302, b"", {"Location": other.url})
        with pytest.raises(AuthenticationError, match="302"):
            endpoint(server).fetch()
        assert other.asked == []


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"access_token": 7}', b"[" * 100_000, b"\xff"])
def test_a_response_without_a_token_is_an_error(server: TokenServer, body: bytes) -> None:
    server.answer = lambda: (200, body)
    with pytest.raises(AuthenticationError, match="answered with no 'access_token'"):
        endpoint(server).fetch()


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (b"", "RemoteDisconnected"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "the answer ends after 0 of 99 bytes"),
        (b"\x00\x01\x02\r\n\r\n", "BadStatusLine"),
    ],
)
def test_a_server_that_does_not_speak_http_is_an_error(says: bytes, error: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    # Closing with unread data resets the connection, and the client may then lose the answer.
                    request = b""
                    while b"client_credentials" not in request and (more := connection.recv(4096)):
                        request += more
                    connection.sendall(says)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/token"
        with pytest.raises(ConnectionAbortedError, match=f"^no token from {url}: .*{error}"):
            TokenEndpoint(url, "me", SECRET, timeout_ms=500, retry_ms=1, retry_max_ms=50).fetch()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def test_a_server_that_is_slow_is_asked_again(server: TokenServer) -> None:
    """An answer that does not come or does not end in time is not used. A later one that comes in time is used."""
    late = threading.Event()
    asking = replace(endpoint(server), timeout_ms=100, retry_max_ms=60_000)

    def slow() -> tuple[int, bytes]:
        late.wait(60)
        return granted("late")

    answers: Iterator[Callable[[], tuple[int, bytes]]] = iter([slow, slow, lambda: granted("in time")])
    server.answer = lambda: next(answers)()
    assert asking.fetch().value == "in time"
    server.answer = slow
    with pytest.raises(OSError, match=f"no token from {server.url}: .*timed out") as error:
        replace(asking, retry_max_ms=1).fetch()
    late.set()
    assert SECRET not in str(error.value)


class Provider:
    """A provider that counts its tokens. Each token lives for 100 s."""

    def __init__(self, clock: list[float]) -> None:
        self.given, self.clock = 0, clock
        self.error: Exception | None = None

    def fetch(self) -> Token:
        if self.error is not None:
            raise self.error
        self.given += 1
        return Token(str(self.given), self.clock[0] + 100)


def test_a_token_is_kept_and_renewed_ahead_of_its_expiry() -> None:
    now = [1000.0]
    cache, provider = TokenCache(lambda: now[0]), Provider(now)
    assert [cache.token(provider).value for _ in range(3)] == ["1", "1", "1"]
    now[0] += 81
    assert cache.token(provider).value == "1"  # no connection waits for the renewal
    wait_until(lambda: provider.given == 2, "the token to be renewed", 10)
    wait_until(lambda: cache.token(provider).value == "2", "the new token to be used", 10)
    now[0] += 96
    assert cache.token(provider).value == "3"


def test_a_token_that_cannot_be_renewed_is_used_until_it_expires(caplog: pytest.LogCaptureFixture) -> None:
    now = [1000.0]
    cache, provider = TokenCache(lambda: now[0]), Provider(now)
    cache.token(provider)
    provider.error = ConnectionAbortedError("down")
    now[0] += 81
    assert cache.token(provider).value == "1"
    wait_until(lambda: "was not renewed: down" in caplog.text, "the warning", 10)
    now[0] += 15
    with pytest.raises(ConnectionAbortedError, match="down"):
        cache.token(provider)
    provider.error = None
    assert cache.token(provider).value == "2"


def test_a_refused_token_is_forgotten() -> None:
    """A refused token is not used again. If it was good before, it may have been revoked; a new one is wrong."""
    now = [1000.0]
    cache, provider = TokenCache(lambda: now[0]), Provider(now)
    cache.token(provider)
    assert not cache.refused(provider, "1")
    assert cache.token(provider).value == "2"
    now[0] += 61
    assert cache.refused(provider, "2")
    assert cache.token(provider).value == "3"


@pytest.mark.parametrize("life_s", [None, -5.0])
def test_a_token_for_one_connection_is_fetched_once_and_refused_once(life_s: float | None) -> None:
    """A token has no known expiry, or has expired by this machine's clock, which may be ahead."""

    class Opaque(Provider):
        def fetch(self) -> Token:
            return replace(super().fetch(), expires_at=None if life_s is None else self.clock[0] + life_s)

    now = [1000.0]
    cache, provider = TokenCache(lambda: now[0]), Opaque(now)
    assert [cache.token(provider).value for _ in range(5)] == ["1", "2", "3", "4", "5"]
    assert provider.given == 5
    assert not [thread for thread in threading.enumerate() if thread.name == "flip27-token"]
    assert not cache.refused(provider, "5")


def test_a_token_that_several_brokers_refuse_at_once_is_renewed_once() -> None:
    """A revoked token is refused on all connections. Each of them may try again, and the new token is kept."""
    now = [1000.0]
    cache, provider = TokenCache(lambda: now[0]), Provider(now)
    cache.token(provider)
    now[0] += 61
    assert cache.refused(provider, "1")
    assert cache.refused(provider, "1")
    assert cache.token(provider).value == "2"
    assert cache.refused(provider, "1")
    assert cache.token(provider).value == "2"
    assert not cache.refused(provider, "2")


def test_a_clock_that_is_set_back_does_not_prolong_a_token() -> None:
    """Neither a token nor an error outlives its time by that."""
    now = [10_000.0]
    cache, provider = TokenCache(lambda: now[0]), Provider(now)
    assert cache.token(provider).value == "1"
    now[0] -= 3600
    assert cache.token(provider).value == "2"
    now[0] += 96
    provider.error = ConnectionAbortedError("down")
    with pytest.raises(ConnectionAbortedError, match="down"):
        cache.token(provider)
    now[0] -= 3600
    provider.error = None
    assert cache.token(provider).value == "3"
    now[0] -= 3600
    assert cache.refused(provider, "3")


def test_connections_that_are_made_at_the_same_time_share_a_token(server: TokenServer) -> None:
    server.answer = lambda: granted("opaque", expires_in=100)
    cache = TokenCache()
    threads = [threading.Thread(target=cache.token, args=(endpoint(server),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(server.asked) == 1


def test_connections_that_wait_for_a_server_that_is_down_share_the_error() -> None:
    """Connections that wait for a server that is down get the same error. They do not try one after the other."""
    asked, may_fail = threading.Event(), threading.Event()
    errors: list[str] = []

    class Down(Provider):
        def fetch(self) -> Token:
            self.given += 1
            asked.set()
            may_fail.wait(10)
            raise ConnectionAbortedError("down")

    def ask() -> None:
        waiting.release()
        try:
            cache.token(provider)
        except ConnectionAbortedError as error:
            errors.append(str(error))

    cache, provider, waiting = TokenCache(), Down([0.0]), threading.Semaphore(0)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert asked.wait(10)
    for _ in threads:
        assert waiting.acquire(timeout=10)
    may_fail.set()
    for thread in threads:
        thread.join(10)
    assert errors == ["down"] * 4
    assert provider.given < 4


def pair() -> tuple[str, float]:
    return "from-a-function", 2_000_000_000


def wrong() -> int:
    return 7


def leaking() -> str:
    raise ValueError(SECRET)


def test_a_function_of_the_user_gives_tokens(signer: Signer) -> None:
    assert TokenFunction(f"{__name__}:pair").fetch() == Token("from-a-function", 2_000_000_000)
    assert pickle.loads(pickle.dumps(TokenFunction("a.b:c"))) == TokenFunction("a.b:c")
    for name, said in (("wrong", "not int"), ("leaking", "ValueError"), ("no_such", "AttributeError")):
        with pytest.raises(AuthenticationError, match=said) as error:
            TokenFunction(f"{__name__}:{name}").fetch()
        assert SECRET not in str(error.value)
    with pytest.raises(OptionError, match="Expected module:function"):
        TokenFunction("no function")
