"""Java's options for OAUTHBEARER, as the pages of the clouds show them for Spark."""

from __future__ import annotations

import pickle

import pytest

from flip27_stream.connectors.kafka.options.java_client_options import warn_without_effect
from flip27_stream.connectors.kafka.options.source_options import parse_kafka_options
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer, OAuthBearerExchange
from flip27_stream.connectors.kafka.tokens.token_endpoint import TokenEndpoint
from flip27_stream.connectors.kafka.tokens.token_function import TokenFunction
from flip27_stream.errors import OptionError

URL = "https://login.example.com/oauth2/v2.0/token"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
LEAST = {
    "kafka.bootstrap.servers": "there:1",
    "subscribe": "t",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "OAUTHBEARER",
}
ENDPOINT = {"kafka.sasl.oauthbearer.token.endpoint.url": URL}


def parse(**more: str) -> OAuthBearer:
    given = {f"kafka.sasl.{name.replace('__', '.')}": value for name, value in more.items()}
    sasl = parse_kafka_options({**LEAST, **given}).connection.security.sasl
    assert isinstance(sasl, OAuthBearer)
    return sasl


@pytest.mark.parametrize("prefix", ["", "kafkashaded."])
def test_options_that_clouds_document_are_parsed(prefix: str) -> None:
    jaas = (
        f'{prefix}{MODULE} required clientId="me" clientSecret="hush-hush" scope="api://x/.default" '
        'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";'
    )
    found = parse(
        jaas__config=jaas,
        oauthbearer__token__endpoint__url=URL,
        login__callback__handler__class=prefix + HANDLER,
    )
    assert found.provider == TokenEndpoint(URL, "me", "hush-hush", "api://x/.default")
    assert found.extensions == (("identityPoolId", "pool-1"), ("logicalCluster", "lkc-1"))
    assert "hush-hush" not in repr(found)
    assert hash(pickle.loads(pickle.dumps(found))) == hash(found)


def test_keys_of_kafka_4_1_are_parsed() -> None:
    found = parse(
        oauthbearer__token__endpoint__url=URL,
        oauthbearer__client__credentials__client__id="me",
        oauthbearer__client__credentials__client__secret="hush-hush",
        oauthbearer__scope="s",
        oauthbearer__header__urlencode="true",
        oauthbearer__jwt__retriever__class=f"{MODULE.rpartition('.')[0]}.ClientCredentialsJwtRetriever",
        login__read__timeout__ms="5",
        login__retry__backoff__ms="6",
        login__retry__backoff__max__ms="7",
    )
    assert found.provider == TokenEndpoint(URL, "me", "hush-hush", "s", True, 5, 6, 7)


def test_a_token_provider_needs_no_other_option() -> None:
    found = parse(oauthbearer__token__provider="mycompany.kafka:token")
    assert found.provider == TokenFunction("mycompany.kafka:token")
    assert found.option == "kafka.sasl.oauthbearer.token.provider"
    with pytest.raises(OptionError, match="cannot be given together"):
        parse(oauthbearer__token__provider="a:b", oauthbearer__token__endpoint__url=URL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "'kafka.sasl.oauthbearer.token.endpoint.url' or option"),
        (ENDPOINT, "must set clientId"),
        (
            {**ENDPOINT, "kafka.sasl.jaas.config": f'{MODULE} required clientId="me";'},
            "must set clientSecret",
        ),
        (
            {
                **ENDPOINT,
                "kafka.sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_sub="hush-hush";',
            },
            "sets unsecuredLoginStringClaim_sub, which is not supported",
        ),
        (
            {**ENDPOINT, "kafka.sasl.jaas.config": f'{MODULE} required extension_a="hush-hush\x01auth=x";'},
            "sets extension_a, which is not supported or not well formed",
        ),
        ({**ENDPOINT, "kafka.sasl.jaas.config": 'x.PlainLoginModule required a="hush-hush";'}, "needs OAuth"),
        (
            {"kafka.sasl.oauthbearer.token.endpoint.url": "file:///run/hush-hush"},
            "not read from files; .*token.provider",
        ),
        ({"kafka.sasl.oauthbearer.token.endpoint.url": "ftp://me:hush-hush@there"}, "must be a URL such as"),
        ({"kafka.sasl.oauthbearer.token.endpoint.url": "https://me:hush-hush@there/t"}, "no user name in it"),
        ({"kafka.sasl.oauthbearer.token.endpoint.url": "https://there/tökens"}, "other characters"),
        (
            {**ENDPOINT, "kafka.sasl.login.callback.handler.class": "com.example.Handler"},
            "com.example.Handler",
        ),
        ({**ENDPOINT, "kafka.sasl.oauthbearer.jwt.retriever.class": "com.example.R"}, "com.example.R"),
        ({**ENDPOINT, "kafka.sasl.oauthbearer.assertion.file": "x"}, "by a secret only"),
    ],
)
def test_missing_and_wrong_options_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said) as error:
        parse_kafka_options({**LEAST, **given})
    assert "hush-hush" not in str(error.value)


def test_options_of_another_mechanism_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_without_effect.cache_clear()
    plain = 'x.PlainLoginModule required username="u" password="p";'
    parse_kafka_options(
        {**LEAST, "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": plain, **ENDPOINT}
    )
    assert "token.endpoint.url' has no effect: kafka.sasl.mechanism is PLAIN" in caplog.text


def test_the_message_is_that_of_the_mechanism() -> None:
    """The message is that of RFC 7628, section 3.1. After an error of the broker one byte ends the exchange."""
    exchange = OAuthBearerExchange("abc", [("logicalCluster", "lkc-1")])
    assert exchange.auth_bytes() == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
    exchange.receive(b'{"status":"invalid_token"}')
    assert (exchange.is_done(), exchange.auth_bytes()) == (False, b"\x01")
    with pytest.raises(ValueError, match="did not end"):
        exchange.receive(b"")
    accepted = OAuthBearerExchange("abc", [])
    accepted.receive(b"")
    assert accepted.is_authenticated()
