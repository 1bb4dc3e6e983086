"""Brokers that refuse this client, and brokers whose certificates this client does not trust."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flip27_stream.connectors.kafka.client.protocol import FetchFrom
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.errors import AuthenticationError
from tests.connectors.kafka.support.fake_cluster import fake_cluster
from tests.connectors.kafka.support.fake_cluster_client import (
    ALL,
    FIRST,
    SECOND,
    THIRD,
    connected,
    ends,
    planning,
    trusting,
    until_heard,
)
from tests.support.certificates import make_certificate


def test_a_password_that_one_broker_refuses_is_an_error() -> None:
    """The error is that of Java's SaslAuthenticationException. It names the broker, and has no secret."""
    sasl = PasswordCredentials("PLAIN", "alice", "hush-hush")
    security = SecurityOptions("SASL_PLAINTEXT", None, sasl)
    with fake_cluster() as cluster, connected(cluster, security=security) as client:
        cluster.brokers[1].refuses = True
        cluster.leaders = {SECOND: 2}
        with pytest.raises(AuthenticationError, match=r"refused the user name.*Invalid username") as caught:
            ends(client, cluster)
        assert cluster.brokers[1].address in str(caught.value)
        assert "hush-hush" not in str(caught.value)


def test_certificate_of_one_broker_that_is_not_trusted(certificate: Path, tmp_path: Path) -> None:
    """The error is that of Java's SslAuthenticationException, for offsets and for fetches. When the broker is trusted
    again, the client goes on.
    """
    with (
        fake_cluster(certificate=certificate) as cluster,
        connected(cluster, security=trusting(certificate), reconnect_backoff_max_ms=100) as client,
    ):
        until_heard(lambda: ends(client, cluster) == ALL)
        odd = cluster.brokers[1]
        odd.untrusted(make_certificate(tmp_path / "other.pem"))
        odd.cut()
        with pytest.raises(AuthenticationError, match=rf"{odd.address} is not trusted"):
            ends(client, cluster)
        with pytest.raises(AuthenticationError, match="is not trusted"):
            client.fetch({SECOND: FetchFrom(0, 100)}, read_committed=False, max_bytes=100)
        odd.untrusted(certificate)
        time.sleep(0.15)  # the longest back-off, plus a fifth of it
        until_heard(lambda: ends(client, cluster) == {FIRST, SECOND, THIRD})


@pytest.mark.usefixtures("quick")
def test_certificates_that_are_renewed_on_disk(certificate: Path, tmp_path: Path) -> None:
    """New connections read them; while they are not there, a connection fails and is tried again."""
    renewed, trusted = make_certificate(tmp_path / "renewed.pem"), tmp_path / "trusted.pem"
    trusted.write_bytes(certificate.read_bytes())
    with (
        fake_cluster(certificate=certificate) as cluster,
        connected(cluster, security=trusting(trusted), reconnect_backoff_max_ms=100) as client,
    ):
        until_heard(lambda: ends(client, cluster) == ALL)
        trusted.unlink()
        cluster.brokers[1].untrusted(renewed)
        cluster.brokers[1].cut()
        assert ends(client, cluster) == {FIRST, THIRD}
        trusted.write_bytes(certificate.read_bytes() + renewed.read_bytes())
        until_heard(lambda: ends(client, cluster) == ALL)


def test_broker_that_refuses_this_client_fails_the_query(certificate: Path, tmp_path: Path) -> None:
    """A refusal fails the query, in a plan and in the discovery of partitions, which repeats after other errors."""
    options = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(certificate),
        "scan.topic-partition-discovery.interval": "1 s",
    }
    with fake_cluster(1, certificate=certificate) as cluster, planning(cluster, options) as query:
        assert query.ranges().keys() == {"t-0"}
        (broker,) = cluster.brokers
        broker.untrusted(make_certificate(tmp_path / "other.pem"))
        broker.cut()
        with pytest.raises(AuthenticationError):
            query.ranges()
        with pytest.raises(AuthenticationError):
            query.context.run_periodic()
