"""The checked options of encryption and authentication.

They are sent to the executors, so they are small, hashable and picklable. Stores are opened and contexts are made when
a connection is made. No ``repr`` shows a secret, so none gets into a log or an error by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, TLSVersion
from typing import ClassVar, Protocol

from flip27_stream.connectors.kafka.security.tls.key_stores import KeyStore, TrustStore


@dataclass(frozen=True)
class SslOptions:
    """The options of TLS.

    Attributes:
        trust: The trusted certificates; ``None`` for the certificate authorities that the machine trusts.
        keys: The certificate of this client; ``None`` if brokers do not require one.
        check_hostname: Whether the certificate of a broker must name the host of the connection.
        least: The oldest allowed version of TLS.
        most: The newest allowed version of TLS.
    """

    trust: TrustStore | None = None
    keys: KeyStore | None = None
    check_hostname: bool = True
    least: TLSVersion = TLSVersion.TLSv1_2
    most: TLSVersion = TLSVersion.TLSv1_3

    def context(self) -> SSLContext:
        """Returns a new SSL context.

        Raises:
            OptionError: A store cannot be read or opened, or has no certificate or key.
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
    """One authentication. Messages of this client and answers of the broker alternate."""

    def auth_bytes(self) -> bytes:
        """Returns the next message of this client."""
        ...

    def receive(self, auth_bytes: bytes) -> object:
        """Handles the answer of the broker.

        Raises:
            ValueError, LookupError: The answer does not prove that the broker knows the credentials.
        """
        ...

    def is_done(self) -> bool:
        """Returns whether there is no further message to send."""
        ...

    def is_authenticated(self) -> bool:
        """Returns whether the broker accepted the credentials, and proved its identity if the mechanism has that."""
        ...


class SaslCredentials(Protocol):
    """The credentials of this client and their mechanism. Hashable and picklable."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""
        ...

    @property
    def credentials(self) -> str:
        """The kind of credentials, for messages."""
        ...

    @property
    def option(self) -> str:
        """The option with the credentials, for messages."""
        ...

    def exchange(self, host: str) -> SaslExchange:
        """Returns a new authentication at the broker that was reached by the name ``host``."""
        ...

    def refused(self, exchange: SaslExchange) -> bool:
        """Records that a broker refused the credentials of ``exchange``. Returns whether a new one may succeed."""
        ...


@dataclass(frozen=True)
class SaslOptions:
    """A user name and a password, for ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    credentials: ClassVar[str] = "user name and password"
    """The kind of credentials, for messages."""
    option: ClassVar[str] = "kafka.sasl.jaas.config"
    """The option with the credentials, for messages."""

    def exchange(self, host: str) -> SaslExchange:
        """Returns a new authentication at the broker that was reached by the name ``host``."""
        # Imported on use, since only processes that connect need kafka-python.
        from flip27_stream.connectors.kafka.kafka_python.sasl_mechanisms import password_exchange

        exchange: SaslExchange = password_exchange(self.mechanism, self.username, self.password)
        return exchange

    def refused(self, exchange: SaslExchange) -> bool:
        """Returns ``False``, since a password does not change."""
        return False


@dataclass(frozen=True)
class SecurityOptions:
    """The options of encryption and authentication of a connection.

    Attributes:
        protocol: ``security.protocol`` of Java's client.
        ssl: The options of TLS for SSL and SASL_SSL; else ``None``.
        sasl: The credentials for SASL_PLAINTEXT and SASL_SSL; else ``None``.
    """

    protocol: str = "PLAINTEXT"
    ssl: SslOptions | None = None
    sasl: SaslCredentials | None = None

    def ssl_context(self) -> SSLContext | None:
        """Returns a new SSL context; ``None`` for connections without TLS.

        Raises:
            OptionError: As :meth:`SslOptions.context`.
        """
        return None if self.ssl is None else self.ssl.context()
