"""Registered consumers of streams (enhanced fan-out)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from flip27_stream.connectors.kinesis.client.client import KinesisClient
from flip27_stream.connectors.kinesis.client.errors import InUseError, NotThereError
from flip27_stream.connectors.kinesis.options.fan_out_options import FanOutOptions
from flip27_stream.errors import ConnectorError, MissingTopicError, UnreachableError

log = logging.getLogger(__name__)

_POLL_S = 0.25


class Consumers:
    """The registered consumer of each stream of a query. Several threads may call its methods.

    The driver registers and de-registers the consumers (:meth:`register`, :meth:`deregister`). Tasks only look up their
    ARNs (:meth:`arn_of`), which are cached until :meth:`forget`.
    """

    def __init__(self, client: KinesisClient, options: FanOutOptions) -> None:
        self._client = client
        self._options = options
        self._arns: dict[str, str] = {}
        self._lock = threading.Lock()

    def arn_of(self, stream: str) -> str:
        """Returns the ARN of the stream's consumer. Waits until the consumer is active.

        Raises:
            NotThereError: The consumer is not registered.
            MissingTopicError: The stream does not exist.
            UnreachableError: The consumer did not become active within ``requestTimeout``.
        """
        with self._lock:
            if stream not in self._arns:
                self._arns[stream] = self._wait_until_active(stream)
            return self._arns[stream]

    def forget(self, stream: str) -> None:
        """Drops the cached ARN, because a consumer that is registered again has another ARN."""
        with self._lock:
            self._arns.pop(stream, None)

    def register(self) -> None:
        """Checks that the consumers are active. Registers missing consumers of this query.

        Raises:
            ConnectorError: A consumer is not registered, and the options do not allow the query to register it.
        """
        for stream, consumer in self._options.consumers:
            self._check(stream, consumer)

    def _check(self, stream: str, consumer: str) -> None:
        self.forget(stream)
        deadline = time.monotonic() + self._client.request_timeout_s
        while (error := self._missing(stream)) is not None:
            if not self._options.is_ours:
                raise ConnectorError(
                    f"Consumer '{consumer}' of Kinesis stream '{stream}' is not registered: {error}. Register it, or "
                    "correct option 'registeredConsumerId', or let the query register one: set option 'consumerName' "
                    "instead."
                ) from error
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"{error} Check the consumer in the AWS console, or raise option 'requestTimeout'."
                ) from error
            self._register(stream, consumer)

    def _missing(self, stream: str) -> NotThereError | None:
        """Returns the reason why the consumer of a stream cannot be used; ``None`` if it can be used."""
        try:
            self.arn_of(stream)
        except NotThereError as error:
            return error
        return None

    def deregister(self) -> None:
        """De-registers the consumers if the options require it. Failures are only logged: the query is ending."""
        if not self._options.deregister:
            return
        for stream, consumer in self._options.consumers:
            try:
                asked = {"StreamARN": self._stream_arn(stream), "ConsumerName": consumer}
                self._client.call(
                    f"DeregisterStreamConsumer of {stream}/{consumer}",
                    "DeregisterStreamConsumer",
                    asked,
                    tries=1,
                )
            except (NotThereError, MissingTopicError):
                log.info("Consumer '%s' of stream '%s' was de-registered before.", consumer, stream)
            except ConnectorError as error:
                log.warning(
                    "Consumer '%s' of stream '%s' is not de-registered, and costs money until it is: %s",
                    consumer,
                    stream,
                    error,
                )
            self.forget(stream)

    def _register(self, stream: str, consumer: str) -> None:
        asked = {"StreamARN": self._stream_arn(stream), "ConsumerName": consumer}
        try:
            self._client.call(
                f"RegisterStreamConsumer of {stream}/{consumer}", "RegisterStreamConsumer", asked
            )
        except InUseError:
            # Another query is registering the consumer, or it is still being de-registered.
            time.sleep(_POLL_S)

    def _wait_until_active(self, stream: str) -> str:
        deadline = time.monotonic() + self._client.request_timeout_s
        while True:
            described = self._describe(stream)
            status = described["ConsumerStatus"]
            if status == "ACTIVE":
                return str(described["ConsumerARN"])
            if status == "DELETING":
                raise NotThereError(
                    f"Consumer '{described['ConsumerName']}' of '{stream}' is being de-registered."
                )
            if time.monotonic() > deadline:
                raise UnreachableError(
                    f"Consumer '{described['ConsumerName']}' of Kinesis stream '{stream}' is {status} for "
                    f"{self._client.request_timeout_s:g} s, and not ACTIVE. Check the consumer in the AWS console, or "
                    "raise option 'requestTimeout'."
                )
            time.sleep(_POLL_S)

    def _describe(self, stream: str) -> Mapping[str, Any]:
        consumer = self._options.consumer_of(stream)
        asked = (
            {"ConsumerARN": consumer}
            if consumer.startswith("arn:")
            else {
                "StreamARN": self._stream_arn(stream),
                "ConsumerName": consumer,
            }
        )
        answer = self._client.call(
            f"DescribeStreamConsumer of {stream}/{consumer}", "DescribeStreamConsumer", asked
        )
        described: Mapping[str, Any] = answer["ConsumerDescription"]
        return described

    def _stream_arn(self, stream: str) -> str:
        return stream if stream.startswith("arn:") else self._client.identity(stream).arn
