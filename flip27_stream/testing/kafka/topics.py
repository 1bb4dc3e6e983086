"""Functions that a broker and a cluster share: they create, delete and fill topics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from flip27_stream.testing.waiting import wait_until

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

KafkaRecord = (
    tuple[int, int, bytes | None, bytes | None]
    | tuple[int, int, bytes | None, bytes | None, Sequence[tuple[str, bytes]]]
)
"""Partition, timestamp (milliseconds since the epoch), key, value, and optional headers."""

_ALL_NODES = -1


class Topics(ABC):
    """Creates, deletes and fills topics at :attr:`direct_servers`."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """The addresses for clients, as ``host:port``, separated by commas."""

    @property
    @abstractmethod
    def direct_servers(self) -> str:
        """The same as :attr:`bootstrap_servers`, but without links, so that no fault of a network applies."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        replication: int = _ALL_NODES,
    ) -> None:
        """Creates a topic, by default with a replica on every node.

        Returns when each running node knows a leader of each partition.
        """
        options = {
            "num_partitions": partitions,
            "replication_factor": replication,
            "configs": dict(config or {}),
        }
        with self._admin() as admin:
            admin.create_topics({name: options}, wait_for_metadata=True)
        self._wait_until_known(name, partitions)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic. Returns when the broker no longer lists it."""
        with self._admin() as admin:
            admin.delete_topics([name])
            wait_until(lambda: name not in admin.list_topics(), f"topic '{name}' to be deleted")

    def write(self, topic: str, records: Iterable[KafkaRecord]) -> None:
        """Appends records to their partitions. Returns when the broker has all of them.

        For hundreds of thousands of records use :func:`flip27_stream.testing.write_bulk`.
        """
        from kafka import KafkaProducer

        with closing(KafkaProducer(bootstrap_servers=self.direct_servers, linger_ms=5)) as producer:
            sent = [
                producer.send(
                    topic,
                    partition=partition,
                    timestamp_ms=timestamp,
                    key=key,
                    value=value,
                    headers=list(headers[0]) if headers else None,
                )
                for partition, timestamp, key, value, *headers in records
            ]
            producer.flush()
            for future in sent:
                future.get(timeout=30)

    @abstractmethod
    def _wait_until_known(self, topic: str, partitions: int) -> None:
        """Waits until every running node knows the leaders of all partitions of a new topic."""

    @contextmanager
    def _admin(self) -> Iterator[KafkaAdminClient]:
        from kafka import KafkaAdminClient

        with closing(KafkaAdminClient(bootstrap_servers=self.direct_servers)) as admin:
            yield admin
