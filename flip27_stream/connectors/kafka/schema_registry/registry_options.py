"""The options of a schema registry (``value.schema.registry.*``), with the names of Confluent's client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from flip27_stream.connectors.kafka.sasl.oauth_options import token_url
from flip27_stream.connectors.kafka.sasl.oauthbearer import TOKEN_FORM
from flip27_stream.connectors.kafka.schema_registry.credentials import (
    FixedCredentials,
    RegistryCredentials,
    RenewedToken,
)
from flip27_stream.connectors.kafka.schema_registry.registry import PREFIX, SchemaRegistry
from flip27_stream.connectors.kafka.tls.store_settings import TrustOptions
from flip27_stream.connectors.kafka.tokens.token_endpoint import TokenEndpoint
from flip27_stream.connectors.kafka.tokens.token_function import TokenFunction
from flip27_stream.errors import OptionError
from flip27_stream.options.durations import parse_duration
from flip27_stream.options.kinds import MOST_INT, any_text, http_url, text
from flip27_stream.options.option import Kind, Option

_HEADER: Final = re.compile(r"[\w.,-]+", re.ASCII)


def _urls(text: str, option: str) -> tuple[str, ...]:
    return tuple(_url(part.strip(), option) for part in text.split(","))


def _url(url: str, option: str) -> str:
    parts = http_url(url)
    # A URL may have a secret in it, so it is not shown.
    if parts is None or parts.query or parts.fragment:
        raise OptionError(
            f"Option '{option}' must be a URL such as https://registry.example.com, or several with commas between, "
            "without a query."
        )
    if "@" in parts.netloc:
        raise OptionError(
            f"Option '{option}' must not have a user name in it: give it in option '{USER_INFO.name}'."
        )
    return url.rstrip("/")


def _timeout(text: str, option: str) -> int:
    timeout = parse_duration(text, option)
    if not 0 < timeout <= MOST_INT:
        raise OptionError.of(
            option, text, f"Allowed: a duration longer than 0 and of at most {MOST_INT} ms, such as 30 s."
        )
    return timeout


def _token(text: str, option: str) -> str:
    if not TOKEN_FORM.fullmatch(text.strip()):
        raise OptionError(f"Option '{option}' must be a bearer token (it is not shown).")
    return text.strip()


def _header(text: str, option: str) -> str:
    if not _HEADER.fullmatch(text.strip()):
        raise OptionError.of(option, text, "Allowed: an id of letters, digits, '-', '_', '.' and ','.")
    return text.strip()


def _user_info(text: str, option: str) -> str:
    if ":" not in text or not text.strip().isprintable():
        raise OptionError(f"Option '{option}' must be user:password (it is not shown).")
    return text.strip()


def _source(remedy: str, *allowed: str) -> Kind[str]:
    """Returns the kind of a source of credentials. Other sources of Confluent's client are refused with a remedy."""

    def parse(text: str, option: str) -> str:
        if text.strip() not in allowed:
            raise OptionError.of(option, text, f"Allowed: {' or '.join(allowed)}. {remedy}")
        return text.strip()

    return Kind(" or ".join(f"`{name}`" for name in allowed), parse)


URL: Final = Option(
    f"{PREFIX}url",
    Kind("URL, or several with commas between", _urls),
    None,
    "The schema registry that has the schemas of values, by the id in front of each; see "
    "[columns](columns.md#schema-registry).",
)
SUBJECT: Final = Option(
    f"{PREFIX}subject",
    text("text", "the name of a subject, such as orders-value"),
    None,
    "The subject whose latest schema, when the query starts, is the reader's schema.",
)
BASIC_SOURCE: Final = Option(
    f"{PREFIX}basic.auth.credentials.source",
    _source(f"Give user name and password in option '{PREFIX}basic.auth.user.info'.", "USER_INFO"),
    None,
    "Where the user name and the password are; Confluent's client requires it, this source does not.",
)
USER_INFO: Final = Option(
    f"{PREFIX}basic.auth.user.info",
    Kind("`user:password`", _user_info),
    None,
    "User name and password, or API key and secret.",
    secret=True,
)
_PROVIDER: Final = f"{PREFIX}bearer.auth.token.provider"
BEARER_SOURCE: Final = Option(
    f"{PREFIX}bearer.auth.credentials.source",
    _source(
        f"For tokens of another kind, leave the option out and name a Python function in option '{_PROVIDER}'.",
        "STATIC_TOKEN",
        "OAUTHBEARER",
    ),
    None,
    "Where bearer tokens come from; Confluent's client requires it, this source does not.",
)
TOKEN: Final = Option(
    f"{PREFIX}bearer.auth.token", Kind("text", _token), None, "A bearer token.", secret=True
)
ENDPOINT: Final = Option(
    f"{PREFIX}bearer.auth.issuer.endpoint.url",
    token_url(_PROVIDER),
    None,
    "The URL of the endpoint for bearer tokens (client credentials grant). Tokens are renewed.",
)
CLIENT_ID: Final = Option(
    f"{PREFIX}bearer.auth.client.id",
    text("text", "the id of the client"),
    None,
    "The client's id at the token endpoint.",
)
CLIENT_SECRET: Final = Option(
    f"{PREFIX}bearer.auth.client.secret", any_text(), None, "The client's secret.", secret=True
)
SCOPE: Final = Option(
    f"{PREFIX}bearer.auth.scope",
    any_text(),
    None,
    "What the token is for.",
    default_words="that of the endpoint",
)
PROVIDER: Final = Option(
    _PROVIDER,
    any_text("`module:function`"),
    None,
    "Your own function that returns bearer tokens, which are renewed; see "
    "[authentication](authentication.md#a-token-of-your-own-function).",
)
LOGICAL_CLUSTER: Final = Option(
    f"{PREFIX}bearer.auth.logical.cluster",
    Kind("id, such as `lsrc-1`", _header),
    None,
    "The header `target-sr-cluster`, which Confluent Cloud requires with a token.",
)
IDENTITY_POOL: Final = Option(
    f"{PREFIX}bearer.auth.identity.pool.id",
    Kind("id, such as `pool-1`", _header),
    None,
    "The header `Confluent-Identity-Pool-Id`, which Confluent Cloud requires with a token.",
)
TRUST: Final = TrustOptions.named(PREFIX)
TIMEOUT: Final = Option(
    f"{PREFIX}timeout",
    Kind(f"duration > 0, at most `{MOST_INT} ms`", _timeout),
    "30 s",
    "How long requests for a schema are repeated before the query, or the task, fails.",
)

