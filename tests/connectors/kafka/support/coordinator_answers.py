"""Answers of fake brokers about the coordinator of a consumer group, and of this coordinator."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse

from tests.connectors.kafka.support.fake_cluster import FakeBroker


def coordinator(broker: FakeBroker, error: int = 0) -> Any:
    """Returns the answer that ``broker`` is the coordinator, or the answer with an error code."""
    return FindCoordinatorResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=None,
        node_id=broker.node,
        host="127.0.0.1",
        port=broker.port,
    )


def committed_offset(offset: int) -> Any:
    """Returns the answer that the group has committed ``offset`` for the first partition of topic ``t``."""
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    partition = topic.OffsetFetchResponsePartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=-1, metadata="", error_code=0
    )
    topics = [topic(name="t", partitions=[partition])]
    return OffsetFetchResponse(throttle_time_ms=0, topics=topics, error_code=0)
