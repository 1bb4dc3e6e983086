"""SASL/GSSAPI at a real broker with a real Kerberos server, on the connections of planning and of tasks.

The package ``gssapi`` is built where it is installed, and needs the headers of MIT Kerberos (``libkrb5-dev``).
Without it these tests are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.connections.diagnosis import diagnose
from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.sasl.kerberos import GssapiExchange, Kerberos
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslExchange
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.errors import AuthenticationError, ConnectorError
from flip27_stream.testing import KafkaBroker, wait_until
from flip27_stream.testing.free_ports import free_port
from tests.connectors.kafka.support.answering import answers
from tests.connectors.kafka.support.kdc import REALM, Kdc, kerberos_server, krb5_conf

pytest.importorskip(
    "gssapi", reason="gssapi is not installed (extra kerberos; it needs the headers of MIT Kerberos)"
)

pytestmark = [
    pytest.mark.jvm,
    # kafka-python forgets sockets of connections that were refused, and leaves them to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
]

LISTENER = "listener.name.sasl_plaintext"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
ALICE = f"alice@{REALM}"
BROKER = "kafka/127.0.0.1"


@dataclass(frozen=True)
class Office:
    """A broker that asks for tickets, and the Kerberos server that grants them."""

    broker: KafkaBroker
    kdc: Kdc

    @property
    def alice(self) -> Kerberos:
        return Kerberos("kafka", ALICE, str(self.kdc.keytab))

    def options(self, sasl: Kerberos) -> ConnectionOptions:
        servers = self.broker.secure.bootstrap_servers("SASL_PLAINTEXT")
        security = SecurityOptions("SASL_PLAINTEXT", None, sasl)
        return ConnectionOptions(servers, security=security, first_contact_timeout_ms=20_000)

    def topics(self, sasl: Kerberos) -> set[str]:
        with closing(KafkaClient(self.options(sasl))) as client:
            return set(client.topics(["there"]))

    def fetching(self, sasl: Kerberos) -> FetchConnection:
        options = self.options(sasl)
        host, _, port = options.bootstrap_servers.partition(":")
        return FetchConnection(host, int(port), options)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("kerberos")
    with (
        kerberos_server(folder / "kdc", ["alice", BROKER]) as kdc,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("KRB5_CONFIG", str(kdc.config))
        environment.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={kdc.config}")
        properties = {
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            f"{LISTENER}.gssapi.sasl.jaas.config": (
                f'{MODULE} useKeyTab=true storeKey=true keyTab="{kdc.keytab}" principal="{BROKER}@{REALM}";'
            ),
            f"{LISTENER}.connections.max.reauth.ms": "2000",
        }
        with KafkaBroker(properties, listeners=["SASL_PLAINTEXT"]) as broker:
            broker.create_topic("there")
            yield Office(broker, kdc)


def test_a_client_authenticates_with_a_keytab(office: Office) -> None:
    assert office.topics(office.alice) == {"there"}
    with closing(office.fetching(office.alice)) as connection:
        assert answers(connection)
    assert diagnose(office.options(office.alice)) is None


def test_a_client_authenticates_with_a_ticket_cache(office: Office, tmp_path: Path) -> None:
    """A ticket cache as ``kinit`` writes it lets the client in."""
    import gssapi

    cache = tmp_path / "tickets"
    name = gssapi.Name(ALICE, gssapi.NameType.kerberos_principal)
    store: dict[str | bytes, str | bytes] = {
        "client_keytab": str(office.kdc.keytab),
        "ccache": f"FILE:{cache}",
    }
    assert gssapi.Credentials(name=name, usage="initiate", store=store).lifetime > 0

    assert office.topics(Kerberos("kafka", ticket_cache=str(cache))) == {"there"}
    with closing(office.fetching(Kerberos("kafka", ALICE, ticket_cache=str(cache)))) as connection:
        assert answers(connection)


def test_sessions_that_end_are_authenticated_again(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-368: the broker ends a session after 2 s, and closes connections that go on without a new session."""
    made: list[SaslExchange] = []
    exchange = Kerberos.exchange

    def counted(self: Kerberos, host: str) -> SaslExchange:
        made.append(exchange(self, host))
        return made[-1]

    monkeypatch.setattr(Kerberos, "exchange", counted)
    with closing(KafkaClient(office.options(office.alice))) as client:
        wait_until(
            lambda: {"there"} == client.topics(["there"]).keys() and len(made) > 3, "three sessions", 60
        )


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        (
            "client",
            {"principal": f"bob@{REALM}"},
            r"No Kerberos ticket of bob@EXAMPLE\.COM for kafka/.* was found in the keytab .*keytab: ",
        ),
        (
            "service",
            {"service": "other"},
            r"for other/127\.0\.0\.1 was found in .*: .*not found in Kerberos database",
        ),
        (
            "file",
            {"keytab": "/nowhere/keytab"},
            r"The keytab /nowhere/keytab .* cannot be read .*No such file",
        ),
        (
            "cache",
            {"keytab": None, "ticket_cache": "/nowhere/cache"},
            "was found in ticket cache /nowhere/cache: ",
        ),
    ],
)
def test_an_error_says_why_there_is_no_ticket(
    office: Office, name: str, changed: dict[str, Any], message: str
) -> None:
    """A missing ticket is an error with its reason, on connections of planning and of tasks, and in the diagnosis."""
    wrong = replace(office.alice, **changed)
    with pytest.raises(AuthenticationError, match=message):
        office.topics(wrong)
    with pytest.raises(AuthenticationError, match=message):
        office.fetching(wrong)
    assert isinstance(diagnose(office.options(wrong)), AuthenticationError)


