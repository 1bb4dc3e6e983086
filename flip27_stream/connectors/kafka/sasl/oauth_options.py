"""Java's settings for SASL/OAUTHBEARER (``kafka.sasl.oauthbearer.*``, ``kafka.sasl.login.*``; KIP-768, KIP-1139)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from flip27_stream.connectors.kafka.sasl.jaas import parse_jaas
from flip27_stream.connectors.kafka.sasl.msk_iam import aws_settings, region_in
from flip27_stream.connectors.kafka.sasl.msk_token import LOGIN_HANDLER, MskToken
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer
from flip27_stream.connectors.kafka.tokens import token_function
from flip27_stream.connectors.kafka.tokens.token_cache import TokenProvider
from flip27_stream.connectors.kafka.tokens.token_endpoint import TokenEndpoint
from flip27_stream.connectors.kafka.tokens.token_function import TokenFunction
from flip27_stream.errors import OptionError
from flip27_stream.options.kinds import BOOLEAN, MOST_INT, any_text, whole
from flip27_stream.options.option import Kind, Option

_JAAS: Final = "kafka.sasl.jaas.config"
_MODULE: Final = "OAuthBearerLoginModule"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer."
_HANDLERS: Final = (
    f"{_PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
    LOGIN_HANDLER,
)
_RETRIEVERS: Final = (f"{_PACKAGE}DefaultJwtRetriever", f"{_PACKAGE}ClientCredentialsJwtRetriever")
_SHADED: Final = ("kafkashaded.", "shadedmskiam.")
_URL_CHARACTERS: Final = re.compile(r"[\x21-\x7e]+")
_EXTENSION: Final = "extension_"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def _java_class(*names: str) -> Kind[str]:
    """Returns the kind of an option whose value is the name of a Java class.

    Only ``names`` are allowed: the classes that this source implements itself. Package prefixes that
    Databricks adds are ignored.
    """

    def parse(text: str, option: str) -> str:
        name = text.strip()
        for prefix in _SHADED:
            name = name.removeprefix(prefix)
        if name not in names:
            raise OptionError.of(
                option,
                text,
                f"This source has no Java client, and has its own implementation of class {' or '.join(names)}; name "
                "that class or leave the option out. For tokens of another kind, leave the option out and name a "
                f"Python function in option '{token_function.OPTION}'.",
            )
        return name

    return Kind(" or ".join(f"`{name}`" for name in names), parse)


def token_url(provider: str) -> Kind[str]:
    """Returns the kind of option whose value is the URL of a token endpoint.

    Args:
        provider: The option that names a function in place of the endpoint.
    """

    def parse(text: str, option: str) -> str:
        if text.strip().lower().startswith("file:"):
            raise OptionError(
                f"Option '{option}' names a file. Tokens are not read from files; read the file in a Python function, "
                f"and name the function in option '{provider}'."
            )
        try:
            parts = urlsplit(text.strip())
            well_formed = (
                parts.scheme in ("http", "https")
                and bool(parts.hostname)
                and parts.port != 0
                and "@" not in parts.netloc
                and _URL_CHARACTERS.fullmatch(text.strip()) is not None
            )
        except ValueError:
            well_formed = False
        if not well_formed:
            # A URL may have a secret in it, so it is not shown.
            raise OptionError(
                f"Option '{option}' must be a URL such as https://login.example.com/oauth2/token, with no user name in "
                "it, and no spaces or other characters that URLs encode."
            )
        return text.strip()

    return Kind("URL with http or https", parse)


ENDPOINT: Final = Option(
    "kafka.sasl.oauthbearer.token.endpoint.url",
    token_url(token_function.OPTION),
    None,
    "The URL of the token endpoint. Required with mechanism OAUTHBEARER, unless there is a token provider.",
)
CLIENT_ID: Final = Option(
    "kafka.sasl.oauthbearer.client.credentials.client.id",
    any_text(),
    None,
    "The client's id, in place of `clientId` in the login module.",
)
CLIENT_SECRET: Final = Option(
    "kafka.sasl.oauthbearer.client.credentials.client.secret",
    any_text(),
    None,
    "The client's secret, in place of `clientSecret` in the login module.",
    secret=True,
)
SCOPE: Final = Option(
    "kafka.sasl.oauthbearer.scope",
    any_text(),
    None,
    "The scope of the token, in place of `scope` in the login module.",
)
URL_ENCODE: Final = Option(
    "kafka.sasl.oauthbearer.header.urlencode",
    BOOLEAN,
    "false",
    "URL-encode the client's id and secret before they are sent, as Kafka 4.1 can.",
)
PROVIDER: Final = Option(
    token_function.OPTION,
    any_text("`module:function`"),
    None,
    "Your own function that returns tokens, in place of a token endpoint; see "
    "[authentication](authentication.md).",
)
HANDLER: Final = Option(
    "kafka.sasl.login.callback.handler.class",
    _java_class(*_HANDLERS),
    None,
    "Accepted, also with `kafkashaded.` before it; this source has its own implementation. Other classes are refused.",
)
RETRIEVER: Final = Option(
    "kafka.sasl.oauthbearer.jwt.retriever.class",
    _java_class(*_RETRIEVERS),
    None,
    "Accepted, also with `kafkashaded.` before it, but not used: this source has its own implementation.",
)
TIMEOUT: Final = Option(
    "kafka.sasl.login.read.timeout.ms",
    whole(most=MOST_INT),
    "10000",
    "How long one request for a token may take.",
)
RETRY_BACKOFF: Final = Option(
    "kafka.sasl.login.retry.backoff.ms",
    whole(most=MOST_INT),
    "100",
    "How long to wait before a request for a token is repeated; doubled with each try.",
)
RETRY_MAX: Final = Option(
    "kafka.sasl.login.retry.backoff.max.ms",
    whole(most=MOST_INT),
    "10000",
    "How long requests for a token are repeated before the connection fails.",
)

OAUTH_OPTIONS: Final[tuple[Option[Any], ...]] = (
    ENDPOINT,
    CLIENT_ID,
    CLIENT_SECRET,
    SCOPE,
    URL_ENCODE,
    PROVIDER,
    HANDLER,
    RETRIEVER,
    TIMEOUT,
    RETRY_BACKOFF,
    RETRY_MAX,
)


def parse_oauth(options: Mapping[str, str], jaas: str | None) -> OAuthBearer:
    """Returns the credentials of mechanism OAUTHBEARER.

    Args:
        options: The options of the query, by their names in lower case.
        jaas: The text of ``kafka.sasl.jaas.config``; ``None`` if it is not given.

    Raises:
        OptionError: A value is wrong, missing or given twice.
    """
    handler = HANDLER.get(options)
    RETRIEVER.get(options)
    given = {} if jaas is None else parse_jaas(jaas, OAuthBearer.mechanism, _MODULE)
    # The protocol of connections to the token endpoint, which agrees on the newest version of TLS by itself.
    given.pop("ssl.protocol", None)
    if handler == LOGIN_HANDLER:
        return OAuthBearer(_msk_token(options, given))
    extensions = _extensions(given)
    function = PROVIDER.get(options)
    if function is None:
        return OAuthBearer(_endpoint(options, given), extensions)
    for option in (ENDPOINT, CLIENT_ID, CLIENT_SECRET, SCOPE):
        if option.is_given(options):
            raise OptionError(f"Options '{option.name}' and '{PROVIDER.name}' cannot be given together.")
    return OAuthBearer(TokenFunction(function.strip()), extensions, PROVIDER.name)


def _msk_token(options: Mapping[str, str], given: Mapping[str, str]) -> MskToken:
    for option in (ENDPOINT, PROVIDER):
        if option.is_given(options):
            raise OptionError(
                f"Options '{HANDLER.name}' {LOGIN_HANDLER} and '{option.name}' cannot be given together."
            )
    return MskToken(aws_settings(given), region_in(options.get("kafka.bootstrap.servers", "")))


def _endpoint(options: Mapping[str, str], given: Mapping[str, str]) -> TokenProvider:
    url = ENDPOINT.get(options)
    if url is None:
        raise OptionError(
            f"With option 'kafka.sasl.mechanism' OAUTHBEARER, option '{ENDPOINT.name}' or option "
            f"'{PROVIDER.name}' must be given."
        )
    return TokenEndpoint(
        url,
        _needed(CLIENT_ID, options, given, "clientId"),
        _needed(CLIENT_SECRET, options, given, "clientSecret"),
        SCOPE.get(options) or given.get("scope"),
        URL_ENCODE.require(options),
        TIMEOUT.require(options),
        RETRY_BACKOFF.require(options),
        RETRY_MAX.require(options),
    )


def _needed(option: Option[str], options: Mapping[str, str], given: Mapping[str, str], name: str) -> str:
    found = option.get(options) or given.get(name)
    if not found:
        raise OptionError(
            f"With option '{ENDPOINT.name}', option '{_JAAS}' must set {name}, such as "
            f'{_PACKAGE}{_MODULE} required clientId="..." clientSecret="..."; or set option \'{option.name}\'.'
        )
    return found


def _extensions(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the SASL extensions (RFC 7628, section 3.1). Other options of the login module are an error."""
    found = []
    for name, value in sorted(given.items()):
        if name in ("clientId", "clientSecret", "scope"):
            continue
        extension = name.removeprefix(_EXTENSION)
        well_formed = _EXTENSION_NAME.fullmatch(extension) and _EXTENSION_VALUE.fullmatch(value)
        if name.startswith("ssl."):
            raise OptionError(
                f"Option '{_JAAS}' sets {name}, which is not supported: the certificate of a token endpoint must be "
                "trusted by the machine."
            )
        if extension == name or extension == "auth" or not well_formed:
            raise OptionError(
                f"Option '{_JAAS}' sets {name}, which is not supported or not well formed. Allowed: clientId, "
                "clientSecret, scope, and extension_<letters> with printable characters."
            )
        found.append((extension, value))
    return tuple(found)
