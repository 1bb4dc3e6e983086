"""Connections for fetches to a real broker that encrypts and asks for passwords."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.tls.key_stores import StoreType, TrustStore
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.errors import AuthenticationError
from flip27_stream.testing import KafkaBroker, SecureListener
from tests.connectors.kafka.support.answering import answers

pytestmark = pytest.mark.jvm

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def trusting(broker: KafkaBroker) -> SslOptions:
    return SslOptions(TrustStore(StoreType.PEM, str(broker.secure.broker_keys.trust_store("PEM"))))


def connect(
    broker: KafkaBroker,
    listener: SecureListener,
    sasl: PasswordCredentials | None,
    tls: SslOptions | None = None,
) -> FetchConnection:
    tls = None if listener == "SASL_PLAINTEXT" else tls or trusting(broker)
    security = SecurityOptions(listener, tls, sasl)
    host, _, port = broker.secure.bootstrap_servers(listener).partition(":")
    return FetchConnection(host, int(port), ConnectionOptions("unused:1", security=security))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_fetch_connections_authenticate_with_a_password(
    secure_broker: KafkaBroker, listener: SecureListener, mechanism: str
) -> None:
    sasl = PasswordCredentials(mechanism, secure_broker.secure.user, secure_broker.secure.password)
    with closing(connect(secure_broker, listener, sasl)) as connection:
        assert connection.is_usable
        assert answers(connection)
    wrong = replace(sasl, password="not-the-password")
    with pytest.raises(
        AuthenticationError, match=f"refused the user name and password by SASL/{mechanism}"
    ) as caught:
        connect(secure_broker, listener, wrong)
    assert "not-the-password" not in str(caught.value)


def test_a_fetch_connection_has_tls_without_a_password(secure_broker: KafkaBroker) -> None:
    with closing(connect(secure_broker, "SSL", None)) as connection:
        assert answers(connection)
    with pytest.raises(AuthenticationError, match=r"certificate of the broker at .* is not trusted"):
        connect(secure_broker, "SSL", None, SslOptions())


def test_a_mechanism_that_the_broker_does_not_offer_is_named(secure_broker: KafkaBroker) -> None:
    with pytest.raises(AuthenticationError, match=r"does not offer SASL/OAUTHBEARER; it offers .*PLAIN"):
        connect(secure_broker, "SASL_PLAINTEXT", PasswordCredentials("OAUTHBEARER", "alice", "x"))
