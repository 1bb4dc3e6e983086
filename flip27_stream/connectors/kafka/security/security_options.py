"""The options of encryption and authentication, as values.

The values travel to the executors, so they are small, hashable and picklable; stores are opened and contexts built
where a connection is made. No secret is in a ``repr``, so none gets into a log or an error through one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, TLSVersion
from typing import ClassVar, Protocol

from flip27_stream.connectors.kafka.security.key_stores import KeyStore, TrustStore


@dataclass(frozen=True)
class SslOptions:
    """The options of TLS.

    Attributes:
        trust: ``None`` for the certificate authorities that this machine trusts.
        keys: ``None`` where brokers do not ask for a client's certificate.
        check_hostname: a broker's certificate must name the host that was connected to.
        least: the oldest version of the protocol that is spoken.
        most: the newest.
    """

    trust: TrustStore | None = None
    keys: KeyStore | None = None
    check_hostname: bool = True
    least: TLSVersion = TLSVersion.TLSv1_2
    most: TLSVersion = TLSVersion.TLSv1_3

    def context(self) -> SSLContext:
        """A new context.

        Raises:
            OptionError: a store cannot be read or opened, or does not hold a certificate or key.
        """
        context = SSLContext(PROTOCOL_TLS_CLIENT)
        context.minimum_version, context.maximum_version = self.least, self.most
        context.check_hostname = self.check_hostname
        if self.trust is None:
            context.load_default_certs()
        else:
            self.trust.load_into(context)
        if self.keys is not None:
            self.keys.load_into(context)
        return context


class SaslExchange(Protocol):
    """One authentication under way: tokens of this client and answers of the broker take turns."""

    def auth_bytes(self) -> bytes:
        """The next token of this client."""
        ...

    def receive(self, auth_bytes: bytes) -> object:
        """Take in the broker's answer.

        Raises:
            ValueError, LookupError: the answer does not prove that the broker knows the credentials.
        """
        ...

    def is_done(self) -> bool:
        """Whether there is no token to send any more."""
        ...

    def is_authenticated(self) -> bool:
        """Whether the broker accepted the credentials, and proved who it is where the mechanism has it."""
        ...


class SaslCredentials(Protocol):
    """What a client proves to a broker, and by which mechanism. Hashable and picklable."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        ...

    @property
    def credentials(self) -> str:
        """What is proven, for messages."""
        ...

    @property
    def option(self) -> str:
        """The option that the credentials are from, for messages."""
        ...

    def exchange(self, host: str) -> SaslExchange:
        """A new authentication at the broker that was reached by the name ``host``."""
        ...

    def refused(self) -> bool:
        """Take note that a broker refused; whether a new connection may be let in all the same."""
        ...


@dataclass(frozen=True)
class SaslOptions:
    """A user name and password, and how they are proven: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    credentials: ClassVar[str] = "user name and password"
    """What is proven, for messages."""
    option: ClassVar[str] = "kafka.sasl.jaas.config"
    """The option that the credentials are from, for messages."""

    def exchange(self, host: str) -> SaslExchange:
        """A new authentication at the broker that was reached by the name ``host``."""
        # Only a process that connects needs the client.
        from flip27_stream.connectors.kafka.kafka_python.sasl_mechanisms import password_exchange

        exchange: SaslExchange = password_exchange(self.mechanism, self.username, self.password)
        return exchange

    def refused(self) -> bool:
        """False: a password stays what it is."""
        return False


@dataclass(frozen=True)
class SecurityOptions:
    """The options of encryption and authentication of a connection.

    Attributes:
        protocol: ``security.protocol`` of Java's client.
        ssl: for SSL and SASL_SSL, else ``None``.
        sasl: for SASL_PLAINTEXT and SASL_SSL, else ``None``.
    """

    protocol: str = "PLAINTEXT"
    ssl: SslOptions | None = None
    sasl: SaslCredentials | None = None

    def ssl_context(self) -> SSLContext | None:
        """A new context; ``None`` where connections are not encrypted.

        Raises:
            OptionError: as :meth:`SslOptions.context`.
        """
        return None if self.ssl is None else self.ssl.context()
