"""Encryption and authentication by the names of Java's client: which settings are understood,
and which are refused.
"""

from __future__ import annotations

import pickle
import re
from ssl import TLSVersion

import pytest

from flip27_stream.connectors.kafka.options.java_client_options import warn_without_effect
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.sasl.sasl_credentials import PasswordCredentials
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.tls.key_stores import KeyStore, StoreType, TrustStore
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.errors import OptionError

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="alice" password="hush-hush";'
SCRAM = f'{MODULES}.scram.ScramLoginModule required username="alice" password="hush-hush";'
SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
SSL = {"security.protocol": "SSL"}


def parse(settings: dict[str, str]) -> SecurityOptions:
    """Parses settings, which are given without their ``kafka.``."""
    given = {f"kafka.{name}": value for name, value in settings.items()}
    return parse_kafka_options({**LEAST, **given}).connection.security


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, SecurityOptions()),
        ({"security.protocol": "plaintext"}, SecurityOptions()),
        (SSL, SecurityOptions("SSL", SslOptions())),
        (SASL, SecurityOptions("SASL_SSL", SslOptions(), PasswordCredentials("PLAIN", "alice", "hush-hush"))),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": SCRAM,
            },
            SecurityOptions(
                "SASL_PLAINTEXT", None, PasswordCredentials("SCRAM-SHA-512", "alice", "hush-hush")
            ),
        ),
        (
            {**SSL, "ssl.truststore.location": "/ca.jks", "ssl.truststore.password": "pw"},
            SecurityOptions("SSL", SslOptions(TrustStore(StoreType.JKS, "/ca.jks", "pw"))),
        ),
        (
            {**SSL, "ssl.truststore.certificates": "PEM text", "ssl.truststore.type": "pem"},
            SecurityOptions("SSL", SslOptions(TrustStore(StoreType.PEM, None, None, "PEM text"))),
        ),
        (
            {
                **SSL,
                "ssl.keystore.location": "/keys.p12",
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.password": "pw",
                "ssl.key.password": "kpw",
            },
            SecurityOptions(
                "SSL", SslOptions(None, KeyStore(StoreType.PKCS12, "/keys.p12", "pw", key_password="kpw"))
            ),
        ),
        (
            {**SSL, "ssl.endpoint.identification.algorithm": "", "ssl.enabled.protocols": "TLSv1.3"},
            SecurityOptions("SSL", SslOptions(check_hostname=False, least=TLSVersion.TLSv1_3)),
        ),
        (
            {
                **SASL,
                "sasl.client.callback.handler.class": f"{MODULES}.authenticator.SaslClientCallbackHandler",
            },
            SecurityOptions("SASL_SSL", SslOptions(), PasswordCredentials("PLAIN", "alice", "hush-hush")),
        ),
        (
            {**SSL, "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"},
            SecurityOptions("SSL", SslOptions(most=TLSVersion.TLSv1_2)),
        ),
        ({**SSL, "ssl.protocol": "TLSv1.2"}, SecurityOptions("SSL", SslOptions(most=TLSVersion.TLSv1_2))),
    ],
)
def test_settings_of_java_are_parsed(settings: dict[str, str], expected: SecurityOptions) -> None:
    """The values survive pickling, as on the way to a worker, and are hashable, as keys of a pool."""
    parsed = parse(settings)
    assert parsed == expected
    copy = pickle.loads(pickle.dumps(parsed))
    assert (copy, hash(copy)) == (expected, hash(expected))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security.protocol": "TLS"}, "'kafka.security.protocol': 'TLS'. Allowed: PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI (which is the default), option 'kafka.sasl.kerberos.service.name'"),
        ({**SASL, "sasl.mechanism": "X"}, "'X'. This mechanism is not supported. Allowed: PLAIN"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "names the login module PlainLoginModule; option 'kafka.sasl.mech"),
        ({k: v for k, v in SASL.items() if k != "sasl.jaas.config"}, "'kafka.sasl.jaas.config' must be given, such as"),
        ({**SASL, "sasl.mechanism": "SCRAM-SHA-256"}, "names the login module PlainLoginModule;"),
        ({**SSL, "ssl.truststore.password": "hush-hush"}, "'kafka.ssl.truststore.password' needs option"),
        ({**SSL, "ssl.truststore.location": "/x", "ssl.truststore.type": "BKS"}, "Allowed: JKS, PKCS12, PEM."),
        ({**SSL, "ssl.truststore.location": "/x", "ssl.truststore.certificates": "x"}, "cannot be given together"),
        ({**SSL, "ssl.truststore.certificates": "hush-hush"}, "needs option 'kafka.ssl.truststore.type' to be PEM"),
        ({**SSL, "ssl.keystore.key": "hush-hush"}, "must be given together"),
        ({**SSL, "ssl.keystore.location": "/x"}, "A key store of type JKS needs option 'kafka.ssl.keystore.password'"),
        ({**SSL, "ssl.key.password": "hush-hush"}, "'kafka.ssl.key.password' needs option"),
        ({**SSL, "ssl.enabled.protocols": "TLSv1.1,TLSv1"}, "'TLSv1.1,TLSv1'. Allowed: TLSv1.2, TLSv1.3."),
        ({**SSL, "ssl.enabled.protocols": "SSLv3,TLSv1.2"}, "'SSLv3,TLSv1.2'. Allowed: TLSv1.2, TLSv1.3."),
        ({**SASL, "sasl.login.callback.handler.class": "com.example.Vault"}, "This source runs no Java code. Leave"),
        ({**SASL, "sasl.client.callback.handler.class": "com.example.Vault"}, "'com.example.Vault'. This source runs"),
        ({**SSL, "ssl.enabled.protocols": ""}, "'kafka.ssl.enabled.protocols': ''. Allowed: TLSv1.2, TLSv1.3."),
        ({**SSL, "ssl.protocol": ""}, "'kafka.ssl.protocol': ''. Allowed: TLSv1.2, TLSv1.3."),
        ({**SASL, "sasl.mechanism": ""}, "'kafka.sasl.mechanism': ''. This mechanism is not supported."),
        ({**SSL, "ssl.truststore.type": "BKS"}, "Allowed: JKS, PKCS12, PEM."),
        ({**SSL, "ssl.keystore.type": "BKS"}, "Allowed: JKS, PKCS12, PEM."),
        ({**SSL, "ssl.keystore.location": "-----BEGIN PRIVATE KEY-----\nhush-hush"}, "goes into option 'kafka.ssl.key"),
        ({**SSL, "ssl.truststore.location": "-----BEGIN CERTIFICATE-----\nhush-hush"}, "must be a path;"),
        ({**SSL, "ssl.protocol": "TLSv1.2", "ssl.enabled.protocols": "TLSv1.3"}, "'kafka.ssl.enabled.protocols'"),
        ({**SSL, "ssl.endpoint.identification.algorithm": "ldaps"}, "'kafka.ssl.endpoint.identification.algorithm'"),
        ({**SSL, "ssl.engine.factory.class": "x.Y"}, "Kafka option 'ssl.engine.factory.class' is not supported."),
        ({**SASL, "sasl.kerberos.service.nam": "kafka"}, "Did you mean 'kafka.sasl.kerberos.service.name'?"),
        ({**SASL, "sasl.oauthbearer.assertion.file": "x"}, "'sasl.oauthbearer.assertion.file' is not supp"),
        ({**SASL, "sasl.login.class": "x"}, "'sasl.login.class' is not supported."),
        ({**SSL, "ssl.trustore.location": "/x"}, "Did you mean 'kafka.ssl.truststore.location'?"),
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(settings: dict[str, str], message: str) -> None:
    """A wrong setting is refused by its name, and without a secret in the error."""
    with pytest.raises(OptionError, match=re.escape(message)) as error:
        parse(settings)
    assert "hush-hush" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ('a.b.PlainLoginModule required username="u" password="p w;=//x";', "p w;=//x"),
        ("PlainLoginModule REQUIRED\n  password='it\"s'\n  username=u ;", 'it"s'),
        (r'PlainLoginModule required username="u" password="a\"b\\c\td";', 'a"b\\c\td'),
        ('/* mine */ PlainLoginModule required username="u" // me\n password=p user_u="x";', "p"),
        (r'PlainLoginModule required username="u" password="\101\7x\400";', "A\x07x 0"),
        ('PlainLoginModule required username="u" password="=";', "="),
        ('PlainLoginModule required username="u" password=";";', ";"),
        ('PlainLoginModule required username="u" password="";', ""),
    ],
)
def test_jaas_texts_are_parsed_as_in_java(text: str, password: str) -> None:
    """JAAS texts have the quotes, escapes and comments of Java's ``StreamTokenizer``."""
    assert parse({**SASL, "sasl.jaas.config": text}).sasl == PasswordCredentials("PLAIN", "u", password)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not of the form"),
        ("hush-hush", "is not of the form"),
        ('PlainLoginModule required username="u" password="hush-hush"', "is not of the form"),
        ('PlainLoginModule required username="u" password "hush-hush";', "is not of the form"),
        (
            'PlainLoginModule required username="u"; Other required password="hush-hush";',
            "is not of the form",
        ),
        ('PlainLoginModule required username="u" password="hush-hush;', "cannot be parsed at character 49"),
        ('PlainLoginModule required username="u";', "must set username and password"),
        (
            'PlainLoginModule required username="u" password="x"hush-hush="y";',
            "a word directly after a quote",
        ),
        ('hush-hush required username="u" password="x";', "names no known login module"),
        ('KerberosLoginModule required username="u" password="hush-hush";', "needs PlainLoginModule"),
        (
            'PlainLoginModule required username="u" password="hush-hush" tokenauth="true";',
            "delegation tokens",
        ),
    ],
)
def test_wrong_jaas_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=message) as error:
        parse({**SASL, "sasl.jaas.config": text})
    assert "hush-hush" not in str(error.value)