OPTIONS: Final[tuple[Option[Any], ...]] = (
    URL,
    SUBJECT,
    BASIC_SOURCE,
    USER_INFO,
    BEARER_SOURCE,
    TOKEN,
    ENDPOINT,
    CLIENT_ID,
    CLIENT_SECRET,
    SCOPE,
    PROVIDER,
    LOGICAL_CLUSTER,
    IDENTITY_POOL,
    *TRUST.all,
    TIMEOUT,
)


@dataclass(frozen=True)
class RegistryOptions:
    """The checked options of a schema registry.

    Attributes:
        registry: The registry.
        subject: The subject whose latest schema is the reader's; ``None`` if the reader's schema is given.
    """

    registry: SchemaRegistry
    subject: str | None


def parse(options: Mapping[str, str]) -> RegistryOptions | None:
    """Returns the checked options of a schema registry; ``None`` if the options name no registry.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: A value is wrong, or an option has no effect together with the others.
    """
    urls = URL.get(options)
    if urls is None:
        for option in OPTIONS:
            if option.is_given(options) and option.default is None:
                raise OptionError(f"Option '{option.name}' needs option '{URL.name}'. Give both, or neither.")
        return None
    headers = {"target-sr-cluster": LOGICAL_CLUSTER, "Confluent-Identity-Pool-Id": IDENTITY_POOL}
    given = {name: option.get(options) for name, option in headers.items()}
    bearers = (TOKEN, ENDPOINT, PROVIDER)
    for option in headers.values():
        if option.is_given(options) and not any(bearer.is_given(options) for bearer in bearers):
            names = " or ".join(f"'{bearer.name}'" for bearer in bearers)
            raise OptionError(
                f"Option '{option.name}' needs option {names}. Give that option too, or leave this one out."
            )
    registry = SchemaRegistry(
        urls,
        _credentials(options),
        tuple((name, value) for name, value in given.items() if value is not None),
        TRUST.store(options),
        TIMEOUT.require(options),
    )
    return RegistryOptions(registry, SUBJECT.get(options))


def _credentials(options: Mapping[str, str]) -> RegistryCredentials | None:
    _check_source(options)
    ways = (USER_INFO, TOKEN, ENDPOINT, PROVIDER)
    _refuse_together(options, *ways)
    if (user_info := USER_INFO.get(options)) is not None:
        return FixedCredentials.basic(user_info)
    if (token := TOKEN.get(options)) is not None:
        return FixedCredentials.bearer(token)
    if (endpoint := _endpoint(options)) is not None:
        return RenewedToken(endpoint, ENDPOINT.name)
    function = PROVIDER.get(options)
    return (
        None
        if function is None
        else RenewedToken(TokenFunction(function.strip(), PROVIDER.name), PROVIDER.name)
    )


def _check_source(options: Mapping[str, str]) -> None:
    """Checks that the credentials of the given source of credentials are set.

    Raises:
        OptionError: They are not set, or two sources are given.
    """
    _refuse_together(options, BASIC_SOURCE, BEARER_SOURCE)
    announced: dict[str | None, Option[Any]] = {
        "USER_INFO": USER_INFO,
        "STATIC_TOKEN": TOKEN,
        "OAUTHBEARER": ENDPOINT,
    }
    for source in (BASIC_SOURCE, BEARER_SOURCE):
        needed = announced.get(source.get(options))
        if needed is not None and not needed.is_given(options):
            raise OptionError(
                f"Option '{source.name}' {source.get(options)} needs option '{needed.name}'. Give that option too."
            )


def _refuse_together(options: Mapping[str, str], *ways: Option[Any]) -> None:
    given = [option.name for option in ways if option.is_given(options)]
    if len(given) > 1:
        raise OptionError(
            f"Options '{given[0]}' and '{given[1]}' cannot be given together. Leave one of them out."
        )


def _endpoint(options: Mapping[str, str]) -> TokenEndpoint | None:
    """Returns the token endpoint of the options; ``None`` if they name no endpoint."""
    url, client_id, secret = ENDPOINT.get(options), CLIENT_ID.get(options), CLIENT_SECRET.get(options)
    if url is None:
        for option in (CLIENT_ID, CLIENT_SECRET, SCOPE):
            if option.is_given(options):
                raise OptionError(
                    f"Option '{option.name}' needs option '{ENDPOINT.name}'. Give both, or neither."
                )
        return None
    if not client_id or not secret:
        missing = CLIENT_SECRET if client_id else CLIENT_ID
        raise OptionError(f"Option '{ENDPOINT.name}' needs option '{missing.name}'. Give both, or neither.")
    names = f"options '{CLIENT_ID.name}', '{CLIENT_SECRET.name}' and '{SCOPE.name}'"
    return TokenEndpoint(
        url, client_id, secret, SCOPE.get(options), option=ENDPOINT.name, client_options=names
    )
