"""SASL/OAUTHBEARER, the authentication with a bearer token (RFC 7628, KIP-255)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslExchange
from flip27_stream.connectors.kafka.tokens.token_cache import TOKENS, TokenProvider
from flip27_stream.errors import AuthenticationError

TOKEN_FORM = re.compile(r"[-._~+/A-Za-z0-9]+=*")
"""The form of a token (RFC 6750, section 2.1), which has no character that would end the field of the message."""


class OAuthBearerExchange:
    """One authentication with a token.

    Args:
        token: The token.
        extensions: The SASL extensions, as names and values.
    """

    def __init__(self, token: str, extensions: Sequence[tuple[str, str]]) -> None:
        self.token = token
        fields = [("auth", f"Bearer {token}"), *extensions]
        self._message = "n,,\x01" + "".join(f"{name}={value}\x01" for name, value in fields) + "\x01"
        self._is_refused = self._is_done = False

    def auth_bytes(self) -> bytes:
        """Returns the message with the token; after an error of the broker, the byte that ends the exchange."""
        return b"\x01" if self._is_refused else self._message.encode()

    def receive(self, auth_bytes: bytes) -> None:
        """Handles the answer of the broker, which is empty for success, or an error as JSON.

        Raises:
            ValueError: The broker goes on with an exchange after an error.
        """
        if self._is_refused:
            raise ValueError("the broker did not end an authentication that it refused")
        self._is_refused, self._is_done = bool(auth_bytes), not auth_bytes

    def is_done(self) -> bool:
        return self._is_done

    def is_authenticated(self) -> bool:
        return self._is_done


@dataclass(frozen=True)
class OAuthBearer:
    """Credentials that are a bearer token.

    Attributes:
        provider: Provides tokens.
        extensions: The SASL extensions that are sent with the token, such as ``logicalCluster``.
        option: The option with the credentials, for messages.
    """

    provider: TokenProvider
    extensions: tuple[tuple[str, str], ...] = ()
    option: str = "kafka.sasl.jaas.config"

    mechanism: ClassVar[str] = "OAUTHBEARER"
    credentials: ClassVar[str] = "token"

    def exchange(self, host: str) -> OAuthBearerExchange:
        """Returns a new authentication.

        Raises:
            AuthenticationError: The provider returns no token, or the token has an invalid character.
            OSError: The provider of tokens cannot be reached now.
        """
        token = TOKENS.token(self.provider)
        if not TOKEN_FORM.fullmatch(token.value):
            raise AuthenticationError(
                f"The token for SASL/OAUTHBEARER has characters that a bearer token cannot have. Check option "
                f"'{self.option}'."
            )
        return OAuthBearerExchange(token.value, self.extensions)

    def refused(self, exchange: SaslExchange) -> bool:
        """Drops the token, which a broker refused. Returns whether a new one may be accepted."""
        return isinstance(exchange, OAuthBearerExchange) and TOKENS.refused(self.provider, exchange.token)
