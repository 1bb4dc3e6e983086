"""kafka-python's connection, with documented methods for this source."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from typing import Any

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.connection import KafkaConnection

from flip27_stream.connectors.kafka.kafka_python.messages import ApiVersionsRequest, SaslBytesRequest
from flip27_stream.connectors.kafka.kafka_python.throttling import LONGEST_THROTTLE_MS, throttled_for_long

log = logging.getLogger(__name__)

_LARGEST_GREETING = 1 << 20

SaslSteps = Generator["tuple[Any, int] | bytes", Any, int]
"""The steps of an authentication, which are requests with their versions, or raw tokens.

The generator is sent the broker's answer to each step. It returns the life time of the session in ms, 0 for an
unlimited one.
"""


class Connection(KafkaConnection):  # type: ignore[misc] # kafka-python has no types
    """A connection to one broker.

    Requests are queued until the connection is open, and while the broker throttles this client.

    Args:
        loop: The event loop of kafka-python.
        node: The id of the broker.
        server: ``host:port`` of the broker, for messages.
        config: The arguments of kafka-python's connection.

    Attributes:
        made: The time at which the connection was made, in monotonic seconds.
        server: ``host:port`` of the broker.
    """

    def __init__(self, loop: Any, node: int, server: str, config: dict[str, Any]) -> None:
        super().__init__(loop, node_id=node, **config)
        self.server = server
        self._throttled_until = 0.0
        self._questions = 0  # The number of ApiVersions requests.
        self.made = time.monotonic()

    @abstractmethod
    def sasl_steps(self, host: str, versions: Any) -> SaslSteps:
        """Returns the steps of authentication at a broker.

        Args:
            host: The name by which the broker was reached.
            versions: The versions of requests that the broker supports.
        """

    @abstractmethod
    def explained(self, error: BaseException) -> BaseException:
        """Returns the error to report for an error that ended the connection before it was open."""

    def on_open(self, run: Callable[[], None]) -> None:
        """Has ``run`` called in the event loop once the connection is open and authenticated."""
        self.init_future.add_callback(lambda _: run())

    def on_close(self, run: Callable[[BaseException | None], None]) -> None:
        """Has ``run`` called in the event loop when the connection ends, with the error; ``None`` without an error."""
        self.close_future.add_both(run)

    @property
    def was_open(self) -> bool:
        """Whether the connection was open and authenticated at any time, even if it is closed now."""
        return bool(self.init_future.succeeded())

    @property
    def last_heard(self) -> float:
        """The time at which the broker last sent a byte, in monotonic seconds.

        If the broker throttled this client after that, it is the end of the throttle time. If the broker has sent
        nothing, it is the time at which the connection was made.
        """
        read = self.made if self.transport is None else float(self.transport.last_read)
        return max(read, self._throttled_until)

    @property
    def last_used(self) -> float:
        """The time at which a byte was last sent or received, in monotonic seconds."""
        return self.made if self.transport is None else float(self.transport.last_activity)

    @property
    def is_idle(self) -> bool:
        """Whether no request is queued or unanswered."""
        return not self.in_flight_requests and not self._request_buffer

    @property
    def oldest_request(self) -> float | None:
        """The time at which the oldest unanswered request was sent (monotonic s); ``None`` without such a request."""
        return float(self.in_flight_requests[0][2]) if self.in_flight_requests else None

    @property
    def throttled_for(self) -> float:
        """The rest of the throttle time of the broker, in seconds."""
        return max(0.0, self._throttled_until - time.monotonic())

    def send_request(self, request: Any, request_timeout_ms: int | None = None) -> Any:
        """Returns a future of the response. The time limit of the request begins when it may be sent."""
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

    def connection_made(self, transport: Any) -> None:
        """Limits the size of responses until the connection is open, since the server may not be a broker."""
        super().connection_made(transport)
        self.parser._max_frame_size = min(_LARGEST_GREETING, self.config["receive_message_max_bytes"])

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(self.explained(exc) if self.initializing and exc is not None else exc)

    def data_received(self, data: bytes) -> None:
        """Handles received bytes.

        A response that cannot be decoded closes the connection, even if kafka-python raises an unexpected error.
        """
        try:
            super().data_received(data)
        except kafka_errors.InvalidReceiveError as error:
            raise kafka_errors.InvalidReceiveError(
                f"{error.args[0]}: broker {self.server} announces a response of so many bytes; at most "
                f"{self.parser._max_frame_size} are accepted"
            ) from error
        except kafka_errors.KafkaProtocolError:
            raise
        except Exception as error:  # noqa: BLE001 - otherwise nothing more would be read from the connection
            self.close(kafka_errors.KafkaProtocolError(f"a response cannot be read: {error!r}"))

    def _maybe_throttle(self, response: Any) -> None:
        """Records the throttle time of a response, limited to a minute, since a broker may send a wrong number."""
        if getattr(response, "throttle_time_ms", 0) > LONGEST_THROTTLE_MS:
            log.warning(throttled_for_long(self.server, response.throttle_time_ms))
            response.throttle_time_ms = LONGEST_THROTTLE_MS
        super()._maybe_throttle(response)
        self._throttled_until = max(self._throttled_until, float(self._throttle_time))

    def _init_complete(self) -> None:
        self.parser._max_frame_size = self.config["receive_message_max_bytes"]
        super()._init_complete()

    def _send_request(self, request: Any, **given: Any) -> Any:
        """Sends a request as kafka-python does, and limits the number of ApiVersions requests.

        kafka-python would repeat them without end to a broker that refuses each version.
        """
        self._questions += isinstance(request, ApiVersionsRequest)
        if self._questions > ApiVersionsRequest.max_version + 1:
            return Future().failure(
                kafka_errors.UnsupportedVersionError("the broker does not send the versions that it supports")
            )
        return super()._send_request(request, **given)

    async def _sasl_authenticate(self, timeout_at: float | None = None) -> None:
        """Authenticates with :meth:`sasl_steps`. kafka-python calls it again before the session ends (KIP-368)."""
        deadline = self._timeout_at() if timeout_at is None else timeout_at
        steps = self.sasl_steps(self.transport.host or self.transport.getPeer()[0], self.broker_version_data)
        step = next(steps)
        while True:
            answer = await self._sasl_answer(step, deadline)
            try:
                step = steps.send(answer)
            except StopIteration as end:
                self._reauth.session_updated(end.value)
                return

    async def _sasl_answer(self, step: tuple[Any, int] | bytes, deadline: float) -> Any:
        if isinstance(step, bytes):
            raw = await self._send_request(SaslBytesRequest(step), timeout_at=deadline)
            return raw.auth_bytes
        request, version = step
        request.API_VERSION = version
        return await self._send_request(request, timeout_at=deadline)
