"""The client of the Kinesis service for one source in one process."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from flip27_stream.connectors.kinesis.client.attempt import Failure, attempt, masked, reason
from flip27_stream.connectors.kinesis.client.errors import (
    CredentialsError,
    IteratorExpiredError,
    NotThereError,
    SilentError,
)
from flip27_stream.connectors.kinesis.client.session import renewed_client, shared_client
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions
from flip27_stream.connectors.kinesis.positions import TRIM_HORIZON, iterator_type, sequence_number
from flip27_stream.errors import AuthenticationError, MissingTopicError, UnreachableError
from flip27_stream.exponential_backoff import doubled_pause
from flip27_stream.wall_clock import now_ms

log = logging.getLogger(__name__)

Boto = Callable[[], Any]
"""Returns a boto3 client."""

_FIRST_WAIT_S = 0.1
_LONGEST_WAIT_S = 5.0
_RESERVED_BYTES = 8
_SILENT_S, _REFUSED_S = 60.0, 1.0
_TIME_TRIES = 2
_ITERATORS, _LISTINGS = 6, 3
_HOUR_MS = 3_600_000
_LEAST_RETENTION_HOURS = 24
"""The least retention period that a stream can have."""
_RETENTION_S = 60.0
SHARDS_PER_CALL = 1000


@dataclass(frozen=True)
class Shard:
    """A shard as the service lists it. Its parents are the shards from which it was split or merged.

    No record of it has a sequence number below ``first_number``.
    """

    shard_id: str
    parents: tuple[str, ...]
    first_hash_key: int
    last_hash_key: int
    first_number: int


@dataclass(frozen=True)
class StreamIdentity:
    """The ARN of a stream and the time of its creation (ms), which differ if a stream of the same name replaces it."""

    arn: str
    created: int


@dataclass(frozen=True)
class Page:
    """An answer of GetRecords.

    Attributes:
        records: The records as dictionaries of boto3, with arrival times in seconds.
        next_iterator: The shard iterator for the next page; ``None`` at the end of a closed shard.
        at_tip: Whether no records followed these when the service answered.
        size: The number of bytes that the limits of the service count for the records.
    """

    records: Sequence[Mapping[str, Any]]
    next_iterator: str | None
    at_tip: bool
    size: int


class KinesisClient:
    """A client with retries, limits of calls and the errors of this project. Several threads may call its methods.

    Attributes:
        calls: The number of calls that were made, by operation, for benchmarks and tests.
    """

    def __init__(self, options: KinesisConnectionOptions, shard_limits: ShardLimits) -> None:
        self._options = options
        self._shard_limits = shard_limits
        self._boto: Boto = partial(shared_client, options)
        self._region = self._boto().meta.region_name
        self.calls: dict[str, int] = {}
        self._silent_until: dict[tuple[str, str], float] = {}
        self._retention_hours: dict[str, tuple[float, int]] = {}

    @property
    def request_timeout_s(self) -> float:
        """The value of option ``requestTimeout`` in seconds."""
        return self._options.request_timeout_ms / 1000

    def times_are_silent(self, stream: str, shard_id: str) -> bool:
        """Returns whether a recent request for an iterator at a time got no answer; see :meth:`iterator_at_time`."""
        return time.monotonic() < self._silent_until.get((stream, shard_id), 0.0)

    def identity(self, stream: str) -> StreamIdentity:
        """Returns the identity of a stream.

        Raises:
            MissingTopicError: The stream does not exist.
        """
        summary = self._stream_call("DescribeStreamSummary", stream)["StreamDescriptionSummary"]
        created = summary.get("StreamCreationTimestamp", 0)
        return StreamIdentity(summary["StreamARN"], to_ms(created))

    def is_about_to_expire(self, stream: str, arrived: int) -> bool:
        """Returns whether a record that arrived at ``arrived`` (ms) expires within an hour, or has expired.

        Raises:
            MissingTopicError: The stream does not exist.
        """
        hours = (now_ms() - arrived) / _HOUR_MS + 1
        if hours < _LEAST_RETENTION_HOURS:
            return False
        asked_at, retention = self._retention_hours.get(stream, (float("-inf"), 0))
        if time.monotonic() - asked_at > _RETENTION_S:
            summary = self._stream_call("DescribeStreamSummary", stream)["StreamDescriptionSummary"]
            asked_at, retention = time.monotonic(), int(summary["RetentionPeriodHours"])
            self._retention_hours[stream] = asked_at, retention
        return hours >= retention

    def shards(self, stream: str) -> list[Shard]:
        """Returns all shards of a stream.

        Raises:
            MissingTopicError: The stream does not exist.
            IteratorExpiredError: The tokens of several listings have expired.
        """
        for _ in range(_LISTINGS - 1):
            with suppress(IteratorExpiredError):
                return self._listing(stream)
        return self._listing(stream)

    def _listing(self, stream: str) -> list[Shard]:
        answer = self._stream_call("ListShards", stream, MaxResults=SHARDS_PER_CALL)
        listed = list(answer["Shards"])
        while token := answer.get("NextToken"):
            answer = self.call(f"ListShards of {stream}", "ListShards", {"NextToken": token})
            listed += answer["Shards"]
        return [_shard(shard) for shard in listed]

    def iterator(self, stream: str, shard_id: str, position: int) -> str:
        """Returns a shard iterator at ``position``.

        Raises:
            NotThereError: The service does not know the position.
        """
        how = {"ShardIteratorType": iterator_type(position)}
        if position != TRIM_HORIZON:
            how["StartingSequenceNumber"] = sequence_number(position)
        return self._iterator(self._boto, stream, shard_id, how)

    def iterator_at_time(self, stream: str, shard_id: str, time_ms: int, *, is_needed: bool = False) -> str:
        """Returns a shard iterator at the first record that arrived at ``time_ms`` or later.

        The emulator kinesalite does not answer if no such record exists. After requests without an answer, only
        requests that are needed are sent for a minute for this shard; after refused requests, for a second, in which
        the service accepts five requests from all callers together.

        Args:
            stream: The name or the ARN of the stream.
            shard_id: The id of the shard.
            time_ms: The time (ms).
            is_needed: Whether the request is sent also after requests without an answer, and repeated until
                ``requestTimeout`` if it is refused, and not only once.

        Raises:
            NotThereError: The time is in the future by the service's clock, or the shard does not exist.
            SilentError: No answer came, so it is unknown whether such a record exists.
            UnreachableError: The service has refused a request that ``is_needed`` for ``requestTimeout``.
        """
        if self.times_are_silent(stream, shard_id) and not is_needed:
            raise SilentError(
                f"GetShardIterator of {stream}/{shard_id} (AT_TIMESTAMP) got no answer within the last minute"
            )
        how = {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": time_ms / 1000}
        boto = partial(shared_client, self._options, self._options.probe_timeout_s)
        tries = None if is_needed else _TIME_TRIES
        try:
            return self._iterator(boto, stream, shard_id, how, tries=tries, silent_tries=_TIME_TRIES)
        except SilentError:
            self._silent_until[stream, shard_id] = time.monotonic() + _SILENT_S
            raise
        except UnreachableError as error:
            if is_needed:
                raise
            self._silent_until[stream, shard_id] = time.monotonic() + _REFUSED_S
            raise SilentError(str(error)) from error

    def page(self, split_id: str, iterator: str | None, limit: int, make_iterator: Callable[[], str]) -> Page:
        """Returns the records at an iterator.

        Args:
            split_id: The id of the split, which names the shard.
            iterator: A shard iterator of an earlier page; ``None`` to make one.
            limit: The greatest number of records.
            make_iterator: Makes a shard iterator at the same place, if it is needed: iterators expire in five minutes.

        Raises:
            NotThereError: The records at that place do not exist any more.
            IteratorExpiredError: Even new iterators are refused as expired.
        """
        for left in range(_ITERATORS, 0, -1):
            fresh = iterator is None
            try:
                return self._records(split_id, make_iterator() if iterator is None else iterator, limit)
            except IteratorExpiredError:
                if left == 1:
                    raise
            except NotThereError:
                if fresh:
                    raise
            iterator = None
        raise AssertionError("unreachable")

    def _records(self, split_id: str, iterator: str, limit: int) -> Page:
        self._shard_limits.wait(split_id)
        asked = {"ShardIterator": iterator, "Limit": limit}
        answer = self.call(f"GetRecords of {split_id}", "GetRecords", asked, shard=split_id)
        records = answer["Records"]
        size = size_of(records)
        self._shard_limits.read(split_id, size)
        following = answer.get("NextShardIterator")
        at_tip = following is None or (not answer.get("MillisBehindLatest") and len(records) < limit)
        return Page(records, following, at_tip, size)

    def _iterator(
        self,
        boto: Boto,
        stream: str,
        shard_id: str,
        how: Mapping[str, Any],
        *,
        tries: int | None = None,
        silent_tries: int | None = None,
    ) -> str:
        what = f"GetShardIterator of {stream}/{shard_id} ({how['ShardIteratorType']})"
        asked = {"ShardId": shard_id, **_named(stream), **how}
        answer = self.call(what, "GetShardIterator", asked, boto, tries=tries, silent_tries=silent_tries)
        return str(answer["ShardIterator"])

    def _stream_call(self, operation: str, stream: str, **arguments: Any) -> Any:
        what = f"{operation} of {stream}"
        try:
            return self.call(what, operation, {**_named(stream), **arguments})
        except NotThereError as error:
            raise MissingTopicError(
                f"Kinesis stream '{stream}' does not exist, or is not visible to these credentials in region "
                f"'{self._region}': {error}"
            ) from error

    def call(
        self,
        what: str,
        operation: str,
        asked: Mapping[str, Any],
        boto: Boto | None = None,
        *,
        tries: int | None = None,
        silent_tries: int | None = None,
        shard: str = "",
    ) -> Any:
        """Returns the answer of the service. Repeats the call after temporary errors, with growing random waits.

        If the service refuses credentials of boto3's chain, they are looked for again once, because they may have been
        replaced, for example in the file of a profile.

        Args:
            what: A description of the call, for errors.
            operation: The service's name of the operation.
            asked: The arguments of the operation.
            boto: Returns the boto3 client to use, if it is not the usual one of this object.
            tries: The greatest number of attempts; ``None`` for no limit.
            silent_tries: The greatest number of attempts if no answer comes in time; ``None`` for no limit.
            shard: The id of the split whose limits of calls apply to repeated calls; empty for no limits.

        Raises:
            NotThereError: The stream, shard, consumer or sequence number does not exist.
            InUseError: The consumer or its subscription is in use.
            SilentError: No answer came in time, ``silent_tries`` times.
            UnreachableError: No answer came within ``requestTimeout``, or in ``tries`` attempts.
            AuthenticationError: The service refused the credentials, also those that were looked for again.
            ConnectorError: The service refused the call for another reason.
        """
        from botocore import xform_name

        client = (boto := boto or self._boto)()
        is_renewed = self._options.access_key is not None
        deadline = time.monotonic() + self.request_timeout_s
        tried = silent = 0
        while True:
            wait = doubled_pause(_FIRST_WAIT_S, _LONGEST_WAIT_S, tried)
            tried += 1
            self.calls[operation] = self.calls.get(operation, 0) + 1
            made = partial(getattr(client, xform_name(operation)), **asked)
            try:
                answer = attempt(what, operation, made, place=self._place, secrets=self._options.secrets)
            except CredentialsError as error:
                if is_renewed:
                    shared_client.cache_clear()  # The next query must look for credentials again.
                    raise AuthenticationError(str(error)) from None
                client, is_renewed = renewed_client(boto, client), True
                continue
            if not isinstance(answer, Failure):
                return answer
            silent += answer.is_silent
            if silent_tries is not None and silent >= silent_tries:
                raise SilentError(f"{what} got no answer at {self._place}")
            if tried == tries or time.monotonic() + wait > deadline:
                raise self._unreachable(what, answer.why, tries)
            time.sleep(random.uniform(0, wait))
            if shard:
                self._shard_limits.wait(shard)

    @property
    def _place(self) -> str:
        return self._options.endpoint or f"region {self._region}"

    def without_secrets(self, error: Any) -> str:
        """Returns the text of an error of the service or of the network, for messages."""
        from botocore.exceptions import ClientError

        secrets = self._options.secrets
        return reason(error, secrets) if isinstance(error, ClientError) else masked(str(error), secrets)

    def _unreachable(self, what: str, why: str, tries: int | None) -> UnreachableError:
        span = "" if tries else f" for {self.request_timeout_s:g} s"
        return UnreachableError(
            f"{what} failed{span} at {self._place}: {why}. Check that the service works, and "
            "which other programs read the stream, or raise option 'requestTimeout'."
        )


def size_of(records: Sequence[Mapping[str, Any]]) -> int:
    """Returns the number of bytes that the limits of the service count for records (dictionaries of boto3)."""
    return sum([len(r["Data"]) + len(r["PartitionKey"]) + _RESERVED_BYTES for r in records])


def to_ms(seconds: Any) -> int:
    """Returns a time of the service in milliseconds. The service gives seconds, as a number or as text."""
    return round(float(seconds) * 1000)


def _named(stream: str) -> dict[str, str]:
    return {"StreamARN": stream} if stream.startswith("arn:") else {"StreamName": stream}


def _shard(listed: Mapping[str, Any]) -> Shard:
    parents = (listed.get("ParentShardId"), listed.get("AdjacentParentShardId"))
    keys = listed["HashKeyRange"]
    return Shard(
        listed["ShardId"],
        tuple(parent for parent in parents if parent),
        int(keys["StartingHashKey"]),
        int(keys["EndingHashKey"]),
        int(listed["SequenceNumberRange"]["StartingSequenceNumber"]),
    )
