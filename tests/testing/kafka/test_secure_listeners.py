"""The listeners of the test broker accept clients with valid credentials, and no others."""

from __future__ import annotations

import gc
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from flip27_stream.testing import BlackHole, FaultyNetwork, HangInTls, KafkaBroker, SecureListener
from flip27_stream.testing.kafka.key_pair import StoreType
from tests.testing.support.reading import read

pytestmark = [
    pytest.mark.jvm,
    # kafka-python forgets the socket of a connection that was refused, and leaves it to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

SASL = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(autouse=True)
def _collect_refused_connections() -> Iterator[None]:
    yield
    gc.collect()


def let_in(
    broker: KafkaBroker,
    listener: SecureListener,
    time_limit_ms: int = 20_000,
    more: dict[str, str] | None = None,
) -> bool:
    """Returns whether a client of kafka-python can connect."""
    config = {"security_protocol": "SSL" if listener == "MUTUAL_TLS" else str(listener)}
    if "SASL" in listener:
        config |= {"sasl_plain_username": broker.secure.user, "sasl_plain_password": broker.secure.password}
    if listener != "SASL_PLAINTEXT":
        config["ssl_cafile"] = str(broker.secure.broker_keys.certificate)
    address = broker.secure.bootstrap_servers(listener)
    with closing(KafkaNetClient(bootstrap_servers=address, **config, **(more or {}))) as client:
        try:
            return bool(client.get_broker_version(timeout_ms=time_limit_ms) >= (4, 0))
        except KafkaError:
            return False


@pytest.mark.parametrize("mechanism", SASL)
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_client_authenticates_with_a_password(
    secure_broker: KafkaBroker, listener: SecureListener, mechanism: str
) -> None:
    assert let_in(secure_broker, listener, more={"sasl_mechanism": mechanism})


def test_a_client_authenticates_with_a_certificate(secure_broker: KafkaBroker) -> None:
    keys = secure_broker.secure.client_keys
    pair = {"ssl_certfile": str(keys.certificate), "ssl_keyfile": str(keys.private_key)}
    assert let_in(secure_broker, "MUTUAL_TLS", more=pair)
    assert let_in(secure_broker, "SSL")
    assert not let_in(secure_broker, "MUTUAL_TLS", time_limit_ms=500)


def test_a_wrong_password_is_refused(secure_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_broker.secure, "password", "no")
    for mechanism in SASL:
        assert not let_in(
            secure_broker, "SASL_PLAINTEXT", time_limit_ms=500, more={"sasl_mechanism": mechanism}
        )


def test_connections_are_encrypted_and_certified_where_they_should_be(secure_broker: KafkaBroker) -> None:
    trust = ssl.create_default_context(cafile=str(secure_broker.secure.broker_keys.certificate))
    # Python 3.13 sets this flag by default.
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    for listener in ("SSL", "SASL_SSL"):
        host, _, port = secure_broker.secure.bootstrap_servers(listener).partition(":")
        with (
            socket.create_connection((host, int(port)), 10) as plain,
            trust.wrap_socket(plain, server_hostname="localhost") as wrapped,
        ):
            assert wrapped.version() in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize("kind", ["PEM", "JKS", "PKCS12"])
def test_stores_have_the_format_of_their_kind(secure_broker: KafkaBroker, kind: StoreType) -> None:
    keys = secure_broker.secure.broker_keys
    beginnings = {"PEM": b"-----BEGIN", "JKS": b"\xfe\xed\xfe\xed", "PKCS12": b"\x30\x82"}
    for store in (keys.trust_store(kind), keys.key_store(kind)):
        assert store.read_bytes().startswith(beginnings[kind])
    assert keys.trust_store(kind) != keys.key_store(kind)
    assert (b"PRIVATE KEY" in keys.key_store("PEM").read_bytes()) > (
        b"PRIVATE KEY" in keys.trust_store("PEM").read_bytes()
    )


def test_an_unknown_listener_is_named() -> None:
    with pytest.raises(ValueError, match=r"unknown listener \['TLS'\]"):
        KafkaBroker(listeners=["TLS"]).__enter__()  # type: ignore[list-item]


def test_every_listener_is_behind_a_link_of_its_own() -> None:
    """Every listener is behind its own link.

    A client that asks where brokers are connects through the link; the test kit connects directly.
    """
    plain_password = {"sasl_mechanism": "PLAIN"}
    with FaultyNetwork() as network, KafkaBroker(listeners=["SASL_SSL"], through=network.link) as broker:
        assert set(network.links) == {"PLAINTEXT", "SASL_SSL"}
        plain, secure = network.links["PLAINTEXT"], network.links["SASL_SSL"]
        assert broker.bootstrap_servers == plain.address
        assert broker.secure.bootstrap_servers("SASL_SSL") == secure.address
        broker.create_topic("t")
        assert let_in(broker, "SASL_SSL", more=plain_password)
        trust = ssl.create_default_context(cafile=str(broker.secure.broker_keys.certificate))
        with (  # kafka-python has no deadline here
            secure.apply(HangInTls()),
            socket.create_connection((secure.host, secure.port), 0.5) as hanging,
            pytest.raises(TimeoutError),
        ):
            trust.wrap_socket(hanging, server_hostname="localhost")
        with plain.apply(BlackHole()):
            broker.write("t", [(0, 1, None, b"v")])
            assert let_in(broker, "SASL_SSL", more=plain_password)
        before = plain.accepted
        assert [record.value for record in read(plain.address, "t")] == [b"v"]
        assert plain.accepted > before + 1
