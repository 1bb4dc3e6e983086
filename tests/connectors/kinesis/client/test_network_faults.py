"""Kinesis behind a network that refuses, falls silent, cuts connections or is slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from flip27_stream.connectors.kinesis import KinesisSource
from flip27_stream.testing import FaultyNetwork, KinesisServer, Link
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.kit import QUICK, data_of, numbered
from tests.connectors.support.outages import OUTAGES, check_outage, rows_over_bad_link

pytestmark = pytest.mark.node


@pytest.fixture
def link(kinesis: KinesisServer) -> Iterator[Link]:
    with FaultyNetwork() as network:
        yield network.link("kinesis", kinesis.address)


def behind(link: Link, server: KinesisServer, stream: str, **more: str) -> KinesisSource:
    options = {**server.options, **QUICK, "streamName": stream, "endpoint": f"http://{link.address}"}
    return KinesisSource({**options, **more})


class RecordsPastLink:
    """Puts numbered records past the link."""

    def __init__(self, server: KinesisServer, stream: str) -> None:
        self._server, self._stream, self.count = server, stream, 0

    def __call__(self, count: int) -> Sequence[bytes]:
        records = numbered(self.count, count, 2)
        self._server.put(self._stream, records)
        self.count += count
        return [data for _, data in records]


@pytest.mark.parametrize("fault", OUTAGES)
def test_outages_are_named_and_lose_nothing(
    kinesis: KinesisServer, stream: str, link: Link, fault: str
) -> None:
    kinesis.create_stream(stream, 2)
    source, impatient = behind(link, kinesis, stream), behind(link, kinesis, stream, requestTimeout="1 s")
    put = RecordsPastLink(kinesis, stream)
    check_outage(link, OUTAGES[fault], source, impatient, put, lambda row: row["data"])


def test_slow_and_cut_connections_lose_no_record(kinesis: KinesisServer, stream: str, link: Link) -> None:
    """Answers come late, and connections are cut again and again. Every record comes once, without an error."""
    kinesis.create_stream(stream, 2)
    put = RecordsPastLink(kinesis, stream)
    source = behind(link, kinesis, stream, maxRecordsPerTrigger="7")
    with SourceQuery(source) as query:
        rows = rows_over_bad_link(query, link, put)
        rows += query.run(put.count - len(rows))
    assert Counter(data_of(rows)) == Counter(b"%d" % i for i in range(put.count))
