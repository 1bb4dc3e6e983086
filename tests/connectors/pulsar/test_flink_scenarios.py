"""The promises of Flink's Pulsar connector that a source which is planned batch by batch keeps in another way."""

from __future__ import annotations

import time

import pytest

from flip27_stream.api import PositioningRequest
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.connectors.pulsar import PulsarSource
from flip27_stream.testing import PulsarServer
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.pulsar.support.kit import QUICK, numbers, source_of

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("interval", ["0", "50 ms"])
def test_pu05_a_stream_without_partitions_goes_on(
    pulsar_server: PulsarServer, topic: str, interval: str
) -> None:
    """PU-05 adapted: a stream without partitions reads nothing and goes on. It reads topics that are made later
    only with discovery on."""
    more = {
        "admin.url": pulsar_server.admin_url,
        "topicsPattern": f"{topic}-.*",
        "partitionDiscoveryInterval": interval,
    }
    with SourceQuery(PulsarSource({**pulsar_server.options, **QUICK, **more})) as query:
        assert query.step() == []
        pulsar_server.create_topic(f"{topic}-late", 1)
        pulsar_server.put(f"{topic}-late-partition-0", [b"late"])
        rows = query.run(1) if interval != "0" else [row for _ in range(20) for row in query.step()]
    assert [row["value"] for row in rows] == ([] if interval == "0" else [b"late"])


def test_pu05_a_bounded_read_of_an_empty_topic_ends(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-05 adapted: a bounded read has no discovery, so a topic without messages has no more to come."""
    pulsar_server.create_topic(topic, 2)
    with SourceQuery(PulsarSource({**pulsar_server.options, "topic": topic}, bounded=True)) as query:
        assert query.read_batch() == []


@pytest.mark.parametrize("bounded", [True, False])
def test_pu09_the_only_split_is_paused(pulsar_server: PulsarServer, topic: str, bounded: bool) -> None:
    """PU-09: a range that ends where it begins has no rows, and another range of the same split has
    its rows afterwards."""
    pulsar_server.create_topic(topic, 1)
    pulsar_server.put(f"{topic}-partition-0", numbers(0, 10))
    source = PulsarSource(
        {**pulsar_server.options, "topic": topic, "startingOffsets": "earliest"}, bounded=bounded
    )
    with SourceQuery(source) as query:
        ((planned,),) = query.tasks(*query.wait_for_batch())
        for at in (planned.start, planned.start + 1):
            assert query.read([PlannedRange(planned.split, at, at)]) == []
        assert [row["value"] for row in query.read([planned])] == numbers(0, 10)


def test_pu10_a_range_ends_at_a_publish_time(pulsar_server: PulsarServer, topic: str) -> None:
    """PU-10: one message comes before the time, and one after it. The first is read, and the next range
    to that time is empty."""
    pulsar_server.create_topic(topic, 1)
    pulsar_server.put(f"{topic}-partition-0", [b"before"])
    time.sleep(0.01)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.01)
    pulsar_server.put(f"{topic}-partition-0", [b"after"])
    with SourceQuery(source_of(pulsar_server, topic)) as query, query.enumerator() as (enumerator, (split,)):
        read, position = list[bytes](), None
        for _ in range(2):
            ranges = enumerator.split_ranges({split: position})
            start = ranges[split.split_id].position
            found = enumerator.event_time_positions(PositioningRequest(ranges))  # type: ignore[attr-defined]
            position, rows = found.first_at_or_after(moment)[split.split_id]
            came = query.read([PlannedRange(split, start, position)])
            assert len(came) == rows
            read += [row["value"] for row in came]
    assert read == [b"before"]
