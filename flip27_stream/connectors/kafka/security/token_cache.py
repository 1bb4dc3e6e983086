"""Bearer tokens, one for each source of tokens in a process, renewed ahead of their expiry."""

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
"""Of a token's life time: Java's ``sasl.login.refresh.window.factor``."""

_USABLE_UNTIL = 0.95
"""Of a token's life time. After that a new connection waits for a new token."""

_NEW_S = 60.0
"""A token of this age that a broker refuses is wrong; an older one may have been revoked."""


@dataclass(frozen=True)
class Token:
    """A bearer token.

    Attributes:
        value: the token itself; never shown.
        expires_at: when it expires, in seconds since the epoch; ``None`` where that is not known.
    """

    value: str = field(repr=False)
    expires_at: float | None = None


class TokenProvider(Protocol):
    """A source of bearer tokens. It is hashable: equal sources share a token."""

    def fetch(self) -> Token:
        """A new token.

        Raises:
            AuthenticationError: the source refused.
            OSError: the source cannot be reached now.
        """
        ...


@dataclass
class _Kept:
    """The token of a source, with the times (seconds since the epoch) at which it was fetched and has to be renewed."""

    token: Token
    fetched_at: float
    renew_at: float
    usable_until: float
    renewing: bool = False


class TokenCache:
    """The tokens of a process.

    A token is used until 95 % of its life time. From 80 % on it is renewed in a thread, so that no connection waits.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._fetching: dict[TokenProvider, threading.Lock] = {}
        self._kept: dict[TokenProvider, _Kept] = {}
        self._failed: dict[TokenProvider, tuple[float, Exception]] = {}

    def token(self, provider: TokenProvider) -> Token:
        """The token of a source; a new one where there is no usable one. Errors as :meth:`TokenProvider.fetch`."""
        kept = self._usable(provider)
        if kept is None:
            began = self._clock()
            with self._lock:
                fetching = self._fetching.setdefault(provider, threading.Lock())
            with fetching:  # connections that waited meanwhile get the same token, or the same error
                kept = self._usable(provider) or self._fetch_unless_failed(provider, began)
        if self._clock() >= kept.renew_at:
            self._renew(provider, kept)
        return kept.token

    def refused(self, provider: TokenProvider) -> bool:
        """Forget the token of a source, which a broker refused.

        Returns:
            Whether a new token may be accepted: the refused one was not new.
        """
        with self._lock:
            kept = self._kept.pop(provider, None)
        return kept is not None and self._clock() - kept.fetched_at > _NEW_S

    def _usable(self, provider: TokenProvider) -> _Kept | None:
        with self._lock:
            kept = self._kept.get(provider)
        return kept if kept is not None and self._clock() < kept.usable_until else None

    def _fetch_unless_failed(self, provider: TokenProvider, since: float) -> _Kept:
        failed_at, error = self._failed.get(provider, (-math.inf, None))
        if error is not None and failed_at > since:
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
        kept = _Kept(token, now, now + _RENEW_AT * life, now + _USABLE_UNTIL * life)
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
        except ConnectorError:  # no thread can be had; the next connection tries again
            kept.renewing = False

    def _try_renew(self, provider: TokenProvider, kept: _Kept) -> None:
        try:
            self._fetch(provider)
        except Exception as error:  # noqa: BLE001 - the token is good for some time; then the error is raised
            log.warning("A token for SASL/OAUTHBEARER was not renewed: %s", error)
        finally:
            kept.renewing = False


TOKENS = TokenCache()
"""The tokens of this process."""


def jwt_expiry(token: str) -> float | None:
    """When a JSON Web Token expires, in seconds since the epoch; ``None`` where the token does not say so."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError, RecursionError):
        return None
    expiry = claims.get("exp") if isinstance(claims, Mapping) else None
    return float(expiry) if isinstance(expiry, (int, float)) and not isinstance(expiry, bool) else None
