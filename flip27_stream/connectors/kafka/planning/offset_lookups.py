"""The offset requests of initializers to the cluster, with the retries of options ``fetchOffset.*``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from flip27_stream.connectors.kafka.client.client import KafkaClient
from flip27_stream.connectors.kafka.planning.group_coordinator import GroupCoordinator
from flip27_stream.connectors.kafka.split import EARLIEST, LATEST, TopicPartition
from flip27_stream.errors import UnreachableError

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class ClusterOffsets:
    """The ``OffsetLookups`` of a real cluster.

    Attributes:
        client: Sends the requests.
        read_committed: Whether the end of a log is its last stable offset.
        attempts: The number of attempts (``fetchOffset.numRetries``); each may take ``api_timeout_ms``.
        interval_ms: The pause between two attempts, in ms (``fetchOffset.retryIntervalMs``).
    """

    client: KafkaClient
    read_committed: bool = False
    attempts: int = 3
    interval_ms: int = 1000

    def start_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition now."""
        return self._list(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the current end offset (exclusive) of each partition, in the isolation level of the source."""
        return self._list(dict.fromkeys(partitions, LATEST))

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition whose record has a timestamp at or after the given one (ms).

        Partitions without such a record are left out.
        """
        return {tp: offset for tp, offset in self._list(times).items() if offset >= 0}

    def committed_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Returns the offsets that a consumer group has committed.

        Partitions without a committed offset are left out.
        """
        return self._retried(lambda: GroupCoordinator(self.client, group).committed_offsets(partitions))

    def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self._retried(lambda: self.client.offsets(wanted, read_committed=self.read_committed))

    def _retried(self, ask: Callable[[], T]) -> T:
        attempt = 1
        while True:
            try:
                return ask()
            except UnreachableError as error:
                if attempt >= self.attempts:
                    raise UnreachableError(
                        f"{error} Attempts: {attempt} (option 'fetchOffset.numRetries')."
                    ) from error
                log.warning("Attempt %d of %d to get offsets failed: %s", attempt, self.attempts, error)
            time.sleep(self.interval_ms / 1000)
            attempt += 1
