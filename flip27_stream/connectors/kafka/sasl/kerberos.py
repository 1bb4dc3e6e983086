"""SASL/GSSAPI, the authentication with Kerberos tickets (RFC 4752), by MIT's or Heimdal's library of this machine."""

from __future__ import annotations

import hashlib
import itertools
import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslExchange
from flip27_stream.errors import AuthenticationError
from flip27_stream.extras import check_installed

_NO_LAYER = 1
"""The bit of RFC 4752 for a connection that GSSAPI neither signs nor encrypts; brokers of Kafka only offer this."""

_UNREACHABLE = (2529639068, 2529639132)  # KRB5_KDC_UNREACH, KRB5_REALM_CANT_RESOLVE


@dataclass(frozen=True)
class Kerberos:
    """Kerberos credentials: the principal, and the keytab or the ticket cache with its tickets.

    Attributes:
        service: The first part of the principals of the brokers, in ``service/host@REALM``.
        principal: The principal of this client; ``None`` for that of the ticket cache.
        keytab: The path of the file with the key of the principal; ``None`` to use the ticket cache only.
        ticket_cache: The path of the ticket cache; ``None`` for the default one of the machine.
    """

    service: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None

    mechanism: ClassVar[str] = "GSSAPI"
    credentials: ClassVar[str] = "Kerberos ticket"
    option: ClassVar[str] = "kafka.sasl.jaas.config"

    def exchange(self, host: str) -> SaslExchange:
        """Returns a new authentication at a broker. Its principal must have the name ``host``.

        Raises:
            AuthenticationError: No ticket for this client or the broker is available.
            OSError: The Kerberos server cannot be reached now.
        """
        check_installed("gssapi", "kerberos", "SASL/GSSAPI")
        import gssapi
        from gssapi.raw.misc import GSSError

        try:
            broker = gssapi.Name(f"{self.service}@{host}", gssapi.NameType.hostbased_service)
            tickets = TICKETS.cache(self) if self.keytab is not None else ""
            context = gssapi.SecurityContext(
                name=broker, creds=self._credentials(tickets), usage="initiate", mech=gssapi.MechType.kerberos
            )
            return GssapiExchange(context, self, tickets)
        except GSSError as error:
            raise self._refusal(error, host) from error

    def refused(self, exchange: SaslExchange) -> bool:
        """Drops the tickets from the keytab. Returns whether brokers accepted them before and may accept new ones."""
        if self.keytab is None or not isinstance(exchange, GssapiExchange):
            return False
        return TICKETS.drop(self, exchange.tickets)

    def _credentials(self, tickets: str) -> Any:
        import gssapi

        store: dict[str | bytes, str | bytes] = {}
        if self.keytab is not None:
            _check_readable(self.keytab)
            store = {"client_keytab": f"FILE:{self.keytab}", "ccache": tickets}
        elif self.ticket_cache is not None:
            store = {"ccache": f"FILE:{self.ticket_cache}"}
        name = self.principal and gssapi.Name(self.principal, gssapi.NameType.kerberos_principal)
        # With a keytab the library renews tickets when half of their life time is over.
        return gssapi.Credentials(
            name=name or None, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
        )

    def _refusal(self, error: Any, host: str) -> Exception:
        if error.min_code & 0xFFFFFFFF in _UNREACHABLE:
            return ConnectionAbortedError(f"no Kerberos server can be reached for tickets: {error}")
        client = self.principal or "the client"
        place = (
            f"the keytab {self.keytab}" if self.keytab else f"ticket cache {self.ticket_cache or '(default)'}"
        )
        return AuthenticationError(
            f"No Kerberos ticket of {client} for {self.service}/{host} was found in {place}: "
            f"{error}. Check options '{self.option}' and 'kafka.sasl.kerberos.service.name', and KRB5_CONFIG on the "
            "driver and on the executors."
        )


class GssapiExchange:
    """One authentication with GSSAPI. The broker proves that it has the key of its principal.

    Args:
        context: A new security context of the package ``gssapi``.
        kerberos: The credentials.
        tickets: The name of the ticket cache in this process; empty if the tickets are those of the machine.
    """

    def __init__(self, context: Any, kerberos: Kerberos, tickets: str) -> None:
        self.tickets = tickets
        self._context = context
        self._kerberos = kerberos
        self._token: bytes = context.step() or b""
        self._is_last = self._is_done = False

    def auth_bytes(self) -> bytes:
        """Returns the next message of this client."""
        return self._token

    def receive(self, auth_bytes: bytes) -> None:
        """Handles the answer of the broker.

        Raises:
            ValueError: The broker did not prove its identity, or wants to sign or encrypt the connection by GSSAPI.
        """
        from gssapi.raw.misc import GSSError

        if self._is_last:
            TICKETS.accepted(self._kerberos, self.tickets)
            self._is_done = True
            return
        try:
            if self._context.complete:
                self._token, self._is_last = self._answer_to(self._context.unwrap(auth_bytes).message), True
            else:
                self._token = self._context.step(auth_bytes) or b""
        except GSSError as error:
            raise ValueError(str(error)) from error

    def is_done(self) -> bool:
        """Returns whether there is no further message to send."""
        return self._is_done

    def is_authenticated(self) -> bool:
        """Returns whether both sides proved their identity."""
        return self._is_done

    def _answer_to(self, offer: bytes) -> bytes:
        """Returns the choice of no security layer. The broker knows the name of this client from the ticket."""
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise ValueError("the broker requires GSSAPI to sign or encrypt messages, which is not supported")
        return bytes(self._context.wrap(bytes([_NO_LAYER, 0, 0, 0]), False).message)


@dataclass
class _Cache:
    name: str
    accepted: bool = field(default=False)


class Tickets:
    """The ticket caches of this process: one in memory for each principal and keytab."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._caches: dict[Kerberos, _Cache] = {}

    def cache(self, kerberos: Kerberos) -> str:
        """Returns the name of the ticket cache, which may not exist yet."""
        with self._lock:
            if kerberos not in self._caches:
                digest = hashlib.sha256(repr(kerberos).encode()).hexdigest()[:12]
                self._caches[kerberos] = _Cache(f"MEMORY:flip27-{digest}-{next(self._numbers)}")
            return self._caches[kerberos].name

    def accepted(self, kerberos: Kerberos, name: str) -> None:
        """Records that a broker accepted a ticket of the cache ``name``."""
        with self._lock:
            if (cache := self._caches.get(kerberos)) is not None and cache.name == name:
                cache.accepted = True

    def drop(self, kerberos: Kerberos, name: str) -> bool:
        """Drops the ticket cache ``name``, and no successor of it.

        Returns:
            Whether a broker accepted a ticket of it, or it was dropped before, because of another broker.
        """
        with self._lock:
            cache = self._caches.get(kerberos)
            if cache is None or cache.name != name:
                return True
            del self._caches[kerberos]
        return cache.accepted


TICKETS = Tickets()
"""The ticket caches of this process."""


def _check_readable(keytab: str) -> None:
    try:
        with open(keytab, "rb"):
            pass
    except OSError as error:
        raise AuthenticationError(
            f"The keytab {keytab} of option '{Kerberos.option}' cannot be read on this machine: {error.strerror}. It "
            "must be there on the driver and on the executors."
        ) from error
