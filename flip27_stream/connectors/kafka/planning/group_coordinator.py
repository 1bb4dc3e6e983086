"""Requests to the broker that keeps the committed offsets of a consumer group."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.client.protocol import refusal
from flip27_stream.connectors.kafka.kafka_python.messages import FindCoordinatorRequest, OffsetFetchRequest
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.errors import UnreachableError

_TRY_S = 3.0
_LOOK_AGAIN = frozenset({-1, 7, 14, 15, 16})
"""The error codes after which the coordinator is looked up again.

They are UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE and
NOT_COORDINATOR.
"""
_ONE_KEY = 3
_ONE_GROUP = 7


class GroupCoordinator:
    """Finds the coordinator of one consumer group, and finds it again when it has moved."""

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._client = client
        self._group = group
        self._node: int | None = None
        self._closed = threading.Event()

    def close(self) -> None:
        """Stops new requests. A request that is under way in another thread ends after 3 s at most."""
        self._closed.set()

    def ask(self, request: Callable[[], Any], errors: Callable[[Any], Collection[int]]) -> Any:
        """Returns the response of the coordinator to a request.

        Args:
            request: Makes the request; it is called for each attempt.
            errors: Returns the error codes in a response.

        Raises:
            UnreachableError: No coordinator answered within ``api_timeout_ms``, or this object was closed.
            ConnectorError: The coordinator refused the request.
        """
        options = self._client.options
        deadline = time.monotonic() + options.api_timeout_ms / 1000
        while time.monotonic() < deadline and not self._closed.is_set():
            node = self._find() if self._node is None else self._node
            answer = None if node is None else self._exchange(node, request())
            failed = set(_LOOK_AGAIN) if answer is None else {code for code in errors(answer) if code}
            if not failed:
                self._node = node
                return answer
            if final := sorted(failed - _LOOK_AGAIN):
                raise refusal(f"a request about consumer group '{self._group}'", final[0])
            self._node = None
            if answer is None:  # Brokers may have new addresses, or the coordinator may have changed.
                self._look_for_brokers(deadline)
            self._client.wait(max(options.retry_backoff_ms, 10) / 1000)
        if self._closed.is_set():
            raise UnreachableError("The source is closed.")
        raise UnreachableError(
            f"The coordinator of consumer group '{self._group}' (the broker that keeps its offsets) did not answer "
            f"within {options.api_timeout_ms / 1000:g} s. The bootstrap servers are "
            f"{options.bootstrap_servers}. Check that this process can reach every broker of the cluster."
        )

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offsets that the group has committed; partitions without a committed offset are left out.

        The errors are those of :meth:`ask`.
        """
        numbers: dict[str, list[int]] = {}
        for tp in sorted(partitions):
            numbers.setdefault(tp.topic, []).append(tp.partition)

        def request() -> Any:
            topics = [
                OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in numbers.items()
            ]
            return OffsetFetchRequest(group_id=self._group, topics=topics, max_version=_ONE_GROUP)

        answer = self.ask(
            request, lambda a: {a.error_code, *(p.error_code for t in a.topics for p in t.partitions)}
        )
        return {
            TopicPartition(topic.name, p.partition_index): p.committed_offset
            for topic in answer.topics
            for p in topic.partitions
            if p.committed_offset >= 0
        }

    def _look_for_brokers(self, deadline: float) -> None:
        within_s = min(_TRY_S, max(0.001, deadline - time.monotonic()))
        with contextlib.suppress(UnreachableError):  # The lookup is tried again until the deadline.
            self._client.topics([], max(1, int(within_s * 1000)))

    def _find(self) -> int | None:
        node = self._client.any_node()
        request = FindCoordinatorRequest(key=self._group, key_type=0, max_version=_ONE_KEY)
        answer = None if node is None else self._exchange(node, request)
        if answer is None or answer.error_code in _LOOK_AGAIN:
            return None
        if answer.error_code:
            raise refusal(f"to find the coordinator of consumer group '{self._group}'", answer.error_code)
        return int(answer.node_id)

    def _exchange(self, node: int, request: Any) -> Any:
        return self._client.ask(node, request, _TRY_S)
