"""A connection to one broker for the requests of planning: kafka-python's, with a deadline for all of its opening."""

from __future__ import annotations

import logging
import ssl
import time
from typing import Any

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection
from kafka.protocol.metadata import ApiVersionsRequest

from flip27_stream.connectors.kafka.client.broker_transport import TransportOpener
from flip27_stream.connectors.kafka.client.diagnosis import sasl_refusal, tls_refusal
from flip27_stream.connectors.kafka.client.throttling import LONGEST_THROTTLE_MS, throttled_for_long

log = logging.getLogger(__name__)

_LARGEST_GREETING = 1 << 20


class BrokerConnection(KafkaConnection):  # type: ignore[misc] # kafka-python has no types
    """Requests wait in it until it is open, and while the broker throttles this client.

    Its futures fail with AuthenticationError where the broker refuses this client, or this client the broker.

    Attributes:
        reached: whether something took the TCP connection.
        made: when it was made (monotonic seconds).
    """

    def __init__(self, loop: Any, node: int, server: str, config: dict[str, Any]) -> None:
        super().__init__(loop, node_id=node, **config)
        self.reached = False
        self._server = server
        self._throttled_until = 0.0
        self._questions = 0  # for versions
        self.made = time.monotonic()

    async def open(
        self, opener: TransportOpener, host: str, port: int, deadline: float, attempt: int
    ) -> None:
        """Connect, agree on versions and authenticate, until ``deadline`` (monotonic seconds)."""
        try:
            transport = await opener.open(host, port, deadline, attempt, self._note_reached)
            if self.closed:
                transport.close()
                return
            self.connection_made(transport)
            await self.initialize(deadline)
        except Exception as error:  # noqa: BLE001 - whatever it is, who waits for an answer gets it
            self.connection_lost(error)

    @property
    def last_heard(self) -> float:
        """When the broker last sent anything, or, if it throttled this client then, might be heard again.

        In monotonic seconds; before anything was sent, when this connection was made.
        """
        read = self.made if self.transport is None else float(self.transport.last_read)
        return max(read, self._throttled_until)

    @property
    def last_used(self) -> float:
        """When a byte went over it, in monotonic seconds."""
        return self.made if self.transport is None else float(self.transport.last_activity)

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its turn or an answer."""
        return not self.in_flight_requests and not self._request_buffer

    @property
    def oldest_request(self) -> float | None:
        """When the first request that is not answered was sent (monotonic seconds)."""
        return float(self.in_flight_requests[0][2]) if self.in_flight_requests else None

    @property
    def throttled_for(self) -> float:
        """Seconds for which the broker wants to hear nothing."""
        return max(0.0, self._throttled_until - time.monotonic())

    def send_request(self, request: Any, request_timeout_ms: int | None = None) -> Any:
        """A future of the response. The request's time begins when it may be sent."""
        if not self.paused or not self.connected:
            return super().send_request(request, request_timeout_ms)
        future = Future()
        until = self._timeout_at(timeout_ms=request_timeout_ms) + self.throttled_for
        self._request_buffer.append((request, future, until))
        return future

    def unpause(self, v: str) -> None:
        super().unpause(v)
        if not self.paused and self.connected:
            self.send_buffered()

    def _maybe_throttle(self, response: Any) -> None:
        """It is left alone for as long as it says, but asked again after a minute: it may have said nonsense."""
        if getattr(response, "throttle_time_ms", 0) > LONGEST_THROTTLE_MS:
            log.warning(throttled_for_long(self._server, response.throttle_time_ms))
            response.throttle_time_ms = LONGEST_THROTTLE_MS
        super()._maybe_throttle(response)
        self._throttled_until = max(self._throttled_until, float(self._throttle_time))

    def connection_made(self, transport: Any) -> None:
        """What is no broker may send anything: until it has shown that it is one, no memory is taken for much."""
        super().connection_made(transport)
        self.parser._max_frame_size = min(_LARGEST_GREETING, self.config["receive_message_max_bytes"])

    def _init_complete(self) -> None:
        self.parser._max_frame_size = self.config["receive_message_max_bytes"]
        super()._init_complete()

    def data_received(self, data: bytes) -> None:
        """What cannot be read ends the connection, whatever kafka-python raises for it."""
        try:
            super().data_received(data)
        except kafka_errors.InvalidReceiveError as error:
            raise kafka_errors.InvalidReceiveError(
                f"{error.args[0]}: broker {self._server} announces a response of so many bytes; the most that is "
                f"taken is {self.parser._max_frame_size}"
            ) from error
        except kafka_errors.KafkaProtocolError:
            raise
        except Exception as error:  # noqa: BLE001 - else nobody would read from the connection any more
            self.close(kafka_errors.KafkaProtocolError(f"a response cannot be read: {error!r}"))

    def _send_request(self, request: Any, **given: Any) -> Any:
        """As kafka-python does, which else asks for versions for ever where a broker refuses each version of that."""
        self._questions += isinstance(request, ApiVersionsRequest)
        if self._questions > ApiVersionsRequest.max_version + 1:
            return Future().failure(
                kafka_errors.UnsupportedVersionError("the broker does not tell which versions it speaks")
            )
        return super()._send_request(request, **given)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(self._explained(exc) if self.initializing and exc is not None else exc)

    def _note_reached(self) -> None:
        self.reached = True

    def _explained(self, error: BaseException) -> BaseException:
        mechanism = None if self.parser is None else self.config["sasl_mechanism"]
        refusal = None if mechanism is None else sasl_refusal(self._server, mechanism, error)
        if refusal is not None:
            return refusal
        # With TLS 1.3 a broker that wants a certificate says so after the handshake.
        cause = error.args[0] if isinstance(error, kafka_errors.KafkaConnectionError) and error.args else None
        return (tls_refusal(self._server, cause) if isinstance(cause, ssl.SSLError) else None) or error
