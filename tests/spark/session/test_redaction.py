"""Spark prints no secrets, and the error of a query that fails has no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyspark.errors import PySparkException

import flip27_stream
from flip27_stream.spark.session.redaction import REDACTION_SETTING, hide_secrets
from flip27_stream.testing import KafkaBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

TABLE_OPTION = "scan.watermark.alignment.table.option."


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with Spark's default settings. The former settings are restored at the end."""
    before = spark.conf.get(REDACTION_SETTING)
    spark.conf.unset(REDACTION_SETTING)
    flip27_stream.register(spark)
    yield spark
    if before is not None:
        spark.conf.set(REDACTION_SETTING, before)


def secured(broker: KafkaBroker, password: str) -> tuple[dict[str, str], list[str]]:
    """Returns options of a read, and the parts of them that must not be shown."""
    secure = broker.secure
    key, chain = secure.client_keys.private_key.read_text(), secure.client_keys.certificate.read_text()
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    options = {
        "kafka.bootstrap.servers": secure.bootstrap_servers("SASL_SSL"),
        "subscribe": "there",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{module} required username="{secure.user}" password="{password}";',
        "kafka.ssl.truststore.type": "JKS",
        "kafka.ssl.truststore.location": str(secure.broker_keys.trust_store("JKS")),
        "kafka.ssl.truststore.password": secure.broker_keys.password,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": key,
        "kafka.ssl.keystore.certificate.chain": chain,
    }
    return options, [password, secure.broker_keys.password, key.splitlines()[1], chain.splitlines()[1]]


def test_explain_shows_no_secret(
    session: SparkSession, secure_broker: KafkaBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """``explain`` shows no secret, not even a PEM key. Spark's own setting hides a PEM key only if "url" is in it by
    chance, which is not so here.
    """
    options, secrets = secured(secure_broker, secure_broker.secure.password)
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    options["kafka.ssl.keystore.key"], secrets[2] = pem, pem.splitlines()[1]
    stream = session.readStream.format("flip27_kafka").options(**options).load()
    session.conf.unset(REDACTION_SETTING)
    stream.explain(True)
    assert secrets[2] in capsys.readouterr().out  # otherwise this test would show nothing

    hide_secrets(session)
    stream.explain(True)
    shown = capsys.readouterr().out

    assert "subscribe=there" in shown
    assert [secret for secret in secrets if secret in shown] == []


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "kafka.ssl.keystore.certificate.chain",
        "kafka.ssl.truststore.password",
        f"{TABLE_OPTION}azure_storage_account_key",
        f"{TABLE_OPTION}account_key",
        f"{TABLE_OPTION}azure_storage_master_key",
        f"{TABLE_OPTION}aws_server_side_encryption_customer_key_base64",
        f"{TABLE_OPTION}aws_secret_access_key",
        f"{TABLE_OPTION}sas_token",
        f"{TABLE_OPTION}google_service_account_key",
    ],
)
def test_values_of_secret_names_are_hidden(session: SparkSession, name: str) -> None:
    """The values of these options are hidden. Spark applies its own setting first, then that of the session."""
    hide_secrets(session)
    assert hidden(session, {name: "hush-hush"}) == {name: "*********(redacted)"}


def test_values_without_secrets_are_shown(session: SparkSession) -> None:
    hide_secrets(session)
    plain = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.keystore.location": "/keys.jks",
        "subscribe": "t",
    }
    assert hidden(session, plain) == plain


def test_hiding_secrets_twice_changes_nothing(session: SparkSession) -> None:
    """Hiding secrets a second time changes nothing, and the value that the user has set is kept."""
    session.conf.set(REDACTION_SETTING, "(?i)mine")
    hide_secrets(session)
    once = session.conf.get(REDACTION_SETTING)
    hide_secrets(session)
    assert session.conf.get(REDACTION_SETTING) == once
    assert set(hidden(session, {"of.mine": "x", "subscribe": "t"}).values()) == {"*********(redacted)", "t"}


def test_a_wrong_password_is_not_repeated(session: SparkSession, secure_broker: KafkaBroker) -> None:
    """The error for a wrong password names the option and does not have the password."""
    options, secrets = secured(secure_broker, "not-the-password")
    with pytest.raises(PySparkException, match="refused the user name and password") as error:
        session.read.format("flip27_kafka").options(**options).load().collect()
    message = str(error.value)
    assert "'kafka.sasl.jaas.config'" in message
    assert [secret for secret in secrets if secret in message] == []


def hidden(session: SparkSession, options: dict[str, str]) -> dict[str, str]:
    """Returns the result of ``SQLConf.redactOptions`` of the session."""
    jvm: Any = session._jvm
    state = session._jsparkSession.sessionState().conf()
    scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(options)
    redacted = state.redactOptions(scala)
    return {name: redacted.apply(name) for name in options}
