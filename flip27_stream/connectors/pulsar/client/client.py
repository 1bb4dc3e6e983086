"""The calls of the Pulsar source. Each call that reads a partition uses its own reader, which is closed at its end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any, TypeVar

from flip27_stream.connectors.pulsar.client.certificates import not_trusted, why_untrusted
from flip27_stream.connectors.pulsar.client.looks import Tip, VisibleMessages
from flip27_stream.connectors.pulsar.client.session import shared_client
from flip27_stream.connectors.pulsar.options.connection_options import PulsarConnectionOptions
from flip27_stream.connectors.pulsar.positions import (
    EARLIEST,
    ENTRY,
    entry_of,
    ledger_of,
    position_at,
    position_of,
)
from flip27_stream.errors import AuthenticationError, ConnectorError, MissingTopicError, UnreachableError

T = TypeVar("T")

_QUEUE = 100
_MOST_BYTES = 4 << 20
_PAUSE_S = 0.2
SEEN_MS = 5000
"""The time (ms) to wait for a message after the broker has answered that a message exists."""
_SLACK = 4
"""How many times as long as the first message took may each later one take."""


class PulsarClient:
    """The calls of the source to the brokers, with the errors of this project.

    All raise UnreachableError if the servers do not answer, AuthenticationError if they refuse these credentials or
    their certificate is not trusted, MissingTopicError if the topic does not exist, and ConnectorError for other
    refusals.

    Args:
        options: The options of the connections.
        role_prefix: The beginning of the names of the subscriptions that readers make and remove when they are closed.
    """

    def __init__(self, options: PulsarConnectionOptions, role_prefix: str | None = None) -> None:
        self._options = options
        self._role_prefix = role_prefix

    def partitions(self, topic: str) -> list[str]:
        """Returns the full names of the partitions of a topic; the topic itself if it is not partitioned."""

        def look() -> list[str]:
            with self._errors(f"The partitions of {topic}"):
                return list(shared_client(self._options).get_topic_partitions(topic))

        return self._retried(look)

    @property
    def longest_ms(self) -> int:
        """The time (ms) after which a server that sends nothing counts as one that does not answer."""
        return self._options.operation_timeout_ms

    def read(self, topic: str, position: int, most: int, until: int | None = None) -> Sequence[Any]:
        """Returns up to ``most`` messages that exist now at or after ``position``.

        Args:
            topic: The partition.
            position: The first position to read.
            most: The greatest number of messages.
            until: The position after an existing message, at which reading ends. It must be given if so many messages
                may not exist: the last entry of the partition may be hidden by now; see :class:`Tip`.
        """
        return self._read(topic, position, most, until=until).messages

    def read_visible(self, topic: str, position: int, most: int, *, silence_ms: int) -> VisibleMessages:
        """Returns up to ``most`` messages at or after ``position`` of a partition whose last entry is hidden.

        Args:
            topic: The partition.
            position: The first position to read.
            most: The greatest number of messages.
            silence_ms: The time (ms) without a message after which no further message is expected. Once one has come,
                it is at most four times the time of that one, or 5 s.
        """
        return self._read(topic, position, most, silence_ms)

    def has_ledger(self, topic: str, ledger: int, *, is_hidden: bool = False) -> bool:
        """Returns whether a ledger of a partition exists and has messages.

        If the last entry is hidden, a ledger without any message within the time limit of an operation counts as
        missing.
        """
        silence_ms = self._options.operation_timeout_ms if is_hidden else None
        found = self._read(topic, position_at(ledger, 0), 1, silence_ms).messages
        return len(found) > 0 and found[0].message_id().ledger_id() == ledger

    def _read(
        self, topic: str, position: int, most: int, silence_ms: int | None = None, until: int | None = None
    ) -> VisibleMessages:
        def look() -> VisibleMessages:
            with self._reader(topic, _entry_at(position), min(most, _QUEUE)) as reader:
                return self._available(reader, most, position, silence_ms, until)

        return self._retried(look)

    def tip(self, topic: str, silence_ms: int = SEEN_MS) -> Tip:
        """Returns the end of a partition.

        Args:
            topic: The partition.
            silence_ms: The time (ms) without a message after which the last entry counts as hidden.
        """

        def look() -> Tip:
            import pulsar

            with self._reader(topic, pulsar.MessageId.latest, 1) as reader:
                message, last = None, -1
                try:
                    while self._has_more(reader):
                        message = reader.read_next(silence_ms)
                        entry = position_of(message.message_id()) // ENTRY
                        # The first entry was the last one at the beginning. Reading all messages that arrive meanwhile
                        # would never end if a producer is faster than this reader.
                        if last not in (-1, entry):
                            return Tip(message, goes_on=self._has_more(reader))
                        last = entry
                except pulsar.Timeout:
                    return Tip(None, is_hidden=True)
                return Tip(message)

        return self._retried(look)

    def last_entry(self, topic: str) -> int:
        """Returns the position of the last entry of a partition that has entries, even if the entry is hidden.

        Only a consumer can request this position, so this method makes a subscription and removes it at once.
        """
        subscription = f"{self._role_prefix or 'flip27'}-{uuid.uuid4().hex}"

        def look() -> int:
            with self._errors(f"The last entry of {topic}"):
                consumer = shared_client(self._options).subscribe(topic, subscription)
                try:
                    return position_of(consumer.get_last_message_id())
                finally:
                    try:
                        # It is durable. If it cannot be removed, the next attempt removes it.
                        consumer.unsubscribe()
                    finally:
                        _close(consumer)

        return self._retried(look)

    def at_publish_time(
        self, topic: str, moment: int, most: int = 1, *, until: int | None = None, is_hidden: bool = False
    ) -> Sequence[Any]:
        """Returns up to ``most`` messages, beginning with the first that was published at ``moment`` (ms) or later.

        The broker finds that message by bisection, so the result is right only if publish times never decrease.

        Args:
            topic: The partition.
            moment: The publish time.
            most: The greatest number of messages.
            until: The position after an existing message, at which reading ends; see :meth:`read`.
            is_hidden: Whether the last entry of the partition is hidden; see :class:`Tip`. Then no message within the
                time limit of an operation counts as no message.
        """

        def look() -> Sequence[Any]:
            import pulsar

            with self._reader(topic, pulsar.MessageId.latest, min(most, _QUEUE)) as reader:
                reader.seek(max(moment, 0))
                silence_ms = self.longest_ms if is_hidden else None
                return self._available(reader, most, EARLIEST, silence_ms, until).messages

        return self._retried(look)

    def open(self, topic: str, position: int, queue: int) -> Any:
        """Returns a reader of pulsar-client that begins at the entry of ``position``. :meth:`close` must close it."""

        def open_reader() -> Any:
            with self._errors(f"Reading {topic}"):
                return self._create(topic, _entry_at(position), queue)

        return self._retried(open_reader)

    @contextmanager
    def _reader(self, topic: str, start: Any, queue: int) -> Iterator[Any]:
        """Provides a reader and closes it at the end of the block. Errors become errors of this project."""
        with self._errors(f"Reading {topic}"):
            reader = self._create(topic, start, queue)
            try:
                yield reader
            finally:
                _close(reader)

    def _create(self, topic: str, start: Any, queue: int) -> Any:
        import pulsar

        return shared_client(self._options).create_reader(
            topic,
            start,
            receiver_queue_size=queue,
            subscription_role_prefix=self._role_prefix,
            start_message_id_inclusive=True,
            # With any other action an encrypted message would never come, without an error for the user.
            crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME,
        )

    def has_more(self, reader: Any) -> bool:
        """Returns whether a reader has a message to come."""
        with self._errors(f"Reading {reader.topic()}"):
            return self._has_more(reader)

    def _has_more(self, reader: Any) -> bool:
        """Returns whether a message is to come. Waits for the time of one attempt.

        The call of pulsar-client that blocks never returns once a token has expired. A reader that is created in the
        next attempt gets the reason.
        """
        import pulsar

        answer: Future[tuple[Any, bool]] = Future()
        # An error in the function would end the process, because it runs in a thread of pulsar-client.
        reader._reader.has_message_available_async(lambda *result: answer.set_result(result))
        try:
            result, is_there = answer.result(self._options.attempt_s)
        except FutureTimeoutError as error:
            raise pulsar.ConnectError("no answer") from error
        if result != pulsar.Result.Ok:
            raise getattr(pulsar, result.name, pulsar.ConnectError)(result.name)
        return is_there

    def _available(
        self, reader: Any, most: int, position: int, silence_ms: int | None, until: int | None
    ) -> VisibleMessages:
        """Returns the messages that exist now at or after ``position``, up to ``most``, and up to some megabytes.

        Args:
            reader: Reads the partition.
            most: The greatest number of messages.
            position: The first position to read.
            silence_ms: See :meth:`read_visible`; ``None`` if the broker sends all messages that it counts, so that a
                missing message is an error.
            until: See :meth:`read`.
        """
        import pulsar

        found: list[Any] = []
        size, at, first_ms = 0, EARLIEST, 0
        wait_ms = int(self._options.attempt_s * 1000) if silence_ms is None else silence_ms
        began = time.monotonic()
        try:
            while len(found) < most and size < _MOST_BYTES and (until is None or at < until - 1):
                if not self._has_more(reader):
                    return VisibleMessages(found, goes_on=False, first_ms=first_ms)
                message = reader.read_next(wait_ms)
                if silence_ms is not None and at == EARLIEST:
                    first_ms = int((time.monotonic() - began) * 1000)
                    wait_ms = min(silence_ms, max(_SLACK * first_ms, SEEN_MS))
                at = position_of(message.message_id())
                if at >= position:
                    found.append(message)
                    size += len(message.data())
        except pulsar.Timeout:
            if silence_ms is None:
                raise
            return VisibleMessages(found, goes_on=False, first_ms=first_ms)
        return VisibleMessages(found, goes_on=True, first_ms=first_ms)

    def consumer(self, topic: str, subscription: str) -> Any:
        """Returns a consumer of a subscription; :meth:`acknowledge` moves the cursor of this subscription."""
        import pulsar

        with self._errors(f"Subscription '{subscription}' of {topic}"):
            return shared_client(self._options).subscribe(
                topic,
                subscription,
                consumer_type=pulsar.ConsumerType.Failover,
                receiver_queue_size=1,
                initial_position=pulsar.InitialPosition.Earliest,
            )

    def acknowledge(self, consumer: Any, entry: int) -> None:
        """Moves the cursor of a consumer's subscription to the first entry after the position ``entry``."""
        import pulsar

        with self._errors(f"Moving the cursor of {consumer.topic()}"):
            consumer.acknowledge_cumulative(pulsar.MessageId(-1, ledger_of(entry), entry_of(entry), -1))

    def close(self, reader: Any) -> None:
        """Closes a reader or a consumer. Failures are ignored: the broker removes it when the connection ends."""
        _close(reader)

    def _retried(self, look: Callable[[], T]) -> T:
        """Returns the result of ``look``, which is called again while a broker restarts or a topic moves to another."""
        deadline = time.monotonic() + self._options.operation_timeout_ms / 1000
        while True:
            try:
                return look()
            except UnreachableError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        import pulsar

        place = self._options.service_url
        refused = (
            pulsar.ConsumerBusy,
            pulsar.InvalidTopicName,
            pulsar.NotAllowedError,
            pulsar.OperationNotSupported,
            pulsar.InvalidConfiguration,
        )
        try:
            yield
        except pulsar.TopicNotFound as error:
            raise MissingTopicError(f"{what}: the topic does not exist at {place} ({error}).") from error
        except pulsar.AuthenticationError as error:
            raise AuthenticationError(
                f"{what}: {place} refused the credentials ({error}), or they have expired. See options "
                "'pulsar.client.authPluginClassName' and 'pulsar.client.authParams'."
            ) from error
        except pulsar.AuthorizationError as error:
            raise AuthenticationError(
                f"{what}: {place} does not permit this to the role of these credentials ({error}). Grant the role "
                "the permission 'consume' on the topic or its namespace, or give credentials of another role in "
                "options 'pulsar.client.authPluginClassName' and 'pulsar.client.authParams'."
            ) from error
        except refused as error:
            raise ConnectorError(f"{what} was refused by {place}: {error}.") from error
        except pulsar.PulsarException as error:
            if (why := why_untrusted(self._options)) is not None:
                raise not_trusted(what, place, why) from error
            raise UnreachableError(
                f"{what}: {place} did not answer within option 'pulsar.client.operationTimeoutMs' "
                f"({self._options.operation_timeout_ms} ms): {error}. Check option 'service.url' and that the broker "
                "works. Refused or expired credentials can have the same error: see options "
                "'pulsar.client.authPluginClassName' and 'pulsar.client.authParams'."
            ) from error


def _entry_at(position: int) -> Any:
    """Returns the message id of the entry at a position. It has no index, so a reader begins with the whole batch."""
    import pulsar

    return (
        pulsar.MessageId(-1, ledger_of(position), entry_of(position), -1)
        if position
        else pulsar.MessageId.earliest
    )


def _close(reader: Any) -> None:
    import pulsar

    try:
        reader.close()
    except pulsar.PulsarException:
        # The messages that were read are valid, and the broker removes the reader when the connection ends.
        return
