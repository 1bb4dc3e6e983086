"""The code on ``docs/migrate.md`` for jobs of Flink takes positions out of a consumer group."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from flip27_stream import KafkaSource
from flip27_stream.testing import KafkaBroker
from flip27_stream.testing.source_query import SourceQuery
from tests.documentation.support.page_functions import function_of


@pytest.mark.jvm
def test_a_query_begins_at_the_offsets_of_a_group(broker: KafkaBroker, topic: Callable[..., str]) -> None:
    """KO-05: the page has this for OffsetsInitializer.committedOffsets of Flink. Offsets of other topics are left out,
    and partitions without a committed offset begin at their earliest record.
    """
    clicks, other = topic(partitions=2), topic(partitions=1)
    broker.write(clicks, [(0, 1000, None, b"a"), (0, 2000, None, b"b"), (1, 1000, None, b"c")])
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=f"job of {clicks}")
    try:
        committed = {TopicPartition(clicks, 0): 1, TopicPartition(other, 0): 0}
        consumer.commit({tp: OffsetAndMetadata(offset, "", -1) for tp, offset in committed.items()})
    finally:
        consumer.close()

    offsets = function_of("migrate.md", "committed_offsets")(
        broker.bootstrap_servers, f"job of {clicks}", [clicks]
    )

    assert json.loads(offsets) == {clicks: {"0": 1, "1": -2}}
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": clicks,
        "startingOffsets": offsets,
    }
    with SourceQuery(KafkaSource(options)) as query:
        assert sorted(row["value"] for row in query.run(2)) == [b"b", b"c"]
