"""Aggregated records of the Kinesis Producer Library are split up; their checksum and hash keys are checked."""

from __future__ import annotations

import hashlib

from flip27_stream.connectors.kinesis.records.aggregated import MAGIC, hash_key, user_records
from flip27_stream.testing import KinesisServer
from flip27_stream.testing.source_query import SourceQuery
from tests.connectors.kinesis.support.kit import source_of

ALL = 0, 2**128 - 1


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def aggregated(records: list[tuple[str, bytes]], hash_keys: dict[str, int] | None = None) -> bytes:
    """Returns an aggregated record in the form of the KPL's aggregation-format.md."""
    keys = list(dict.fromkeys(key for key, _ in records))
    explicit = hash_keys or {}
    body = b"".join(field(1, key.encode()) for key in keys)
    body += b"".join(field(2, str(value).encode()) for value in explicit.values())
    for key, data in records:
        index = field(2, list(explicit).index(key)) if key in explicit else b""
        body += field(3, field(1, keys.index(key)) + index + field(3, data))
    return MAGIC + body + hashlib.md5(body).digest()


RECORDS = [("a", b"one"), ("b", b"x" * 300), ("a", b"")]


def test_an_aggregated_record_has_its_user_records() -> None:
    parts = user_records(aggregated(RECORDS), *ALL)
    assert parts is not None
    assert [(part.partition_key, part.data, part.number) for part in parts] == [
        (key, data, i) for i, (key, data) in enumerate(RECORDS)
    ]


def test_a_wrong_checksum_makes_it_a_plain_record() -> None:
    """An aggregated record with a wrong checksum is a plain record, as in Amazon's client library."""
    data = bytearray(aggregated(RECORDS))
    data[10] ^= 1
    assert user_records(bytes(data), *ALL) is None


def test_a_record_that_only_begins_like_an_aggregated_one_is_plain() -> None:
    for data in (b"", MAGIC, MAGIC + b"x" * 16, MAGIC + b"\xff" * 40):
        assert user_records(data, *ALL) is None
    body = b"\xff\xff\xff"
    assert user_records(MAGIC + body + hashlib.md5(body).digest(), *ALL) is None


def test_user_records_of_another_shard_are_left_out() -> None:
    """User records whose hash key is not one of the shard are left out: the producer sends them
    again, to their own shard.
    """
    border = hash_key("a")
    parts = user_records(aggregated(RECORDS), border, border)
    assert parts is not None
    assert [part.data for part in parts] == [b"one", b""]
    explicit = user_records(aggregated(RECORDS, {"b": 7}), 0, 10)
    assert explicit is not None
    assert [part.data for part in explicit] == [b"x" * 300]


def test_user_records_are_told_apart_by_sub_sequence_numbers(server: KinesisServer, stream: str) -> None:
    """User records of one aggregated record share its sequence number. Their sub-sequence numbers tell them apart."""
    server.create_stream(stream)
    server.put(stream, [(0, b"plain"), (0, aggregated(RECORDS)), (0, b"last")])
    with SourceQuery(source_of(server, stream, includeSubSequenceNumber="true")) as query:
        rows = query.run(5)
    assert [(row["partitionKey"], row["data"], row["subSequenceNumber"]) for row in rows] == [
        ("key", b"plain", None),
        ("a", b"one", 0),
        ("b", b"x" * 300, 1),
        ("a", b"", 2),
        ("key", b"last", None),
    ]
    assert len({row["sequenceNumber"] for row in rows}) == 3
