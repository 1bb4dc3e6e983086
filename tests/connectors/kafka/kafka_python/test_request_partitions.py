"""Partitions of requests: kafka-python encodes this project's objects and its own ones to the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from flip27_stream.connectors.kafka.kafka_python.request_partitions import (
    FetchPartition,
    ListOffsetsPartition,
)

NUMBERS = [(0, -2, 1), (7, 2**40, 1 << 20), (2**31 - 1, -(2**63), 2**31 - 1)]
_LISTED = ListOffsetsRequest.ListOffsetsTopic
_FETCHED = FetchRequest.FetchTopic


def list_offsets(partition: Callable[..., Any]) -> ListOffsetsRequest:
    partitions = [partition(partition_index=n, timestamp=time) for n, time, _ in NUMBERS]
    topics = [_LISTED(name="t", partitions=partitions), _LISTED(name="u", partitions=[])]
    return ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=topics, timeout_ms=5000)


def fetch(partition: Callable[..., Any]) -> FetchRequest:
    partitions = [
        partition(partition=n, fetch_offset=at, partition_max_bytes=size) for n, at, size in NUMBERS
    ]
    topics = [_FETCHED(topic="t", topic_id=None, partitions=partitions)]
    return FetchRequest(
        replica_id=-1, max_wait_ms=5, min_bytes=1, max_bytes=9, isolation_level=1, topics=topics
    )


@pytest.mark.parametrize("version", range(ListOffsetsRequest.max_version + 1))
def test_list_offsets(version: int) -> None:
    theirs = list_offsets(_LISTED.ListOffsetsPartition).encode(version=version)
    assert list_offsets(ListOffsetsPartition).encode(version=version) == theirs


@pytest.mark.parametrize("version", range(FetchRequest.max_version + 1))
def test_fetch(version: int) -> None:
    theirs = fetch(_FETCHED.FetchPartition).encode(version=version)
    assert fetch(FetchPartition).encode(version=version) == theirs
