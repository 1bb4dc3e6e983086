"""Fetches tokens from an OAuth 2.0 server with the client credentials grant (RFC 6749, section 4.4; KIP-768)."""

from __future__ import annotations

import base64
import json
import math
import time
import urllib.request
from dataclasses import dataclass, field
from urllib.parse import quote_plus, urlencode, urlsplit

from flip27_stream.connectors.kafka.tokens.token_cache import Token, jwt_expiry
from flip27_stream.errors import AuthenticationError
from flip27_stream.http_calls import HttpRefusal, call

_LARGEST_ANSWER = 1 << 20
_ERROR_CODES = (
    "access_denied",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "server_error",
    "temporarily_unavailable",
    "unauthorized_client",
    "unsupported_grant_type",
)
"""The error codes of RFC 6749."""


@dataclass(frozen=True)
class TokenEndpoint:
    """The token endpoint of an OAuth server.

    Attributes:
        url: The address of the endpoint.
        client_id: The id of the client.
        client_secret: The secret of the client.
        scope: The scope of tokens; ``None`` for the default of the server.
        url_encode: Whether id and secret are URL-encoded in the header (KIP-1025).
        timeout_ms: The time limit of one request, in ms.
        retry_ms: The pause before the first retry, in ms; it doubles with each retry.
        retry_max_ms: The time limit of all tries together, in ms.
        option: The option with the address, for messages.
        client_options: A text that names the options of the client and the scope, for messages.
    """

    url: str = field(repr=False)  # its query may have a secret
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    url_encode: bool = False
    timeout_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000
    option: str = "kafka.sasl.oauthbearer.token.endpoint.url"
    client_options: str = "clientId, clientSecret and scope of option 'kafka.sasl.jaas.config'"

    def fetch(self) -> Token:
        """Returns a new token.

        Raises:
            AuthenticationError: The server refused the request, or its response has no token.
            OSError: The server cannot be reached, does not respond in time, or responds with a temporary error.
        """
        deadline = time.monotonic() + self.retry_max_ms / 1000
        wait = self.retry_ms / 1000
        while True:
            try:
                return self._token(self._answer())
            except OSError as error:
                if time.monotonic() + wait >= deadline:
                    raise ConnectionAbortedError(f"no token from {self.place}: {error}") from None
            time.sleep(wait)
            wait *= 2

    @property
    def place(self) -> str:
        """The address of the server, without user name and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def _answer(self) -> bytes:
        try:
            return call(self._request(), self.timeout_ms / 1000, _LARGEST_ANSWER)
        except HttpRefusal as refusal:
            raise self._refused(refusal) from None

    def _request(self) -> urllib.request.Request:
        pair = (self.client_id, self.client_secret)
        user, secret = map(quote_plus, pair) if self.url_encode else pair
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        headers = {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode(),
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return urllib.request.Request(self.url, urlencode(form).encode(), headers, method="POST")

    def _token(self, answer: bytes) -> Token:
        try:
            fields = json.loads(answer)
        except (ValueError, RecursionError):
            fields = None
        token = fields.get("access_token") if isinstance(fields, dict) else None
        if not isinstance(token, str) or not token.strip():
            raise AuthenticationError(
                f"The token endpoint {self.place} answered with no 'access_token'. Check option "
                f"'{self.option}'."
            )
        expiry = jwt_expiry(token.strip())
        seconds = fields.get("expires_in")
        if expiry is None and isinstance(seconds, (int, float)) and math.isfinite(seconds):
            expiry = time.time() + seconds
        return Token(token.strip(), expiry)

    def _refused(self, refusal: HttpRefusal) -> AuthenticationError:
        return AuthenticationError(
            f"The token endpoint {self.place} refused client '{self.client_id}' with {refusal.code} "
            f"{refusal.reason}{_error_code(refusal.body)}. Check {self.client_options} and option '{self.option}'."
        )


def _error_code(body: bytes) -> str:
    """Returns the field ``error`` of an error response with a separator (RFC 6749, section 5.2); otherwise "".

    Nothing else of a response is shown, since a server may repeat the request, with the secret in any spelling.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    code = fields.get("error") if isinstance(fields, dict) else None
    return f": {code}" if code in _ERROR_CODES else ""
