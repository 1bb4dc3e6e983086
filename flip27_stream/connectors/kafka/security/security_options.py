"""The checked options of encryption and authentication.

They are sent to the executors, so they are small, hashable and picklable. Stores are opened and contexts are made when
a connection is made. No ``repr`` shows a secret, so that no secret gets into a log or an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from ssl import SSLContext

from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslCredentials
from flip27_stream.connectors.kafka.tls.ssl_options import SslOptions


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
