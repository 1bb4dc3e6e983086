"""Asks a schema registry for schemas (the REST API of Confluent's Schema Registry)."""

from __future__ import annotations

import json
import ssl
import time
import urllib.request
from collections import deque
from dataclasses import dataclass
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote

from flip27_stream.connectors.kafka.schema_registry.credentials import RegistryCredentials
from flip27_stream.connectors.kafka.tls.key_stores import TrustStore
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions
from flip27_stream.errors import AuthenticationError, ConnectorError, OptionError, UnreachableError
from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.http_calls import HttpRefusal, call

PREFIX: Final = "value.schema.registry."
"""The beginning of the names of all options of a schema registry."""

_LARGEST_ANSWER: Final = 1 << 24
_LONGEST_CALL_S: Final = 10.0
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0
_UNKNOWN: Final = {40401: "subject", 40402: "version", 40403: "schema"}
"""The error codes of the API for a missing schema, subject or version."""


class UnknownSchemaError(LookupError):
    """The registry does not have the requested schema, subject or version."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A schema registry. Hashable and picklable; no ``repr`` shows a secret.

    Attributes:
        urls: The addresses of its servers; a server that fails is followed by the next.
        credentials: The credentials; ``None`` without authentication.
        headers: Further headers of requests, as names and values.
        trust: The trusted certificates; ``None`` for the certificates that this machine trusts.
        timeout_ms: The time limit of all tries of one request, in ms.
    """

    urls: tuple[str, ...]
    credentials: RegistryCredentials | None = None
    headers: tuple[tuple[str, str], ...] = ()
    trust: TrustStore | None = None
    timeout_ms: int = 30_000

    def get(self, *path: str) -> dict[str, Any]:
        """Returns the JSON object at a path. Repeats the request while servers are slow, down or fail.

        Args:
            path: The parts of the path, which are quoted.

        Raises:
            AuthenticationError: The registry refuses the credentials, or its certificate is not trusted.
            ConnectorError: The address is not that of a schema registry.
            UnknownSchemaError: The registry does not have the requested schema, subject or version.
            UnreachableError: The registry did not answer within the time limit.
        """
        deadline = time.monotonic() + self.timeout_ms / 1000
        urls = deque(f"{url}/{'/'.join(quote(part, safe='') for part in path)}" for url in self.urls)
        tried = 0
        while True:
            try:
                return self._answer(urls[0], deadline)
            except OSError as error:
                wait = doubled_pause(_FIRST_WAIT_S, _LONGEST_WAIT_S, tried // len(urls))
                tried += 1
                if time.monotonic() + wait >= deadline:
                    raise UnreachableError(
                        f"The schema registry did not answer within {self.timeout_ms} ms (option '{PREFIX}timeout'); "
                        f"the last try failed at {urls[0]}: {getattr(error, 'reason', None) or error}. Check option "
                        f"'{PREFIX}url', and that this machine reaches it."
                    ) from None
            urls.rotate(-1)
            if tried % len(urls) == 0:
                time.sleep(wait)

    def _answer(self, url: str, deadline: float) -> dict[str, Any]:
        given = self.credentials
        authorization = None if given is None else given.authorization()
        try:
            answer = self._call(url, authorization, deadline)
        except HttpRefusal as refusal:
            if refusal.code != 401 or given is None or not given.refused(authorization or ""):
                raise _refused(url, refusal) from None
            try:
                answer = self._call(url, given.authorization(), deadline)
            except HttpRefusal as again:
                raise _refused(url, again) from None
        found = _object(answer)
        if found is None or not isinstance(found.get("schema"), str):
            raise ConnectorError(
                f"The answer of {url} has no 'schema', so this is not the API of a schema registry. {_CHECK_URL}"
            )
        return found

    def _call(self, url: str, authorization: str | None, deadline: float) -> bytes:
        headers = dict(self.headers) | {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        context = SslOptions(self.trust).context() if url.startswith("https:") else None
        left = max(_FIRST_WAIT_S, min(_LONGEST_CALL_S, deadline - time.monotonic()))
        try:
            return call(urllib.request.Request(url, headers=headers), left, _LARGEST_ANSWER, context)
        except URLError as error:
            if isinstance(error.reason, ssl.SSLCertVerificationError):
                raise AuthenticationError(
                    f"The certificate of the schema registry at {url} is not trusted: {error.reason.verify_message}. "
                    f"Check option '{PREFIX}ssl.truststore.location'."
                ) from None
            raise


_CHECK_URL: Final = f"Check option '{PREFIX}url'."


def _object(answer: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refused(url: str, refusal: HttpRefusal) -> Exception:
    """Returns the error of a refusal. It has no part of the answer, which may repeat a secret."""
    said = (_object(refusal.body) or {}).get("error_code")
    if refusal.code == 404 and said in _UNKNOWN:
        return UnknownSchemaError(f"the registry does not have the requested {_UNKNOWN[said]} ({url})")
    if refusal.code in (401, 403):
        return AuthenticationError(
            f"The schema registry refused {url} with {refusal.code}. Check options '{PREFIX}basic.auth.user.info', "
            f"'{PREFIX}bearer.auth.token' and '{PREFIX}bearer.auth.token.provider', and that the user may read it."
        )
    if 300 <= refusal.code < 400:
        return OptionError(
            f"The server at {url} redirects to another address, which is not followed. Give that address: option "
            f"'{PREFIX}url'."
        )
    return ConnectorError(
        f"The server at {url} answers {refusal.code}, which a schema registry does not. {_CHECK_URL}"
    )
