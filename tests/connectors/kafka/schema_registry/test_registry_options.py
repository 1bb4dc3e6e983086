"""The options of a schema registry."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.source import KafkaSource, KafkaSourceFactory
from flip27_stream.connectors.kafka.values import value_options
from flip27_stream.connectors.kafka.values.row_layouts import row_layout
from flip27_stream.connectors.kafka.values.value_options import ValueOptions
from flip27_stream.errors import AuthenticationError, OptionError
from tests.connectors.kafka.support.registry_server import registry_server
from tests.connectors.kafka.support.token_server import granted, token_server

URL = "value.schema.registry.url"
SUBJECT = "value.schema.registry.subject"
USER = "value.schema.registry.basic.auth.user.info"
TOKEN = "value.schema.registry.bearer.auth.token"
SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]})
BASIC_SOURCE = "value.schema.registry.basic.auth.credentials.source"
BEARER_SOURCE = "value.schema.registry.bearer.auth.credentials.source"
ISSUER = "value.schema.registry.bearer.auth.issuer.endpoint.url"
CLIENT = "value.schema.registry.bearer.auth.client.id"
CLIENT_SECRET = "value.schema.registry.bearer.auth.client.secret"
OAUTH = {BEARER_SOURCE: "OAUTHBEARER", ISSUER: "https://idp/token", CLIENT: "me", CLIENT_SECRET: "hush"}
AVRO = {"value.format": "avro", URL: "http://there:8081/", SUBJECT: "t-value"}


def parse(options: Mapping[str, str]) -> ValueOptions:
    return value_options.parse({name.lower(): value for name, value in options.items()})


def test_all_options_are_parsed() -> None:
    found = parse(
        AVRO
        | {
            URL: "https://a.example.com/apis/ccompat/v7/, http://b:8081",
            TOKEN: "abc",
            "value.schema.registry.bearer.auth.logical.cluster": "lsrc-1",
            "value.schema.registry.bearer.auth.identity.pool.id": "pool-1",
            "value.schema.registry.ssl.truststore.location": "/store",
            "value.schema.registry.ssl.truststore.type": "PEM",
            "value.schema.registry.timeout": "5 s",
        }
    ).registry
    assert found is not None
    assert found.subject == "t-value"
    assert found.registry.urls == ("https://a.example.com/apis/ccompat/v7", "http://b:8081")
    assert found.registry.headers == (
        ("target-sr-cluster", "lsrc-1"),
        ("Confluent-Identity-Pool-Id", "pool-1"),
    )
    assert found.registry.timeout_ms == 5000
    assert found.registry.trust is not None
    assert "abc" not in repr(found)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({BASIC_SOURCE: "USER_INFO", USER: "me:hush"}, "Basic bWU6aHVzaA=="),
        ({BEARER_SOURCE: "STATIC_TOKEN", TOKEN: "hush"}, "Bearer hush"),
    ],
)
def test_the_source_of_credentials_is_that_of_confluent_s_client(given: dict[str, str], sent: str) -> None:
    found = parse(AVRO | given).registry
    assert found is not None
    assert found.registry.credentials is not None
    assert found.registry.credentials.authorization() == sent


def test_tokens_of_an_oauth_server_are_sent_to_the_registry() -> None:
    """These are Confluent Cloud's options for OAuth."""
    with token_server(lambda: granted("hush-token", expires_in=900)) as tokens, registry_server() as server:
        server.register("t-value", json.loads(SCHEMA))
        cloud = {
            URL: server.url,
            ISSUER: tokens.url,
            "value.schema.registry.bearer.auth.scope": "a b",
            "value.schema.registry.bearer.auth.logical.cluster": "lsrc-1",
            "value.schema.registry.bearer.auth.identity.pool.id": "pool-1",
        }
        found = parse(AVRO | OAUTH | cloud).registry
        assert found is not None
        for _ in range(2):
            assert found.registry.get("schemas", "ids", "1")["schema"]
        (asked,) = tokens.asked
        assert asked.form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
        assert asked.headers["authorization"] == "Basic bWU6aHVzaA=="
        _, headers = server.asked[-1]
        assert headers["authorization"] == "Bearer hush-token"
        assert (headers["target-sr-cluster"], headers["confluent-identity-pool-id"]) == ("lsrc-1", "pool-1")
        assert "hush" not in repr(found)


