"""Tokens that fake brokers refuse: all brokers at once, one broker of three, and new tokens; sessions that end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from flip27_stream.connectors.kafka.client import calls
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.tokens.token_cache import TOKENS, Token
from flip27_stream.errors import AuthenticationError
from flip27_stream.testing import wait_until
from tests.connectors.kafka.support.fake_cluster import FakeCluster, fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import ALL, connected, ends, until_heard


@dataclass(frozen=True, eq=False)
class Numbered:
    """A provider of tokens ``token-1``, ``token-2`` and so on."""

    given: list[str] = field(default_factory=list)

    def fetch(self) -> Token:
        self.given.append(f"token-{len(self.given) + 1}")
        return Token(self.given[-1], time.time() + 36_000)

    def is_an_hour_old(self) -> None:
        TOKENS._kept[self].fetched_at -= 3600


@pytest.fixture
def tokens() -> Iterator[Numbered]:
    provider = Numbered()
    yield provider
    TOKENS._kept.pop(provider, None)


@contextmanager
def authenticated(tokens: Numbered, session_ms: int = 0) -> Iterator[tuple[FakeCluster, KafkaClient]]:
    """Yields a cluster and a client with open connections to all its brokers."""
    security = SecurityOptions("SASL_PLAINTEXT", None, OAuthBearer(tokens))
    with (
        fake_cluster() as cluster,
        connected(cluster, security=security, reconnect_backoff_max_ms=100) as client,
    ):
        for broker in cluster.brokers:
            broker.session_ms = session_ms
        until_heard(lambda: ends(client, cluster) == ALL)
        yield cluster, client


@pytest.mark.usefixtures("quick")
def test_a_token_that_all_brokers_refuse_at_once_is_renewed_once(tokens: Numbered) -> None:
    """A revoked token is refused on all connections at once. It is renewed once, and the query goes on."""
    with authenticated(tokens) as (cluster, client):
        tokens.is_an_hour_old()
        for broker in cluster.brokers:
            broker.refused_tokens.add("token-1")
            broker.cut()
        until_heard(lambda: ends(client, cluster) == ALL)
    assert tokens.given == ["token-1", "token-2"]


@pytest.mark.usefixtures("quick")
def test_a_broker_that_refuses_every_token_fails_the_query(tokens: Numbered) -> None:
    """A broker that refuses every token fails the query, also if the others accept them."""
    with authenticated(tokens) as (cluster, client):
        tokens.is_an_hour_old()
        refusing = cluster.brokers[1]
        refusing.refused_tokens |= {f"token-{n}" for n in range(1, 9)}
        for broker in cluster.brokers:
            broker.cut()
        with pytest.raises(AuthenticationError, match=rf"{refusing.address} refused the token"):
            until_heard(lambda: ends(client, cluster) == ALL)
    assert tokens.given == ["token-1", "token-2"]


@pytest.mark.usefixtures("unhurried")
def test_a_session_that_ends_is_authenticated_again_on_its_connection(
    tokens: Numbered, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-368: the client authenticates again before the session ends. It makes no new connection."""
    # A broker that says nothing for this time is asked again over a new connection, also if the machine is only busy.
    monkeypatch.setattr(calls, "_SUSPICIOUS_S", 60.0)
    with authenticated(tokens, session_ms=1500) as (cluster, client):
        connections = [broker.connections for broker in cluster.brokers]
        first = cluster.requests("SaslAuthenticateRequest")

        def again() -> bool:
            assert ends(client, cluster) == ALL
            return cluster.requests("SaslAuthenticateRequest") >= first + 2 * len(ALL)

        wait_until(again, "each broker to be authenticated with twice more", 60)
        assert [broker.connections for broker in cluster.brokers] == connections
    assert tokens.given == ["token-1"]
