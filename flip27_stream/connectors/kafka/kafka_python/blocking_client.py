"""kafka-python's own client, whose requests wait for their answers. The test kit writes and looks with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kafka import codec as kafka_codec
from kafka.net.compat import KafkaNetClient
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest
from kafka.structs import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

_TOPIC_IDS_FROM = 10
"""The version of Produce from which on requests name topics by their ids."""

_PRODUCE_TIMEOUT_MS = 30_000


def compressor(codec: str) -> Callable[[bytes], bytes]:
    """Returns the function of kafka-python that compresses bytes by a codec: gzip, lz4, snappy or zstd."""
    compress: Callable[[bytes], bytes] = getattr(kafka_codec, f"{codec}_encode")
    return compress


class BlockingClient:
    """A context manager with connections to the brokers of a cluster, without encryption and authentication.

    Args:
        bootstrap_servers: Brokers to connect to first.
        timeout_ms: The time limit for finding out the versions of a broker, and for metadata of a topic.

    Raises:
        kafka.errors.KafkaError: A broker does not answer; each method may raise it.
    """

    def __init__(self, bootstrap_servers: str, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._client = KafkaNetClient(bootstrap_servers=bootstrap_servers)

    def __enter__(self) -> Self:
        try:
            self._client.get_broker_version(timeout_ms=self._timeout_ms)
        except BaseException:
            self._client.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def leader(self, topic: str, partition: int) -> int | None:
        """Returns the id of the leader of a partition; ``None`` if there is no leader or no such partition."""
        cluster = self._client.cluster
        self._client.poll(timeout_ms=self._timeout_ms, future=cluster.set_topics([topic]))
        leader: int | None = cluster.leader_for_partition(TopicPartition(topic, partition))
        return None if leader is None or leader < 0 else leader

    def metadata(self, node: int, topics: Iterable[str]) -> Any:
        """Returns the answer of a broker about the cluster and these topics."""
        wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        return self._client.send_and_receive(node, MetadataRequest(topics=wanted))

    def produce(self, leader: int, topic: str, partition: int, batch: bytes) -> Any:
        """Writes a record batch, waits for all replicas, and returns the answer about the partition."""
        topic_data = ProduceRequest.TopicProduceData
        data = topic_data.PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topic_data=[topic_data(name=topic, partition_data=[data])],
            max_version=_TOPIC_IDS_FROM - 1,
        )
        return self._client.send_and_receive(leader, request).responses[0].partition_responses[0]
