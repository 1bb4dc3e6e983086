"""Token, TLS and certificates, against a server that asks for them and encrypts."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.errors import AuthenticationError, UnreachableError
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.child import free_port
from flip27_stream.testing.kafka.key_pair import KeyPair
from flip27_stream.testing.pulsar import skip_reason
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.kit import QUICK, numbers

pytestmark = pytest.mark.jvm

ADMIN, READER, STRANGER = "admin", "reader", "stranger"
_PROVIDERS = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
TOPIC = "guarded"


def token_of(user: str, key: bytes) -> str:
    """A JSON web token, signed with HMAC-SHA256."""

    def encoded(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    text = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256"}, {"sub": user}))
    return f"{text}.{encoded(hmac.digest(key, text.encode(), hashlib.sha256))}"


class Guarded:
    """A server with TLS, tokens and certificates, on which only some users may read the topic."""

    def __init__(self, folder: Path) -> None:
        self._key = secrets.token_bytes(32)
        self.server_keys = KeyPair(folder, "server", secrets.token_hex(16))
        self.client_keys = KeyPair(folder, READER, secrets.token_hex(16))
        self._port = free_port()
        admin = self.token(ADMIN)
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": f"{_PROVIDERS}Token,{_PROVIDERS}Tls",
            "authorizationEnabled": "true",
            "superUserRoles": ADMIN,
            "tokenSecretKey": "data:;base64," + base64.b64encode(self._key).decode(),
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{admin}",
            "brokerServicePortTls": str(self._port),
            "tlsCertificateFilePath": str(self.server_keys.certificate),
            "tlsKeyFilePath": str(self.server_keys.private_key),
            "tlsTrustCertsFilePath": str(self.client_keys.certificate),
        }
        self.server = PulsarServer(settings, token=admin)

    def token(self, user: str) -> str:
        return token_of(user, self._key)

    def source(self, **more: str) -> PulsarSource:
        """Reads the topic over TLS, and trusts the server's certificate."""
        options = {
            "service.url": f"pulsar+ssl://127.0.0.1:{self._port}",
            "pulsar.client.tlsTrustCertsFilePath": str(self.server_keys.certificate),
            "pulsar.client.tlsHostnameVerificationEnable": "true",
        }
        quick = {**QUICK, "pulsar.client.operationTimeoutMs": "3000"}
        given = {name.replace("__", "."): value for name, value in more.items()}
        return PulsarSource({**quick, **options, "topic": TOPIC, **given})


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    made = Guarded(tmp_path_factory.mktemp("keys"))
    with made.server as server:
        server.admin("POST", f"namespaces/public/default/permissions/{READER}", ["consume"])
        server.create_topic(TOPIC, 2)
        for number in range(2):
            server.put(f"{TOPIC}-partition-{number}", numbers(10 * number, 10))
        yield made


def check_reads(source: PulsarSource) -> None:
    with SourceQuery(source) as query:
        assert sorted(int(row["value"]) for row in query.run(20)) == list(range(20))


@pytest.mark.parametrize("plugin", ["token", "org.apache.pulsar.client.impl.auth.AuthenticationToken"])
def test_a_token(guarded: Guarded, tmp_path: Path, plugin: str) -> None:
    """As text, or in a file."""
    token = guarded.token(READER)
    (tmp_path / "token").write_text(f"{token}\n")
    for params in (f"token:{token}", f"file://{tmp_path / 'token'}"):
        check_reads(
            guarded.source(pulsar__client__authPluginClassName=plugin, pulsar__client__authParams=params)
        )


def test_a_certificate_of_the_client(guarded: Guarded) -> None:
    keys = guarded.client_keys
    params = f"tlsCertFile:{keys.certificate},tlsKeyFile:{keys.private_key}"
    check_reads(guarded.source(pulsar__client__authPluginClassName="tls", pulsar__client__authParams=params))


@pytest.mark.parametrize("user", [STRANGER, "nobody", None])
def test_who_may_not_read_is_told_so(guarded: Guarded, user: str | None) -> None:
    """A user without permission, a token that somebody else signed, and no token. The error does not have the token."""
    token = guarded.token(STRANGER) if user == STRANGER else token_of("nobody", b"another key" * 3)
    given = {"pulsar__client__authPluginClassName": "token", "pulsar__client__authParams": f"token:{token}"}
    with (
        SourceQuery(guarded.source(**given if user else {})) as query,
        pytest.raises(AuthenticationError, match=r"'pulsar\.client\.authPluginClassName'") as failure,
    ):
        query.run(1)
    assert token not in str(failure.value)


def test_a_certificate_that_is_not_trusted(guarded: Guarded) -> None:
    given = {
        "pulsar__client__tlsTrustCertsFilePath": str(guarded.client_keys.certificate),
        "pulsar__client__authPluginClassName": "token",
        "pulsar__client__authParams": f"token:{guarded.token(READER)}",
    }
    with (
        SourceQuery(guarded.source(**given)) as query,
        pytest.raises(UnreachableError, match=r"pulsar\+ssl://"),
    ):
        query.run(1)