@pytest.mark.parametrize(("mechanism", "name"), [("PLAIN", b"a=b,c"), ("SCRAM-SHA-256", b"n=a=3Db=2Cc,r=")])
def test_names_are_escaped_for_scram(mechanism: str, name: bytes) -> None:
    """RFC 5802: messages of SCRAM have commas and equals signs as separators, so names are escaped."""
    assert name in PasswordCredentials(mechanism, "a=b,c", "hush-hush").exchange("there").auth_bytes()


def test_no_secret_is_in_a_repr() -> None:
    """Secrets: reprs are part of logs and errors."""
    stores = {
        "ssl.truststore.location": "/ca.jks",
        "ssl.truststore.password": "hush-hush",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "hush-hush",
        "ssl.keystore.certificate.chain": "hush-hush",
        "ssl.key.password": "hush-hush",
    }
    given = {f"kafka.{name}": value for name, value in (SASL | stores).items()}
    options = parse_kafka_options({**LEAST, **given})
    assert "hush-hush" not in repr(options)
    assert "/ca.jks" in repr(options)
    assert options.connection.security.sasl is not None
    assert options.connection.security.sasl == PasswordCredentials("PLAIN", "alice", "hush-hush")


def test_settings_of_another_protocol_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Settings of another protocol are warned of. Java ignores them silently."""
    warn_without_effect.cache_clear()
    parse({"ssl.truststore.location": "/x", "ssl.truststore.password": "hush-hush"})
    said = [record.getMessage() for record in caplog.records]
    assert (
        "Option 'kafka.ssl.truststore.location' has no effect: kafka.security.protocol is PLAINTEXT." in said
    )
    assert "hush-hush" not in "".join(said)