def test_tickets_of_another_kerberos_server_are_refused(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tickets of another Kerberos server have the same names and other keys, so the broker cannot read them."""
    with kerberos_server(tmp_path / "other", ["alice", BROKER]) as other:
        monkeypatch.setenv("KRB5_CONFIG", str(other.config))
        impostor = replace(office.alice, keytab=str(other.keytab))
        with pytest.raises(AuthenticationError, match="refused the Kerberos ticket by SASL/GSSAPI"):
            office.fetching(impostor)
        with pytest.raises(AuthenticationError, match="refused the Kerberos ticket by SASL/GSSAPI"):
            office.topics(impostor)


def test_a_kerberos_server_that_is_down_is_tried_again(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the Kerberos server is down, kept tickets are used. Without any, the error after the client's time
    says what is missing.
    """
    down = tmp_path / "krb5.conf"
    down.write_text(krb5_conf(free_port()))
    assert office.topics(office.alice) == {"there"}
    new = replace(office.alice, keytab=str(tmp_path / "keytab"))
    os.link(office.kdc.keytab, tmp_path / "keytab")
    monkeypatch.setenv("KRB5_CONFIG", str(down))

    assert office.topics(office.alice) == {"there"}
    options = replace(office.options(new), first_contact_timeout_ms=1000)
    with (
        closing(KafkaClient(options)) as client,
        pytest.raises(ConnectorError, match="no Kerberos server can be reached for tickets"),
    ):
        client.topics(["there"])


def test_a_broker_that_does_not_prove_its_identity_is_refused(office: Office) -> None:
    """A broker proves with its answer that it has the key of the service. Its answer to another client is refused, and
    so are bytes that are no answer.
    """
    import gssapi

    key: dict[str | bytes, str | bytes] = {"keytab": f"FILE:{office.kdc.keytab}"}
    broker = gssapi.SecurityContext(creds=gssapi.Credentials(usage="accept", store=key), usage="accept")
    other = office.alice.exchange("127.0.0.1")
    answer = broker.step(other.auth_bytes()) or b""
    for said, why in ((answer, "Mutual authentication failed"), (b"\x60\x06not-it", r"^Major \(")):
        exchange = office.alice.exchange("127.0.0.1")
        assert isinstance(exchange, GssapiExchange)
        with pytest.raises(ValueError, match=why):
            exchange.receive(said)
        assert not exchange.is_authenticated()
    other.receive(answer)
