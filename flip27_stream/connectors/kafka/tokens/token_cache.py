"""Caches bearer tokens, one for each token provider in a process, and renews them before they expire."""

from __future__ import annotations

import base64
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from flip27_stream.errors import ConnectorError
from flip27_stream.threads import start

log = logging.getLogger(__name__)

_RENEW_AT = 0.8
"""The share of a token's life time after which it is renewed (Java's ``sasl.login.refresh.window.factor``)."""

_USABLE_UNTIL = 0.95
"""The share of a token's life time after which new connections wait for a new token."""

_NEW_S = 60.0
"""The age (s) up to which a refused token counts as wrong. An older token may have been revoked."""


@dataclass(frozen=True)
class Token:
    """A bearer token.

    Attributes:
        value: The token itself, which is never shown.
        expires_at: The time at which it expires, in seconds since the epoch; ``None`` if unknown.
    """

    value: str = field(repr=False)
    expires_at: float | None = None


class TokenProvider(Protocol):
    """A provider of bearer tokens. It is hashable; equal providers share a token."""

    def fetch(self) -> Token:
        """Returns a new token.

        Raises:
            AuthenticationError: The provider refused the request.
            OSError: The provider cannot be reached now.
        """
        ...


@dataclass
class _Kept:
    """A cached token. Times are in seconds since the epoch.

    Attributes:
        token: The token.
        fetched_at: The time at which it was fetched.
        renew_at: The time from which on it is renewed; infinite for a token that is used for one connection.
        usable_until: The time up to which new connections use it.
        renewing: Whether a thread is renewing it.
    """

    token: Token
    fetched_at: float
    renew_at: float
    usable_until: float
    renewing: bool = False


class TokenCache:
    """The tokens of a process.

    A token is used until 95 % of its life time has passed. After 80 % it is renewed in a thread, so that no connection
    has to wait. A token or an error with a time in the future is not used: the clock was set back.

    Args:
        clock: Returns the time in seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._fetching: dict[TokenProvider, threading.Lock] = {}
        self._kept: dict[TokenProvider, _Kept] = {}
        self._failed: dict[TokenProvider, tuple[float, Exception]] = {}

    def token(self, provider: TokenProvider) -> Token:
        """Returns the cached token of a provider, or a new one if none is usable.

        The errors are those of :meth:`TokenProvider.fetch`.
        """
        kept = self._usable(provider)
        if kept is None:
            began = self._clock()
            with self._lock:
                fetching = self._fetching.setdefault(provider, threading.Lock())
            with fetching:  # Connections that wait here get the same token or the same error.
                kept = self._usable(provider) or self._fetch_unless_failed(provider, began)
        if self._clock() >= kept.renew_at:
            self._renew(provider, kept)
        return kept.token

    def refused(self, provider: TokenProvider, token: str) -> bool:
        """Drops a token, which a broker refused.

        All brokers may refuse it at once. The first refusal drops it, and later refusals do not drop its successor.

        Args:
            provider: The provider of the token.
            token: The value of the token.

        Returns:
            Whether a new token may be accepted, because the refused one was not new or was dropped before.
        """
        with self._lock:
            kept = self._kept.get(provider)
            if kept is None or kept.token.value != token:
                return True
            del self._kept[provider]
        return not 0 <= self._clock() - kept.fetched_at <= _NEW_S

    def _usable(self, provider: TokenProvider) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(provider)
        return kept if kept is not None and kept.fetched_at <= self._clock() < kept.usable_until else None

    def _fetch_unless_failed(self, provider: TokenProvider, since: float) -> _Kept:
        failed_at, error = self._failed.get(provider, (-math.inf, None))
        if error is not None and since < failed_at <= self._clock():
            raise error
        try:
            return self._fetch(provider)
        except Exception as error:
            self._failed[provider] = self._clock(), error
            raise

    def _fetch(self, provider: TokenProvider) -> _Kept:
        now = self._clock()
        token = provider.fetch()
        life = 0.0 if token.expires_at is None else token.expires_at - now
        renew_at = (
            now + _RENEW_AT * life if life > 0 else math.inf
        )  # A token for one connection is not renewed.
        kept = _Kept(token, now, renew_at, now + _USABLE_UNTIL * life)
        with self._lock:
            self._kept[provider] = kept
        return kept

    def _renew(self, provider: TokenProvider, kept: _Kept) -> None:
        with self._lock:
            if kept.renewing or self._kept.get(provider) is not kept:
                return
            kept.renewing = True
        try:
            start(
                threading.Thread(
                    target=self._try_renew, args=(provider, kept), name="flip27-token", daemon=True
                )
            )
        except ConnectorError:  # No thread could be started; the next connection tries again.
            kept.renewing = False

    def _try_renew(self, provider: TokenProvider, kept: _Kept) -> None:
        try:
            self._fetch(provider)
        except Exception as error:  # noqa: BLE001 - the token is still usable; later the error is raised
            log.warning("A token for SASL/OAUTHBEARER was not renewed: %s", error)
        finally:
            kept.renewing = False


TOKENS = TokenCache()
"""The tokens of this process."""


def jwt_expiry(token: str) -> float | None:
    """Returns the time at which a JSON Web Token expires (s since the epoch); ``None`` if the token has none."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError, RecursionError):
        return None
    expiry = claims.get("exp") if isinstance(claims, Mapping) else None
    return float(expiry) if isinstance(expiry, (int, float)) and not isinstance(expiry, bool) else None
