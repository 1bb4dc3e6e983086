"""Authentication and encryption at a real broker: which clients it accepts, and the errors of the others.

Options are those of Java's client. Java's ``keytool`` made the stores.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from flip27_stream.connectors.kafka import KafkaSource
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.split import KafkaPartitionSplit
from flip27_stream.errors import AuthenticationError, ConnectorError, OptionError, UnreachableError
from flip27_stream.testing import KafkaBroker, SecureListener
from flip27_stream.testing.kafka.key_pair import StoreType
from tests.connectors.kafka.support.kit import read, running

pytestmark = [
    pytest.mark.jvm,
    # kafka-python forgets sockets of connections that were refused, and leaves them to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"),
]

Settings = dict[str, str]

STORES: list[StoreType] = ["JKS", "PKCS12", "PEM"]
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}
WRONG = "not-the-password"


@pytest.fixture(autouse=True)
def _collect_refused_connections() -> Iterator[None]:
    yield
    gc.collect()


def sasl(broker: KafkaBroker, mechanism: str = "PLAIN", password: str | None = None) -> Settings:
    secret = password or broker.secure.password
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
    return {
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f'{module} required username="{broker.secure.user}" password="{secret}";',
    }


def store(broker: KafkaBroker, name: str, kind: StoreType) -> Settings:
    """Returns the settings of a store, whose name is ``truststore`` or ``keystore``."""
    secure = broker.secure
    pair = secure.broker_keys if name == "truststore" else secure.client_keys
    path = pair.trust_store(kind) if name == "truststore" else pair.key_store(kind)
    settings = {f"kafka.ssl.{name}.location": str(path), f"kafka.ssl.{name}.type": kind}
    return settings if kind == "PEM" else settings | {f"kafka.ssl.{name}.password": pair.password}


def options(broker: KafkaBroker, listener: SecureListener, protocol: str, *settings: Settings) -> Settings:
    made = {
        "kafka.bootstrap.servers": broker.secure.bootstrap_servers(listener),
        "kafka.security.protocol": protocol,
        "subscribe": "there",
    }
    for each in settings:
        made |= each
    return made


def topics(given: Settings) -> set[str]:
    with closing(KafkaClient(parse_kafka_options(given).connection)) as client:
        return set(client.topics(["there"]))


@pytest.mark.parametrize("mechanism", MODULES)
def test_a_client_authenticates_with_each_mechanism_of_passwords(
    secure_broker: KafkaBroker, mechanism: str
) -> None:
    given = options(secure_broker, "SASL_PLAINTEXT", "SASL_PLAINTEXT", sasl(secure_broker, mechanism))
    assert topics(given) == {"there"}


@pytest.mark.parametrize("kind", STORES)
def test_a_client_trusts_the_certificates_of_its_trust_store(
    secure_broker: KafkaBroker, kind: StoreType
) -> None:
    given = options(secure_broker, "SSL", "SSL", store(secure_broker, "truststore", kind))
    assert topics(given) == {"there"}


@pytest.mark.parametrize("kind", STORES)
def test_a_client_has_tls_and_a_password(secure_broker: KafkaBroker, kind: StoreType) -> None:
    settings = [store(secure_broker, "truststore", kind), sasl(secure_broker, "SCRAM-SHA-256")]
    assert topics(options(secure_broker, "SASL_SSL", "SASL_SSL", *settings)) == {"there"}


@pytest.mark.parametrize("kind", STORES)
def test_a_client_authenticates_with_its_key_store(secure_broker: KafkaBroker, kind: StoreType) -> None:
    settings = [store(secure_broker, name, kind) for name in ("truststore", "keystore")]
    assert topics(options(secure_broker, "MUTUAL_TLS", "SSL", *settings)) == {"there"}


def test_certificates_and_keys_may_be_in_the_options(secure_broker: KafkaBroker) -> None:
    """KIP-651: certificates and keys may be in the options, with spaces for line breaks, as
    secret stores give them.
    """
    secure = secure_broker.secure
    pem = {
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": secure.broker_keys.certificate.read_text().replace("\n", " "),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": secure.client_keys.private_key.read_text(),
        "kafka.ssl.keystore.certificate.chain": secure.client_keys.certificate.read_text(),
    }
    assert topics(options(secure_broker, "MUTUAL_TLS", "SSL", pem)) == {"there"}


def test_a_pkcs12_store_of_type_jks_opens(secure_broker: KafkaBroker) -> None:
    """A PKCS12 store opens under type JKS, as in Java: keytool makes PKCS12 by default, and the
    options' default is JKS.
    """
    settings = store(secure_broker, "truststore", "PKCS12") | {"kafka.ssl.truststore.type": "JKS"}
    assert topics(options(secure_broker, "SSL", "SSL", settings)) == {"there"}


def test_rows_are_read_over_it(secure_broker: KafkaBroker) -> None:
    """Connections for records are as secure as those of the enumerator."""
    secure_broker.create_topic("secured")
    secure_broker.write("secured", [(0, i, None, b"%d" % i) for i in range(100)])
    settings = [store(secure_broker, "truststore", "PEM"), sasl(secure_broker, "SCRAM-SHA-256")]
    given = options(secure_broker, "SASL_SSL", "SASL_SSL", *settings)
    source = KafkaSource({**given, "subscribe": "secured", "startingOffsets": "earliest"})
    with running(source) as query:
        assert query.move_to_ends()["secured-0"].end == 100
    rows = read(source, KafkaPartitionSplit("secured", 0, 0, 100)).column("value")
    assert rows == [b"%d" % i for i in range(100)]


@pytest.mark.parametrize(
    ("listener", "protocol", "kind", "words"),
    [
        (
            "SASL_PLAINTEXT",
            "SASL_PLAINTEXT",
            AuthenticationError,
            "refused the user name and password by SASL/",
        ),
        ("SASL_SSL", "SASL_SSL", AuthenticationError, "refused the user name and password by SASL/"),
        ("SASL_PLAINTEXT", "PLAINTEXT", AuthenticationError, "requires SASL authentication"),
        ("SASL_SSL", "SSL", AuthenticationError, "requires SASL authentication"),
        (
            "SSL",
            "PLAINTEXT",
            UnreachableError,
            "requires TLS, but option 'kafka.security.protocol' is PLAINTEXT",
        ),
        ("SASL_SSL", "SASL_PLAINTEXT", UnreachableError, "requires TLS, but"),
        ("SASL_PLAINTEXT", "SSL", UnreachableError, "does not support TLS"),
        ("SSL", "SASL_SSL", AuthenticationError, "supports no SASL"),
        ("MUTUAL_TLS", "SSL", AuthenticationError, "ended the TLS handshake"),
    ],
)
def test_an_error_of_authentication_names_broker_cause_and_option(
    secure_broker: KafkaBroker,
    listener: SecureListener,
    protocol: str,
    kind: type[ConnectorError],
    words: str,
) -> None:
    """Secrets: the error names the broker, the cause and the option, and has no password."""
    settings = store(secure_broker, "truststore", "JKS") if "SSL" in protocol else {}
    settings |= sasl(secure_broker, "PLAIN", WRONG) if "SASL" in protocol else {}
    with pytest.raises(kind, match=words) as error:
        topics(options(secure_broker, listener, protocol, settings))
    message = str(error.value)
    assert secure_broker.secure.bootstrap_servers(listener) in message
    assert "'kafka." in message
    assert WRONG not in message


def test_a_wrong_password_of_scram_is_named(secure_broker: KafkaBroker) -> None:
    """Secrets: the error of SCRAM has no password."""
    settings = sasl(secure_broker, "SCRAM-SHA-256", WRONG)
    with pytest.raises(
        AuthenticationError, match="refused the user name and password by SASL/SCRAM"
    ) as error:
        topics(options(secure_broker, "SASL_PLAINTEXT", "SASL_PLAINTEXT", settings))
    assert WRONG not in str(error.value)


def test_an_unknown_certificate_authority_is_named(secure_broker: KafkaBroker) -> None:
    with pytest.raises(
        AuthenticationError, match=r"not trusted: self.signed certificate. Check options 'kafka.ssl"
    ):
        topics(options(secure_broker, "SSL", "SSL"))


def test_a_host_name_that_the_certificate_does_not_have_is_refused(secure_broker: KafkaBroker) -> None:
    """The host name is compared with the certificate by default, and not if
    ``ssl.endpoint.identification.algorithm`` is empty.
    """
    other = secure_broker.secure.bootstrap_servers("SSL").replace(
        "127.0.0.1", "127.1"
    )  # another name of the same host
    settings = store(secure_broker, "truststore", "PEM") | {"kafka.bootstrap.servers": other}
    with pytest.raises(
        AuthenticationError, match=r"not trusted: Hostname mismatch.*identification.algorithm'"
    ):
        topics(options(secure_broker, "SSL", "SSL", settings))
    unchecked = settings | {"kafka.ssl.endpoint.identification.algorithm": ""}
    assert topics(options(secure_broker, "SSL", "SSL", unchecked)) == {"there"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kafka.ssl.truststore.password": WRONG}, "cannot be opened as JKS: the password is wrong"),
        ({"kafka.ssl.truststore.location": "/nowhere/ca.jks"}, "It cannot be read"),
        ({"kafka.ssl.truststore.type": "PEM"}, "holds no certificate"),
    ],
)
def test_stores_that_do_not_open_are_named(secure_broker: KafkaBroker, change: Settings, words: str) -> None:
    settings = store(secure_broker, "truststore", "JKS") | change
    if settings["kafka.ssl.truststore.type"] == "PEM":
        del settings["kafka.ssl.truststore.password"]
    with pytest.raises(OptionError, match=words) as error:
        topics(options(secure_broker, "SSL", "SSL", settings))
    assert WRONG not in str(error.value)
    assert secure_broker.secure.broker_keys.password not in str(error.value)


def test_a_key_leaves_no_file_behind(
    secure_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secrets: OpenSSL gets the key through a file, which is removed when the context is made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    given = options(secure_broker, "MUTUAL_TLS", "SSL", store(secure_broker, "keystore", "JKS"))
    assert parse_kafka_options(given).connection.security.ssl_context() is not None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mechanism", MODULES)
@pytest.mark.parametrize("password", [None, WRONG])
def test_no_password_is_logged(
    secure_broker: KafkaBroker, mechanism: str, password: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Secrets: kafka-python logs requests and answers at DEBUG. The log has no password, and still has
    requests without secrets.
    """
    given = options(
        secure_broker, "SASL_PLAINTEXT", "SASL_PLAINTEXT", sasl(secure_broker, mechanism, password)
    )
    with caplog.at_level("DEBUG"), suppress(AuthenticationError):
        topics(given)
    assert "ApiVersionsRequest" in caplog.text
    assert "SaslAuthenticate" not in caplog.text
    assert secure_broker.secure.password not in caplog.text
    assert WRONG not in caplog.text


def test_special_characters_of_a_user_name_reach_the_broker(secure_broker: KafkaBroker) -> None:
    """The broker gets the name with its special characters, and finds no such user. A name without escapes
    would be malformed SCRAM.
    """
    settings = sasl(secure_broker, "SCRAM-SHA-256", WRONG)
    name = "kafka.sasl.jaas.config"
    settings[name] = settings[name].replace('"alice"', '"a=b,c"')
    with pytest.raises(AuthenticationError, match="due to invalid credentials"):
        topics(options(secure_broker, "SASL_PLAINTEXT", "SASL_PLAINTEXT", settings))
