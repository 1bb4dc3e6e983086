"""The checked options of TLS. The executors get them; each connection makes its SSL context from them."""

from __future__ import annotations

from dataclasses import dataclass
from ssl import PROTOCOL_TLS_CLIENT, SSLContext, TLSVersion

from flip27_stream.connectors.kafka.tls.key_stores import KeyStore, TrustStore


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
