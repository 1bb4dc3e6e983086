"""Authentication with a service credential of Unity Catalog (``databricks.serviceCredential``), on Databricks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flip27_stream.connectors.kafka.sasl.msk_iam import MskIam, region_in
from flip27_stream.connectors.kafka.sasl.oauthbearer import OAuthBearer
from flip27_stream.connectors.kafka.sasl.runtime_credentials import MISSING, credential_providers
from flip27_stream.connectors.kafka.tokens.google_token import google_token
from flip27_stream.connectors.kafka.tokens.token_cache import Token
from flip27_stream.errors import AuthenticationError, OptionError
from flip27_stream.options.kinds import text
from flip27_stream.options.option import Option

CREDENTIAL: Final = Option(
    "databricks.serviceCredential",
    text("text", "the name of a service credential"),
    None,
    "A service credential of Unity Catalog to log in with, by SASL_SSL, on a runtime that has service credentials; "
    "see [authentication](authentication.md#a-service-credential-of-databricks).",
)
SCOPE: Final = Option(
    "databricks.serviceCredential.scope",
    text("text", "the scope of tokens"),
    None,
    "The scope of these tokens.",
    default_words="that of the namespace of Event Hubs, or of Google Cloud, in `kafka.bootstrap.servers`",
)
OPTIONS: Final = (CREDENTIAL, SCOPE)

_EVENT_HUBS: Final = (
    ".servicebus.windows.net",
    ".servicebus.usgovcloudapi.net",
    ".servicebus.chinacloudapi.cn",
)
_GOOGLE: Final = ".cloud.goog"
_GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"

_INSTEAD: Final = "Name a function that returns tokens in option 'kafka.sasl.oauthbearer.token.provider'."


@dataclass(frozen=True)
class ServiceCredential:
    """A service credential as a provider of tokens.

    Attributes:
        name: The name of the credential.
        scope: The scope of tokens.
        of_google: Whether the tokens are for brokers of Google Cloud, which require a form of their own.
    """

    name: str
    scope: str
    of_google: bool = False

    def fetch(self) -> Token:
        """Returns a new token.

        Raises:
            AuthenticationError: This process has no service credentials, or the credential gives no token.
            OSError: The runtime or the token service cannot be reached now.
        """
        providers = credential_providers()
        if providers is None:
            raise AuthenticationError(f"This process has no service credentials, as a {MISSING} {_INSTEAD}")
        cloud = "Google Cloud" if self.of_google else "Azure"
        try:
            if self.of_google:
                return google_token(providers(self.name), self.scope)
            found = providers(self.name).get_token(self.scope)
            return Token(found.token, float(found.expires_on))
        except OSError:
            raise
        except ImportError:
            raise AuthenticationError(
                f"Option '{CREDENTIAL.name}' with brokers of Google Cloud needs package google-auth: install it on the "
                "driver and on the executors."
            ) from None
        except Exception as error:  # noqa: BLE001 - code of the runtime, whose text may have a secret in it
            raise AuthenticationError(
                f"The service credential '{self.name}' (option '{CREDENTIAL.name}') gives no token for the scope "
                f"'{self.scope}': {type(error).__name__}. Check its name, the privilege ACCESS on it, and option "
                f"'{SCOPE.name}'. For these brokers it must be a credential of {cloud}."
            ) from None


def parse_service_credential(options: Mapping[str, str]) -> OAuthBearer | MskIam | None:
    """Returns the credentials of option ``databricks.serviceCredential``; ``None`` if it is not given.

    Args:
        options: The options of the query, by their names in lower case.

    Raises:
        OptionError: This runtime has no service credentials, the brokers do not accept their tokens, or other options
            also configure authentication.
    """
    name = CREDENTIAL.get(options)
    if name is None:
        if SCOPE.is_given(options):
            raise OptionError(
                f"Option '{SCOPE.name}' needs option '{CREDENTIAL.name}'. Give both, or leave this one out."
            )
        return None
    other = next((option for option in sorted(options) if option.startswith("kafka.sasl.")), None)
    if other is not None:
        raise OptionError(
            f"Options '{CREDENTIAL.name}' and '{other}' cannot be given together: the service credential already "
            "determines the authentication."
        )
    if options.get("kafka.security.protocol", "SASL_SSL").strip().upper() != "SASL_SSL":
        raise OptionError(
            f"With option '{CREDENTIAL.name}', option 'kafka.security.protocol' must be SASL_SSL, or be left out."
        )
    if credential_providers() is None:
        raise OptionError(f"Option '{CREDENTIAL.name}' needs a {MISSING} {_INSTEAD}")
    host = _first_host(options)
    if region_in(host) is not None and not SCOPE.is_given(options):
        return MskIam(service_credential=name)
    scope = SCOPE.get(options) or _default_scope(host)
    return OAuthBearer(ServiceCredential(name, scope, host.endswith(_GOOGLE)), (), CREDENTIAL.name)


def _first_host(options: Mapping[str, str]) -> str:
    return options.get("kafka.bootstrap.servers", "").split(",")[0].strip().rpartition(":")[0]


def _default_scope(host: str) -> str:
    if host.endswith(_GOOGLE):
        return _GOOGLE_SCOPE
    if not host.endswith(_EVENT_HUBS):
        raise OptionError(
            f"Option '{CREDENTIAL.name}' needs option '{SCOPE.name}', unless option 'kafka.bootstrap.servers' is a "
            "namespace of Azure Event Hubs, or names a broker of Amazon MSK or of Google Cloud."
        )
    return f"https://{host}/.default"
