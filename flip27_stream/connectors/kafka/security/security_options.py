"""How connections are encrypted and who they authenticate as.

The values travel to the executors, so they are small, hashable and picklable; stores are opened and contexts built
where a connection is made. No secret is in a ``repr``, so none gets into a log or an error through one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, TLSVersion
from typing import Any

from flip27_stream.connectors.kafka.security.key_stores import KeyStore, TrustStore


@dataclass(frozen=True)
class SslOptions:
    """TLS.

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
            OptionError: a store cannot be read or opened, or has not what is looked for in it.
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


@dataclass(frozen=True)
class SaslOptions:
    """A user name and password, and how they are proven: ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``."""

    mechanism: str
    username: str
    password: str = field(repr=False)

    @property
    def name_on_the_wire(self) -> str:
        """SCRAM separates by commas and equals signs, which kafka-python leaves to escape (RFC 5802)."""
        if self.mechanism == "PLAIN":
            return self.username
        return self.username.replace("=", "=3D").replace(",", "=2C")


@dataclass(frozen=True)
class SecurityOptions:
    """All of it.

    Attributes:
        protocol: ``security.protocol`` of Java's client.
        ssl: for SSL and SASL_SSL, else ``None``.
        sasl: for SASL_PLAINTEXT and SASL_SSL, else ``None``.
    """

    protocol: str = "PLAINTEXT"
    ssl: SslOptions | None = None
    sasl: SaslOptions | None = None

    def ssl_context(self) -> SSLContext | None:
        """A new context; ``None`` where connections are not encrypted.

        Raises:
            OptionError: as :meth:`SslOptions.context`.
        """
        return None if self.ssl is None else self.ssl.context()

    def client_config(self) -> dict[str, Any]:
        """Keyword arguments for kafka-python. They hold the password.

        Raises:
            OptionError: as :meth:`SslOptions.context`.
        """
        config: dict[str, Any] = {"security_protocol": self.protocol, "ssl_context": self.ssl_context()}
        if self.sasl is not None:
            config["sasl_mechanism"] = self.sasl.mechanism
            config["sasl_plain_username"] = self.sasl.name_on_the_wire
            config["sasl_plain_password"] = self.sasl.password
        return config
