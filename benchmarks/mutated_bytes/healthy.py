"""Fetch responses as brokers send them: all versions, codecs and message formats, with few and small records."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kafka.protocol.consumer import FetchResponse

from flip27_stream.connectors.kafka.client.protocol import FETCH_BY_TOPIC_ID, FetchFrom
from flip27_stream.connectors.kafka.fetching.fetch_responses import LEAST_VERSION
from flip27_stream.connectors.kafka.split import TopicPartition
from tests.connectors.kafka.support.batch_bytes import (
    CONTROL,
    DELETE_HORIZON,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    T0,
    TRANSACTIONAL,
    ZSTD,
    BatchRow,
    compressed,
    v2,
    xerial,
)
from tests.connectors.kafka.support.damage import fields_of

TP = TopicPartition("clicks", 3)
OTHER = TopicPartition("clicks", 4)
ASKED = {tp: FetchFrom(0, 1 << 20, "6f1c7f0e-8f5c-4a8e-9d0b-0123456789ab") for tp in (TP, OTHER)}
PRODUCER = 7

HEADER = 61
_MARK = b"where the records are to be"

Pack = Callable[[bytes], bytes]


@dataclass(frozen=True)
class HealthyBatch:
    """A record batch taken apart.

    Attributes:
        header: The header of 61 bytes, without a codec.
        records: The records, not compressed.
        fields: The fields of each record; see :func:`~tests.connectors.kafka.support.damage.fields_of`.
        codec: The number of the codec.
        pack: Compresses records.
        packed: The records, compressed.
    """

    header: bytes
    records: bytes
    fields: list[list[bytes]]
    codec: int
    pack: Pack
    packed: bytes


@dataclass(frozen=True)
class Frame:
    """A response without the records of its first partition, which come between the two parts with their size."""

    version: int
    before: bytes
    behind: bytes

    def around(self, records: bytes) -> bytes:
        """Returns the whole body of a response with these records."""
        return self.before + self.size(len(records)) + records + self.behind

    def size(self, count: int) -> bytes:
        """Returns the encoded size of a field of bytes in this version."""
        if self.version < 12:
            return count.to_bytes(4, "big")
        count, out = count + 1, bytearray()
        while count > 0x7F:
            out.append(count & 0x7F | 0x80)
            count >>= 7
        return bytes([*out, count])


def batches(chance: random.Random, count: int) -> list[HealthyBatch]:
    """Returns a number of batches, with one to six records each. Half of them are not compressed."""
    return [_batch(chance) for _ in range(count)]


def frames() -> list[Frame]:
    """Returns frames of every version, with and without aborted transactions and a second partition."""
    return [
        _frame(version, aborted, other)
        for version in range(LEAST_VERSION, FETCH_BY_TOPIC_ID + 1)
        for aborted in (False, True)
        for other in (False, True)
    ]


def _batch(chance: random.Random) -> HealthyBatch:
    codec = chance.choice([0, 0, 0, 0, 0, 0, GZIP, SNAPPY, SNAPPY, LZ4, LZ4, ZSTD])
    pack: Pack = partial(compressed, codec=codec)
    if codec == SNAPPY and chance.random() < 0.5:
        pack = xerial
    kind = chance.choice([0, 0, 0, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL | TRANSACTIONAL, DELETE_HORIZON])
    producer = chance.choice([-1, PRODUCER])
    rows = [BatchRow(0, T0, b"\0\0\0\1", b"\0" * 6)] if kind & CONTROL else _rows(chance)
    whole = v2(rows, attributes=kind, producer=producer)
    records = whole[HEADER:]
    return HealthyBatch(whole[:HEADER], records, fields_of(records), codec, pack, pack(records))


def _rows(chance: random.Random) -> list[BatchRow]:
    rows, offset = [], 0
    for _ in range(chance.choice([1, 1, 2, 2, 3, 6])):
        headers = [
            (chance.choice(["", "a", "é"]), _blob(chance)) for _ in range(chance.choice([0, 0, 0, 1, 2]))
        ]
        rows.append(
            BatchRow(offset, T0 + chance.randint(-5, 1000), _blob(chance), _blob(chance), tuple(headers))
        )
        offset += chance.choice([1, 1, 1, 3])
    return rows


def _blob(chance: random.Random) -> bytes | None:
    return chance.choice([None, b"", b"k", chance.randbytes(5), b"value " * 2, bytes(70)])


def _frame(version: int, aborted: bool, other: bool) -> Frame:
    kind = FetchResponse.FetchableTopicResponse
    transaction = kind.PartitionData.AbortedTransaction(producer_id=PRODUCER, first_offset=0)
    partitions = [
        kind.PartitionData(
            partition_index=tp.partition,
            error_code=0,
            high_watermark=100,
            last_stable_offset=100,
            log_start_offset=0,
            aborted_transactions=[transaction] if aborted else None,
            preferred_read_replica=-1,
            records=_MARK if tp == TP else b"",
        )
        for tp in ([TP, OTHER] if other else [TP])
    ]
    topic = kind(topic=TP.topic, topic_id=ASKED[TP].topic_id, partitions=partitions)
    answer = FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=[topic])
    body = b"\0" * (version >= 12) + bytes(answer.encode(version=version))
    before, _, behind = body.partition(_MARK)
    return Frame(version, before[: -4 if version < 12 else -1], behind)
