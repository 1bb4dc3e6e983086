"""TLS, and each way to authenticate, against a server that encrypts and asks who reads."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.errors import AuthenticationError, UnreachableError
from flip27_stream.testing import wait_until
from flip27_stream.testing.pulsar import skip_reason
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.guarded import PASSWORD, READER, STRANGER, Guarded, token_of
from tests.connectors.pulsar.support.kit import numbers
from tests.connectors.pulsar.support.token_issuer import TokenIssuer, token_issuer

pytestmark = pytest.mark.jvm

TOPIC = "guarded"
_CLASSES = "org.apache.pulsar.client.impl.auth."
REFUSED = (AuthenticationError, UnreachableError)
"""pulsar-client does not always get to know why the broker closed the connection."""
_LIFE_S = 4
"""Of a token that expires while a query runs."""
_names = itertools.count()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    if (reason := skip_reason()) is not None:
        pytest.skip(reason)
    made = Guarded(tmp_path_factory.mktemp("keys"))
    with made.server as server:
        made.create_topic(TOPIC, 2)
        for number in range(2):
            server.put(f"{TOPIC}-partition-{number}", numbers(10 * number, 10))
        yield made


@pytest.fixture
def issuer(guarded: Guarded) -> Iterator[TokenIssuer]:
    # The broker counts whole seconds, so tokens expire there a little later than the client is told.
    with token_issuer(PASSWORD, lambda life_s: guarded.token(READER, life_s + 2)) as running:
        yield running


def oauth2_params(issuer: TokenIssuer, folder: Path, password: str = PASSWORD) -> dict[str, str]:
    key = folder / "credentials.json"
    key.write_text(json.dumps({"client_id": READER, "client_secret": password}))
    return {"issuerUrl": issuer.url, "privateKey": f"file://{key}", "audience": "pulsar"}


def check_reads(source: PulsarSource) -> None:
    with SourceQuery(source) as query:
        assert sorted(int(row["value"]) for row in query.run(20)) == list(range(20))


@pytest.mark.parametrize("plugin", ["token", f"{_CLASSES}AuthenticationToken"])
def test_a_token_authenticates(guarded: Guarded, tmp_path: Path, plugin: str) -> None:
    """The token is given as text or in a file."""
    token = guarded.token(READER)
    (tmp_path / "token").write_text(f"{token}\n")
    for params in (f"token:{token}", f"file://{tmp_path / 'token'}"):
        check_reads(guarded.source(TOPIC, plugin, params))


def test_a_client_certificate_authenticates(guarded: Guarded) -> None:
    keys = guarded.client_keys
    params = f"tlsCertFile:{keys.certificate},tlsKeyFile:{keys.private_key}"
    check_reads(guarded.source(TOPIC, "tls", params))


def test_a_user_and_a_password_authenticate(guarded: Guarded) -> None:
    for plugin in ("basic", f"{_CLASSES}AuthenticationBasic"):
        check_reads(guarded.source(TOPIC, plugin, json.dumps({"userId": READER, "password": PASSWORD})))


def test_an_issuer_of_oauth2_tokens_authenticates(
    guarded: Guarded, issuer: TokenIssuer, tmp_path: Path
) -> None:
    """Parameters have the names of the Java client or of pulsar-client."""
    java = oauth2_params(issuer, tmp_path)
    other = {
        "issuer_url": java["issuerUrl"],
        "private_key": java["privateKey"],
        "audience": java["audience"],
    }
    for plugin, params in (("oauth2", other), (f"{_CLASSES}oauth2.AuthenticationOAuth2", java)):
        check_reads(guarded.source(TOPIC, plugin, json.dumps(params)))


def test_topics_are_found_by_pattern_over_tls(guarded: Guarded) -> None:
    """The admin API is asked with the token, and its certificate is checked."""
    token = f"token:{guarded.token(READER)}"
    untrusted = {"pulsar.client.tlsTrustCertsFilePath": str(guarded.client_keys.certificate)}
    with guarded.admin_over_tls() as url:
        pattern = {"topicsPattern": f"{TOPIC[:-1]}.", "admin.url": url}
        check_reads(guarded.source(TOPIC, "token", token, **pattern))
        with (
            SourceQuery(guarded.source(TOPIC, "token", token, **pattern, **untrusted)) as query,
            pytest.raises(AuthenticationError, match=r"'pulsar\.client\.tlsTrustCertsFilePath'"),
        ):
            query.run(1)


def check_is_refused(source: PulsarSource, secret: str, *wanted: str) -> None:
    """The error names what is wanted, and does not have the secret."""
    with SourceQuery(source) as query, pytest.raises(REFUSED, match=TOPIC) as refused:
        query.run(1)
    assert all(word in str(refused.value) for word in wanted), str(refused.value)
    assert secret not in str(refused.value)


def test_an_error_names_the_right_that_a_role_lacks(guarded: Guarded) -> None:
    """A role without the right to the topic is told which right it needs."""
    token = guarded.token(STRANGER)
    source = guarded.source(TOPIC, "token", f"token:{token}")
    check_is_refused(source, token, "'consume'", "'pulsar.client.authParams'")


def test_wrong_credentials_are_named(guarded: Guarded, issuer: TokenIssuer, tmp_path: Path) -> None:
    """The credentials are a token with another signature, none, and a wrong password for the server or for an issuer
    of tokens.
    """
    token = token_of("nobody", b"another key" * 3)
    basic = json.dumps({"userId": READER, "password": "wrong-one"})
    oauth2 = json.dumps(oauth2_params(issuer, tmp_path, "wrong-one"))
    for source, secret in (
        (guarded.source(TOPIC, "token", f"token:{token}"), token),
        (guarded.source(TOPIC, None), "token:"),
        (guarded.source(TOPIC, "basic", basic), "wrong-one"),
        (guarded.source(TOPIC, "oauth2", oauth2), "wrong-one"),
    ):
        check_is_refused(source, secret, "'pulsar.client.authPluginClassName'", "'pulsar.client.authParams'")


def test_a_certificate_that_is_not_trusted_is_named(guarded: Guarded) -> None:
    token = guarded.token(READER)
    other = {"pulsar.client.tlsTrustCertsFilePath": str(guarded.client_keys.certificate)}
    source = guarded.source(TOPIC, "token", f"token:{token}", **other)
    check_is_refused(source, token, "certificate", "'pulsar.client.tlsTrustCertsFilePath'")


# ---- tokens that expire while a query runs ------------------------------------------------------------------------


def test_an_expired_token_fails_the_query(guarded: Guarded, tmp_path: Path) -> None:
    """The query fails and says why. When the file has a new token, it goes on in the same process."""
    topic, file = f"expiring-{next(_names)}", tmp_path / "token"
    guarded.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    guarded.server.put(partition, numbers(0, 5))
    token = guarded.token(READER, _LIFE_S)
    file.write_text(token)
    source = guarded.source(topic, "token", f"file:{file}")
    with SourceQuery(source) as query:
        rows = query.run(5)
        with pytest.raises(REFUSED, match="expired") as refused:
            wait_until(query.step, "the token to expire")
        assert token not in str(refused.value)
    guarded.server.put(partition, numbers(5, 5))
    file.write_text(guarded.token(READER))
    with SourceQuery(source, query.offset) as resumed:
        rows += resumed.run(5)
    assert [row["value"] for row in rows] == numbers(0, 10)


def test_a_token_is_renewed_from_its_file(guarded: Guarded, tmp_path: Path) -> None:
    topic, file = f"expiring-{next(_names)}", tmp_path / "token"
    guarded.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    guarded.server.put(partition, numbers(0, 5))
    expires = time.time() + _LIFE_S
    file.write_text(guarded.token(READER, _LIFE_S))
    with SourceQuery(guarded.source(topic, "token", f"file:{file}")) as query:
        rows = query.run(5)
        file.write_text(guarded.token(READER))
        wait_until(lambda: query.step() or time.time() > expires + 2, "the token to expire")
        guarded.server.put(partition, numbers(5, 5))
        rows += query.run(5)
    assert [row["value"] for row in rows] == numbers(0, 10)


def test_a_token_is_renewed_by_its_issuer(guarded: Guarded, issuer: TokenIssuer, tmp_path: Path) -> None:
    topic = f"expiring-{next(_names)}"
    guarded.create_topic(topic, 1)
    partition = f"{topic}-partition-0"
    guarded.server.put(partition, numbers(0, 5))
    issuer.life_s = 1
    with SourceQuery(guarded.source(topic, "oauth2", json.dumps(oauth2_params(issuer, tmp_path)))) as query:
        rows = query.run(5)
        first = issuer.granted
        wait_until(lambda: query.step() or issuer.granted > first + 1, "new tokens")
        guarded.server.put(partition, numbers(5, 5))
        rows += query.run(5)
    assert [row["value"] for row in rows] == numbers(0, 10)
