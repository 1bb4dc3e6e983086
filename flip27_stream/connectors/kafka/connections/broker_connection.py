"""A connection to one broker for planning: that of kafka-python, with one deadline for all steps of opening it."""

from __future__ import annotations

import ssl
from typing import Any

from kafka import errors as kafka_errors

from flip27_stream.connectors.kafka.connections.transport_opener import TransportOpener
from flip27_stream.connectors.kafka.kafka_python.connections import Connection, SaslSteps
from flip27_stream.connectors.kafka.sasl.sasl_credentials import SaslCredentials
from flip27_stream.connectors.kafka.sasl.sasl_steps import sasl_steps
from flip27_stream.connectors.kafka.tls.tls_refusal import tls_refusal


class BrokerConnection(Connection):
    """A connection with one deadline for connecting, TLS, versions and authentication.

    Its futures fail with AuthenticationError if the broker refuses this client, or its certificate is not trusted.

    Args:
        loop: The event loop of kafka-python.
        node: The id of the broker.
        server: ``host:port`` of the broker, for messages.
        config: The arguments of kafka-python's connection.
        sasl: The credentials; ``None`` for a connection without SASL.

    Attributes:
        reached: Whether a server accepted the TCP connection.
    """

    def __init__(
        self, loop: Any, node: int, server: str, config: dict[str, Any], sasl: SaslCredentials | None
    ) -> None:
        super().__init__(loop, node, server, config)
        self.reached = False
        self._sasl = sasl

    async def open(
        self, opener: TransportOpener, host: str, port: int, deadline: float, attempt: int
    ) -> None:
        """Connects, agrees on versions and authenticates.

        Args:
            opener: Opens the socket.
            host: The name or address of the broker.
            port: The port of the broker.
            deadline: The time limit, in monotonic seconds.
            attempt: The number of attempts that failed before this one.
        """
        try:
            transport = await opener.open(host, port, deadline, attempt, self._note_reached)
            if self.closed:
                transport.close()
                return
            self.connection_made(transport)
            await self.initialize(deadline)
        except Exception as error:  # noqa: BLE001 - the futures of all requests fail with it
            self.connection_lost(error)

    def sasl_steps(self, host: str, versions: Any) -> SaslSteps:
        if self._sasl is None:
            raise ValueError("the credentials are missing")
        return sasl_steps(self.server, host, self._sasl, versions)

    def explained(self, error: BaseException) -> BaseException:
        # With TLS 1.3 a broker that requires a certificate reports this after the handshake.
        cause = error.args[0] if isinstance(error, kafka_errors.KafkaConnectionError) and error.args else None
        return (tls_refusal(self.server, cause) if isinstance(cause, ssl.SSLError) else None) or error

    def _note_reached(self) -> None:
        self.reached = True
