"""A subscription to a shard: the service sends records to a registered consumer (enhanced fan-out)."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any

from flip27_stream.connectors.kinesis.client.attempt import raise_refusal
from flip27_stream.connectors.kinesis.client.client import KinesisClient, Page, size_of
from flip27_stream.connectors.kinesis.client.consumers import Consumers
from flip27_stream.connectors.kinesis.client.errors import InUseError, NotThereError
from flip27_stream.connectors.kinesis.positions import TRIM_HORIZON, iterator_type, sequence_number
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.errors import MissingTopicError, UnreachableError

log = logging.getLogger(__name__)

_LONGEST_WAIT_S = 1.0
_EMPTY_AT_TIP = 3
"""The number of events in a row without records, at the tip of a shard, after which the shard is polled instead."""


class Subscription:
    """The pages of one shard, which the service sends as events of SubscribeToShard.

    The service ends a subscription after five minutes, or when the same consumer makes a new one. Then a new
    subscription begins at the next position to read. A consumer can subscribe to a shard once in five seconds.
    """

    def __init__(self, client: KinesisClient, consumers: Consumers, split: KinesisShardSplit) -> None:
        self._client = client
        self._consumers = consumers
        self._split = split
        self._stream: Any = None
        self._events: Iterator[Mapping[str, Any]] = iter(())
        self._empty = 0

    def next_page(self, position: int) -> Page | None:
        """Returns the next records.

        Args:
            position: The position at which a new subscription begins, if one is needed.

        Returns:
            The page; ``None`` if the consumer or the position does not exist, or if no records come. The shard must
            then be polled, which raises the right error.

        Raises:
            UnreachableError: No event came within ``requestTimeout``.
            AuthenticationError: These credentials do not permit a subscription to the shard.
        """
        deadline = time.monotonic() + self._client.request_timeout_s
        while True:
            try:
                event = self._next_event(position)
            except (NotThereError, MissingTopicError) as error:
                self.close()
                self._consumers.forget(self._split.stream)
                log.warning(
                    "Shard %s is polled, because it cannot be subscribed to: %s", self._split.split_id, error
                )
                return None
            except (InUseError, _EndedError) as error:
                self.close()
                self._wait(deadline, error)
                continue
            return self._page(event)

    def close(self) -> None:
        """Ends the subscription. Must not be called while another thread is in :meth:`next_page`."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._events = None, iter(())

    def _page(self, event: Mapping[str, Any]) -> Page | None:
        records = event["Records"]
        at_tip = not event.get("MillisBehindLatest")
        self._empty = self._empty + 1 if at_tip and not records else 0
        if self._empty > _EMPTY_AT_TIP:
            self.close()
            log.warning(
                "Shard %s is polled, because the subscription returns no more records.", self._split.split_id
            )
            return None
        # At the end of a closed shard there is no sequence number to continue from.
        following = None if event.get("ChildShards") else event.get("ContinuationSequenceNumber")
        return Page(records, following, at_tip, size_of(records))

    def _next_event(self, position: int) -> Mapping[str, Any]:
        """Returns the next event of the subscription, and makes a new subscription at ``position`` if needed.

        Raises:
            _EndedError: The subscription has ended.
            ConnectorError: The service refused the call; see :func:`raise_refusal`.
        """
        from botocore.eventstream import ParserError
        from botocore.exceptions import BotoCoreError, ClientError
        from urllib3.exceptions import HTTPError

        if self._stream is None:
            self._stream = self._subscribe(position)
            self._events = iter(self._stream)
        try:
            for event in self._events:
                if "SubscribeToShardEvent" in event:
                    return dict(event["SubscribeToShardEvent"])
        except ClientError as error:
            why = self._client.without_secrets(error)
            raise_refusal(self._what, error.response["Error"].get("Code", ""), why)
            raise _EndedError(why) from None
        except (HTTPError, BotoCoreError, ParserError, OSError) as error:
            raise _EndedError(self._client.without_secrets(error)) from None
        raise _EndedError("the service ended the subscription")

    def _subscribe(self, position: int) -> Any:
        starting = {"Type": iterator_type(position)}
        if position != TRIM_HORIZON:
            starting["SequenceNumber"] = sequence_number(position)
        asked = {
            "ConsumerARN": self._consumers.arn_of(self._split.stream),
            "ShardId": self._split.shard_id,
            "StartingPosition": starting,
        }
        return self._client.call(self._what, "SubscribeToShard", asked)["EventStream"]

    @property
    def _what(self) -> str:
        return f"SubscribeToShard of {self._split.split_id}"

    def _wait(self, deadline: float, error: Exception) -> None:
        if time.monotonic() > deadline:
            raise UnreachableError(
                f"{self._what} returned no records for {self._client.request_timeout_s:g} s: {error}. If another query "
                "reads with the same consumer, give each query its own option 'consumerName'; otherwise check that "
                "the service works, or raise option 'requestTimeout'."
            ) from error
        time.sleep(random.uniform(0, _LONGEST_WAIT_S))


class _EndedError(Exception):
    """The subscription has ended. A new subscription can continue."""
