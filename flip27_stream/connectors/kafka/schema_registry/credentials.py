"""The credentials of a client of a schema registry: user name and password, or a bearer token."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final, Protocol

from flip27_stream.connectors.kafka.sasl.oauthbearer import TOKEN_FORM
from flip27_stream.connectors.kafka.tokens.token_cache import TOKENS, TokenProvider
from flip27_stream.errors import AuthenticationError

_BEARER: Final = "Bearer "


class RegistryCredentials(Protocol):
    """The credentials of a client. Hashable and picklable."""

    def authorization(self) -> str:
        """Returns the value of the header ``Authorization``.

        Raises:
            AuthenticationError: The provider returns no token.
            OSError: The provider of tokens cannot be reached now.
        """
        ...

    def refused(self, authorization: str) -> bool:
        """Records that the registry refused a value of the header. Returns whether another request may succeed."""
        ...


@dataclass(frozen=True)
class FixedCredentials:
    """Credentials that do not change.

    Attributes:
        header: The value of the header ``Authorization``, which is never shown.
    """

    header: str = field(repr=False)

    @classmethod
    def basic(cls, user_info: str) -> FixedCredentials:
        """Returns the credentials for a user name and a password, written ``user:password``."""
        return cls("Basic " + base64.b64encode(user_info.encode()).decode())

    @classmethod
    def bearer(cls, token: str) -> FixedCredentials:
        """Returns the credentials for a bearer token."""
        return cls(f"{_BEARER}{token}")

    def authorization(self) -> str:
        return self.header

    def refused(self, authorization: str) -> bool:
        return False


@dataclass(frozen=True)
class RenewedToken:
    """A bearer token that is renewed before it expires.

    Attributes:
        provider: Provides tokens.
        option: The option that names the provider, for messages.
    """

    provider: TokenProvider
    option: str

    def authorization(self) -> str:
        token = TOKENS.token(self.provider).value
        if not TOKEN_FORM.fullmatch(token):
            raise AuthenticationError(
                "The token for the schema registry has characters that a bearer token cannot have. Check option "
                f"'{self.option}'."
            )
        return f"{_BEARER}{token}"

    def refused(self, authorization: str) -> bool:
        return TOKENS.refused(self.provider, authorization.removeprefix(_BEARER))
