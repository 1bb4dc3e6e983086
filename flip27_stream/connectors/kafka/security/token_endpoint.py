"""Fetches tokens from an OAuth 2.0 server with the client credentials grant (RFC 6749, section 4.4; KIP-768)."""

from __future__ import annotations

import base64
import json
import math
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from flip27_stream.connectors.kafka.security.token_cache import Token, jwt_expiry
from flip27_stream.errors import AuthenticationError, shortened

_LARGEST_ANSWER = 1 << 20
_CHUNK = 1 << 14
_TRY_AGAIN = frozenset({408, 425, 429})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects, which would send the credentials to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


@dataclass(frozen=True)
class TokenEndpoint:
    """The token endpoint of an OAuth server.

    Attributes:
        url: the address of the endpoint.
        client_id: the id of the client.
        client_secret: the secret of the client.
        scope: the scope of tokens; ``None`` for the default of the server.
        url_encode: whether id and secret are URL-encoded in the header (KIP-1025).
        timeout_ms: the time limit of one request, in ms.
        retry_ms: the pause before the first retry, in ms; it doubles with each retry.
        retry_max_ms: the time limit of all tries together, in ms.
    """

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    url_encode: bool = False
    timeout_ms: int = 10_000
    retry_ms: int = 100
    retry_max_ms: int = 10_000

    def fetch(self) -> Token:
        """Returns a new token.

        Raises:
            AuthenticationError: the server refused, or its response has no token.
            OSError: the server cannot be reached, does not respond in time, or responds with a temporary error.
        """
        deadline = time.monotonic() + self.retry_max_ms / 1000
        wait = self.retry_ms / 1000
        while True:
            try:
                return self._token(self._answer())
            except OSError as error:
                if time.monotonic() + wait >= deadline:
                    raise ConnectionAbortedError(
                        f"no token from {self.place}: {self._without_secret(error)}"
                    ) from None
            time.sleep(wait)
            wait *= 2

    @property
    def place(self) -> str:
        """The address of the server, without user name and query."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def _answer(self) -> bytes:
        deadline = time.monotonic() + self.timeout_ms / 1000
        opener = urllib.request.build_opener(_NoRedirects)
        try:
            with opener.open(self._request(), timeout=self.timeout_ms / 1000) as response:
                return _body(response, deadline)
        except urllib.error.HTTPError as error:
            with error:
                if error.code >= 500 or error.code in _TRY_AGAIN:
                    raise ConnectionAbortedError(f"it answers {error.code} {error.reason}") from None
                raise self._refused(error, _body(error, deadline)) from None
        except HTTPException as error:
            raise ConnectionAbortedError(f"it does not speak HTTP: {error!r}") from None

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
                "'kafka.sasl.oauthbearer.token.endpoint.url'."
            )
        expiry = jwt_expiry(token.strip())
        seconds = fields.get("expires_in")
        if expiry is None and isinstance(seconds, (int, float)) and math.isfinite(seconds):
            expiry = time.time() + seconds
        return Token(token.strip(), expiry)

    def _refused(self, error: urllib.error.HTTPError, body: bytes) -> AuthenticationError:
        said = shortened(self._without_secret(body.decode("utf-8", "replace").strip()))
        return AuthenticationError(
            f"The token endpoint {self.place} refused client '{self.client_id}' with {error.code} {error.reason}"
            f"{f': {said}' if said else ''}. Check clientId, clientSecret and scope of option 'kafka.sasl.jaas.config' "
            "and option 'kafka.sasl.oauthbearer.token.endpoint.url'."
        )

    def _without_secret(self, text: object) -> str:
        shown = str(text)
        for secret in (self.client_secret, quote_plus(self.client_secret)):
            shown = shown.replace(secret, "(secret)")
        return shown


def _body(response: Any, deadline: float) -> bytes:
    """Returns the bytes of a response.

    Raises:
        OSError: the response is too large, or does not end in time, even if the server goes on sending bytes.
    """
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > _LARGEST_ANSWER or time.monotonic() > deadline:
            raise TimeoutError("its answer does not end")
    return b"".join(parts)
