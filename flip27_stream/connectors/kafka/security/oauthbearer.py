"""SASL/OAUTHBEARER: authentication by a bearer token (RFC 7628, KIP-255)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from flip27_stream.connectors.kafka.security.token_cache import TOKENS, TokenProvider
from flip27_stream.errors import AuthenticationError

_TOKEN = re.compile(r"[-._~+/A-Za-z0-9]+=*")
"""RFC 6750, section 2.1: a token has no character that ends the field of the message that it stands in."""


class OAuthBearerExchange:
    """One authentication with a token.

    Args:
        token: the token.
        extensions: names and values that go with it.
    """

    def __init__(self, token: str, extensions: Sequence[tuple[str, str]]) -> None:
        fields = [("auth", f"Bearer {token}"), *extensions]
        self._message = "n,,\x01" + "".join(f"{name}={value}\x01" for name, value in fields) + "\x01"
        self._is_refused = self._is_done = False

    def auth_bytes(self) -> bytes:
        """The token; after an error of the broker, the word that ends the exchange."""
        return b"\x01" if self._is_refused else self._message.encode()

    def receive(self, auth_bytes: bytes) -> None:
        """Take in the broker's answer: nothing, or the error as JSON, which it repeats as it refuses."""
        if self._is_refused:
            raise ValueError("the broker did not end an authentication that it refused")
        self._is_refused, self._is_done = bool(auth_bytes), not auth_bytes

    def is_done(self) -> bool:
        return self._is_done

    def is_authenticated(self) -> bool:
        return self._is_done


@dataclass(frozen=True)
class OAuthBearer:
    """Credentials that are a token.

    Attributes:
        provider: where tokens are from.
        extensions: names and values that go to the broker with the token, such as ``logicalCluster``.
        option: the option that the credentials are from, for messages.
    """

    provider: TokenProvider
    extensions: tuple[tuple[str, str], ...] = ()
    option: str = "kafka.sasl.jaas.config"

    mechanism: ClassVar[str] = "OAUTHBEARER"
    credentials: ClassVar[str] = "token"

    def exchange(self, host: str) -> OAuthBearerExchange:
        """A new authentication.

        Raises:
            AuthenticationError: there is no token, or what there is cannot be one.
            OSError: the source of tokens cannot be reached now.
        """
        token = TOKENS.token(self.provider)
        if not _TOKEN.fullmatch(token.value):
            raise AuthenticationError(
                f"The token for SASL/OAUTHBEARER has characters that a bearer token cannot have. Check option "
                f"'{self.option}'."
            )
        return OAuthBearerExchange(token.value, self.extensions)

    def refused(self) -> bool:
        """Forget the token; whether another may be accepted."""
        return TOKENS.refused(self.provider)