def test_a_refusing_oauth_server_is_named_with_the_registry_s_options() -> None:
    with token_server(lambda: (401, b"no hush")) as tokens:
        found = parse(AVRO | OAUTH | {ISSUER: tokens.url}).registry
        assert found is not None
        with pytest.raises(AuthenticationError, match=f"Check options '{CLIENT}'.*'{ISSUER}'") as error:
            found.registry.get("schemas", "ids", "1")
        assert "hush" not in str(error.value).replace("(secret)", "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({URL: "there:8081"}, "must be a URL"),
        ({URL: "http://me:hush@there:8081"}, "must not have a user name.*basic.auth.user.info"),
        ({URL: "http://there:8081?token=hush"}, "must be a URL"),
        ({URL: "http://there:8081,"}, "must be a URL"),
        ({URL: "http://there:8081/tö"}, "must be a URL"),
        ({USER: "hush"}, "must be user:password"),
        ({TOKEN: "hush\nhush"}, "must be a bearer token"),
        ({USER: "me:hush", TOKEN: "hush"}, "cannot be given together"),
        ({"value.schema.registry.bearer.auth.token.provider": "no function"}, "Expected module:function"),
        ({"value.schema.registry.bearer.auth.logical.cluster": "x"}, "needs option .*bearer.auth.token"),
        (
            {"value.schema.registry.bearer.auth.logical.cluster": "x\r\ny", TOKEN: "hush"},
            "Allowed: an id",
        ),
        ({BASIC_SOURCE: "URL", USER: "me:hush"}, "'URL'.*Allowed: USER_INFO.*basic.auth.user.info"),
        ({BASIC_SOURCE: "SASL_INHERIT"}, "'SASL_INHERIT'.*Allowed: USER_INFO"),
        ({BASIC_SOURCE: "USER_INFO"}, f"'{BASIC_SOURCE}' USER_INFO needs option '{USER}'"),
        ({BASIC_SOURCE: "USER_INFO", USER: "me:hush", BEARER_SOURCE: "STATIC_TOKEN"}, "given together"),
        ({BEARER_SOURCE: "SASL_OAUTHBEARER_INHERIT"}, "Allowed: STATIC_TOKEN or OAUTHBEARER.*provider"),
        ({BEARER_SOURCE: "CUSTOM"}, "'CUSTOM'.*Allowed: STATIC_TOKEN"),
        ({BEARER_SOURCE: "STATIC_TOKEN"}, f"STATIC_TOKEN needs option '{TOKEN}'"),
        ({BEARER_SOURCE: "OAUTHBEARER"}, f"OAUTHBEARER needs option '{ISSUER}'"),
        (OAUTH | {TOKEN: "hush"}, "cannot be given together"),
        (
            OAUTH | {ISSUER: "file:///hush"},
            "names a file.*'value.schema.registry.bearer.auth.token.provider'",
        ),
        (OAUTH | {CLIENT_SECRET: ""}, f"'{ISSUER}' needs option '{CLIENT_SECRET}'"),
        ({CLIENT_SECRET: "hush"}, f"'{CLIENT_SECRET}' needs option '{ISSUER}'"),
        ({"value.schema.registry.timeout": "0"}, "longer than 0"),
        ({"value.schema.registry.timeout": "25 days"}, "at most 2147483647 ms"),
        (
            {"value.schema.registry.ssl.truststore.password": "hush"},
            "needs option 'value.schema.registry.ssl",
        ),
        ({"value.avro.schema": SCHEMA}, "cannot be given together"),
        ({"value.avro.confluent-framing": "false"}, "cannot be given together"),
        ({"value.format": "json"}, "needs option 'value.format' to be avro"),
        ({"value.format": "string"}, "needs option 'value.format' to be json or avro"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why) as error:
        parse(AVRO | given)
    assert "hush" not in str(error.value)


def test_missing_options_are_named() -> None:
    with pytest.raises(OptionError, match=f"'value.avro.schema' must be given, or option '{URL}'"):
        parse({"value.format": "avro"})
    with pytest.raises(
        OptionError, match=rf"option '{SUBJECT}', such as orders-value, or .*'value.avro.schema'"
    ):
        parse({"value.format": "avro", URL: "http://there"})
    with pytest.raises(OptionError, match=f"'{USER}' needs option '{URL}'"):
        parse({"value.format": "json", USER: "me:hush"})
    assert parse({"value.format": "json", URL: "http://there"}).registry is not None


def test_the_subject_gives_the_schema_that_values_are_read_as() -> None:
    with registry_server() as server:
        server.register("t-value", json.loads(SCHEMA))
        options = parse(AVRO | {URL: server.url})
        layout = row_layout(pa.schema([("a", pa.int64())]), options)
        assert layout.decoder is not None
        with pytest.raises(OptionError, match=r"Column 'b' .* not a field of the Avro record 'R'"):
            row_layout(pa.schema([("b", pa.int64())]), options)
        with pytest.raises(OptionError, match=f"'{SUBJECT}': 'no-value'.*requested subject"):
            row_layout(pa.schema([("a", pa.int64())]), parse(AVRO | {URL: server.url, SUBJECT: "no-value"}))
        server.register("p-value", "message X {}", kind="PROTOBUF")
        with pytest.raises(OptionError, match=f"'{SUBJECT}': 'p-value'.*PROTOBUF"):
            row_layout(pa.schema([("a", pa.int64())]), parse(AVRO | {URL: server.url, SUBJECT: "p-value"}))


def test_options_are_checked_without_the_registry() -> None:
    """``load()`` checks the options without a request to the registry."""
    kafka = {"kafka.bootstrap.servers": "there:1", "subscribe": "t"}
    KafkaSourceFactory().check(kafka | AVRO | {URL: "http://127.0.0.1:1"})
    with pytest.raises(OptionError, match="needs a schema that names the columns"):
        KafkaSourceFactory().schema(kafka | AVRO)
    options = kafka | {"value.format": "json", URL: "http://127.0.0.1:1"}
    json_source = KafkaSource(options, schema=pa.schema([("a", pa.int64())]))
    assert json_source.schema.names == ["a"]
