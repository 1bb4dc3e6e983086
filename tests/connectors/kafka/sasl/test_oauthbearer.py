"""OAUTHBEARER at a real broker, which checks tokens with its own set of keys, as the brokers of the clouds do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flip27_stream
from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.connections.connection_options import ConnectionOptions
from flip27_stream.connectors.kafka.fetching.fetch_connection import FetchConnection
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer
from flip27_stream.connectors.kafka.security.security_options import SecurityOptions
from flip27_stream.connectors.kafka.tokens.token_cache import TOKENS
from flip27_stream.connectors.kafka.tokens.token_endpoint import TokenEndpoint
from flip27_stream.errors import AuthenticationError, ConnectorError
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.waiting import wait_until
from tests.connectors.kafka.support import token_of_file
from tests.connectors.kafka.support.answering import answers
from tests.connectors.kafka.support.token_server import Signer, TokenServer, granted, token_server
from tests.spark.support.kafka_queries import finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm

LISTENER = "listener.name.sasl_plaintext.oauthbearer"
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
SECRET = "hush-hush"


@dataclass
class Cloud:
    """A broker, a token server, and a signer of the tokens that the broker accepts."""

    broker: KafkaBroker
    server: TokenServer
    signer: Signer

    def options(self, client_id: str, extensions: tuple[tuple[str, str], ...] = ()) -> ConnectionOptions:
        """Returns options of one client. Each test has its own client, so that no test finds the token of another."""
        source = TokenEndpoint(
            self.server.url, client_id, SECRET, timeout_ms=2000, retry_ms=1, retry_max_ms=100
        )
        servers = self.broker.secure.bootstrap_servers("SASL_PLAINTEXT")
        security = SecurityOptions("SASL_PLAINTEXT", None, OAuthBearer(source, extensions))
        return ConnectionOptions(servers, security=security, first_contact_timeout_ms=20_000)

    def fetching(self, options: ConnectionOptions) -> FetchConnection:
        host, _, port = options.bootstrap_servers.partition(":")
        return FetchConnection(host, int(port), options)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    signer = Signer()
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text(signer.jwks())
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{LISTENER}.sasl.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        f"{LISTENER}.sasl.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.BrokerJwtValidator",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": "kafka",
        f"{LISTENER}.connections.max.reauth.ms": "2000",
    }
    with pytest.MonkeyPatch.context() as environment:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"
        environment.setenv("JDK_JAVA_OPTIONS", allowed)
        with (
            token_server(lambda: granted(signer.token())) as server,
            KafkaBroker(properties, listeners=["SASL_PLAINTEXT"]) as broker,
        ):
            broker.create_topic("there")
            yield Cloud(broker, server, signer)


@pytest.fixture(autouse=True)
def _good_tokens(cloud: Cloud) -> None:
    cloud.server.answer = lambda: granted(cloud.signer.token())
    cloud.server.asked.clear()


def test_planning_and_fetches_share_a_token(cloud: Cloud) -> None:
    options = cloud.options("both")
    with closing(KafkaClient(options)) as client:
        assert client.topics(["there"]).keys() == {"there"}
    for _ in range(2):
        with closing(cloud.fetching(options)) as connection:
            assert answers(connection)
    assert len(cloud.server.asked) == 1


def test_sessions_that_end_are_authenticated_again(cloud: Cloud) -> None:
    """KIP-368: the broker ends a session after 2 s, and closes connections that go on without a new session."""
    options = cloud.options("sessions")
    with closing(KafkaClient(options)) as client, closing(cloud.fetching(options)) as connection:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert client.topics(["there"]).keys() == {"there"}
            time.sleep(0.1)
        assert not connection.is_usable  # so that the fetcher makes a new one
    with closing(cloud.fetching(options)) as again:
        assert again.is_usable


@pytest.mark.parametrize(
    ("name", "claims"),
    [("audience", {"aud": "another"}), ("expired", {"exp": 1_700_000_000}), ("nobody", {"sub": ""})],
)
def test_a_token_that_the_broker_refuses_is_an_error(cloud: Cloud, name: str, claims: dict[str, Any]) -> None:
    tokens: list[str] = []

    def give() -> tuple[int, bytes]:
        tokens.append(cloud.signer.token(**claims))
        return granted(tokens[-1])

    cloud.server.answer = give
    options = cloud.options(name)
    with (
        closing(KafkaClient(options)) as client,
        pytest.raises(AuthenticationError, match=r"refused the token .*invalid_token") as planning,
    ):
        client.topics(["there"])
    with pytest.raises(AuthenticationError, match=r"refused the token by SASL/OAUTHBEARER") as fetch:
        cloud.fetching(options)
    for token in tokens:
        assert token not in str(planning.value) + str(fetch.value)


def test_a_token_server_that_refuses_is_an_error(cloud: Cloud) -> None:
    cloud.server.answer = lambda: (401, b'{"error":"invalid_client"}')
    said = r"refused client 'wrong' with 401 .*invalid_client"
    with (
        closing(KafkaClient(cloud.options("wrong"))) as client,
        pytest.raises(AuthenticationError, match=said) as error,
    ):
        client.topics(["there"])
    assert SECRET not in str(error.value)


def test_a_token_server_that_is_down_for_a_while_is_tried_again(cloud: Cloud) -> None:
    """The first contact goes on while the token server is down. When its time is over, the error says why."""
    asked: list[int] = []

    def well_later() -> tuple[int, bytes]:
        asked.append(1)
        return (503, b"") if len(asked) < 20 else granted(cloud.signer.token())

    cloud.server.answer = well_later
    with closing(KafkaClient(cloud.options("later"))) as client:
        assert client.topics(["there"]).keys() == {"there"}
    cloud.server.answer = lambda: (500, b"")
    never = replace(cloud.options("never"), first_contact_timeout_ms=1000)
    with (
        closing(KafkaClient(never)) as client,
        pytest.raises(ConnectorError, match=r"no token from .*: the server answers 500"),
    ):
        client.topics(["there"])


def test_a_token_that_was_revoked_is_replaced(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that was good and is refused now is renewed, and the query goes on."""
    options = cloud.options("revoked")
    cloud.server.answer = lambda: granted(cloud.signer.token(aud="another"))
    assert isinstance(options.security.sasl, OAuthBearer)
    TOKENS.token(options.security.sasl.provider)
    cloud.server.answer = lambda: granted(cloud.signer.token())
    an_hour_ago = time.time() - 3600
    TOKENS._kept[options.security.sasl.provider].fetched_at = an_hour_ago
    with closing(KafkaClient(options)) as client:
        assert client.topics(["there"]).keys() == {"there"}


