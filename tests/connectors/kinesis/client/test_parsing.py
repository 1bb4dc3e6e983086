"""Answers of GetRecords are parsed as botocore does it, whatever the records have."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from flip27_stream.connectors.kinesis.client.client import KinesisClient
from flip27_stream.connectors.kinesis.client.record_pages import parsed
from flip27_stream.connectors.kinesis.client.shard_limits import ShardLimits
from flip27_stream.connectors.kinesis.options.connection_options import KinesisConnectionOptions
from tests.connectors.kinesis.support.answers import answering

DATA = [b"", b"x", b"{}", bytes(range(256)), b'"Data":"', "größe".encode() * 1000]
KEYS = ["key", 'a "Data":"b" c', "\\", "größe", "\n", "Data"]
ANSWER: dict[str, Any] = {
    "Records": [
        {
            "ApproximateArrivalTimestamp": 1795430528.673 + i,
            "Data": base64.b64encode(data).decode(),
            "PartitionKey": key,
            "SequenceNumber": str(10**55 + i),
            "EncryptionType": "NONE",
        }
        for i, (data, key) in enumerate(zip(DATA, KEYS, strict=True))
    ],
    "NextShardIterator": "AAAA",
    "MillisBehindLatest": 7,
}
COMPACT = (",", ":")


@pytest.mark.parametrize("ascii_only", [True, False])
def test_data_are_found_among_similar_bytes(*, ascii_only: bool) -> None:
    """The marks before data may also be in data and in partition keys, where a quote has a backslash."""
    body = json.dumps(ANSWER, separators=COMPACT, ensure_ascii=ascii_only).encode()
    expected = [{**record, "Data": data} for record, data in zip(ANSWER["Records"], DATA, strict=True)]
    assert parsed(body) == {**ANSWER, "Records": expected}
    assert parsed(b'{"Records":[],"MillisBehindLatest":0}') == {"Records": [], "MillisBehindLatest": 0}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(ANSWER).encode(),
        json.dumps(ANSWER, separators=COMPACT).replace("/", "\\/").encode(),
        json.dumps(ANSWER, separators=COMPACT).encode()[:-200],
        b'{"Records":[{"Data":"eA==","PartitionKey":"a"},{"PartitionKey":"b"}]}',
        b"{}",
        b"[]",
        b"",
    ],
)
def test_responses_of_another_form_are_left_to_botocore(body: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        parsed(body)


def test_answers_with_blanks_are_read() -> None:
    """The fake answer has blanks, so botocore parses it."""
    options = KinesisConnectionOptions(
        region="us-east-1", endpoint="http://127.0.0.1:9", access_key="test", secret_key="test"
    )
    with answering(options, "GetRecords", lambda _: (200, ANSWER)):
        page = KinesisClient(options, ShardLimits(0, 1e6)).page("shard", "AAAA", 10, lambda: "AAAA")
    assert [record["Data"] for record in page.records] == DATA
    assert [record["PartitionKey"] for record in page.records] == KEYS
