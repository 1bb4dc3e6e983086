"""Tokens for Managed Service for Apache Kafka of Google Cloud, in the form of Google's ``GcpLoginCallbackHandler``."""

from __future__ import annotations

import base64
import json
import time
from datetime import timezone
from importlib import import_module
from typing import Any, Final

from flip27_stream.connectors.kafka.tokens.token_cache import Token

_HEADER: Final = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}


def google_token(credentials: Any, scope: str) -> Token:
    """Returns a token that brokers of the service accept: header, claims and access token, each in base64.

    Args:
        credentials: The ``google.auth.credentials.Credentials`` of a service account.
        scope: The scope of the access token.

    Raises:
        ImportError: Package google-auth is not installed.
        ConnectionError: The token service cannot be reached now, or asks for another attempt.
        AttributeError: The credentials are not those of a service account.
        google.auth.exceptions.RefreshError: The token service refused the request.
    """
    auth = import_module("google.auth.credentials")
    unreachable = import_module("google.auth.exceptions").TransportError
    refused = import_module("google.auth.exceptions").GoogleAuthError
    credentials = auth.with_scopes_if_required(credentials, [scope])
    try:
        credentials.refresh(import_module("google.auth.transport.requests").Request())
    except refused as error:
        if isinstance(error, unreachable) or isinstance(error.__cause__, unreachable) or error.retryable:
            raise ConnectionError(f"Google's token service was not reached: {type(error).__name__}") from None
        raise
    expires_at = credentials.expiry.replace(tzinfo=timezone.utc).timestamp()
    claims = {
        "iss": "Google",
        "sub": credentials.service_account_email,
        "scope": "kafka",
        "iat": int(time.time()),
        "exp": int(expires_at),
    }
    parts = json.dumps(_HEADER), json.dumps(claims), credentials.token
    value = ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)
    return Token(value, expires_at)