def test_no_token_and_no_secret_is_logged(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    token = cloud.signer.token()
    cloud.server.answer = lambda: granted(token)
    options = cloud.options("quiet", (("logicalCluster", "lkc-1"),))
    with closing(KafkaClient(options)) as client:
        client.topics(["there"])
    wait_until(lambda: len(cloud.server.asked) == 1, "the token to be asked for", 10)
    assert token not in caplog.text
    assert SECRET not in caplog.text


def test_a_query_of_spark_takes_tokens_of_a_function(
    cloud: Cloud, spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The planning process and the task import and call a function of the user."""
    for file in (token_of_file.FILE, token_of_file.CALLS):
        request.addfinalizer(partial(file.unlink, missing_ok=True))
    token_of_file.CALLS.unlink(missing_ok=True)
    token_of_file.FILE.write_text(cloud.signer.token())
    cloud.broker.create_topic("of_a_function")
    cloud.broker.write("of_a_function", [(0, 1000, None, b"x")] * 3)
    flip27_stream.register(spark)
    options = {
        "kafka.bootstrap.servers": cloud.broker.secure.bootstrap_servers("SASL_PLAINTEXT"),
        "subscribe": "of_a_function",
        "startingOffsets": "earliest",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.provider": f"{token_of_file.__name__}:token",
    }
    stream = spark.readStream.format("flip27_kafka").options(**options).load()
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    finish(writer.format("parquet").trigger(availableNow=True).start(str(tmp_path / "out")))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3
    assert len(set(token_of_file.CALLS.read_text().split())) >= 2, "the planning process and a task"


def test_a_query_of_spark_authenticates_with_tokens(
    cloud: Cloud, spark: SparkSession, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Queries in Spark take the options that the clouds document. The planning process and the tasks each get a
    token. Neither the secret nor a token is in the offsets or the table of an aligned stream.
    """
    cloud.broker.create_topic("read")
    cloud.broker.write("read", [(0, 1000, None, b"x")] * 3)
    flip27_stream.register(spark)
    handler = f"kafkashaded.{PACKAGE}.secured.OAuthBearerLoginCallbackHandler"
    jaas = f'kafkashaded.{PACKAGE}.OAuthBearerLoginModule required clientId="spark" clientSecret="{SECRET}";'
    options = {
        "kafka.bootstrap.servers": cloud.broker.secure.bootstrap_servers("SASL_PLAINTEXT"),
        "subscribe": "read",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.oauthbearer.token.endpoint.url": cloud.server.url,
        "kafka.sasl.login.callback.handler.class": handler,
        "kafka.sasl.jaas.config": jaas,
        "kafka.acks": "all",
    }
    tokens: list[str] = []

    def grant() -> tuple[int, bytes]:
        tokens.append(cloud.signer.token())
        return granted(tokens[-1])

    cloud.server.answer = grant
    read = spark.read.format("flip27_kafka").options(**options).load()
    assert read.count() == 3
    read.explain(True)
    aligned = {
        "startingOffsets": "earliest",
        "scan.watermark.alignment.group": "group",
        "scan.watermark.alignment.max-drift": "10 s",
        "scan.watermark.alignment.table": str(tmp_path / "split_watermarks"),
    }
    stream = spark.readStream.format("flip27_kafka").options(**options, **aligned).load()
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.format("parquet").trigger(availableNow=True).start(str(tmp_path / "out"))
    finish(query)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"split_watermarks", "checkpoint"} <= {path.relative_to(tmp_path).parts[0] for path in files}
    shown = "".join(capfd.readouterr())
    assert tokens
    for secret in (SECRET, *tokens):
        assert secret not in shown
        assert [path for path, content in files.items() if secret.encode() in content] == []
