"""Decodes aggregated records of the Kinesis Producer Library (KPL).

The format is that of ``aggregation-format.md`` in awslabs/amazon-kinesis-producer: four bytes, a Protocol Buffers
message ``AggregatedRecord``, and its MD5 digest. As in the Kinesis Client Library (KCL), a record without one of these
parts is not an aggregated record. User records whose hash key is not in the shard are left out: the KPL sends them
again to the right shard. The KCL also leaves out the user records that follow the first one of these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from flip27_stream.decoding.protobuf import DamagedMessageError, fields

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST = 16
_TABLE_OF_KEYS, _TABLE_OF_HASH_KEYS, _RECORDS = 1, 2, 3
_KEY_INDEX, _HASH_KEY_INDEX, _DATA = 1, 2, 3


@dataclass(frozen=True)
class UserRecord:
    """A record within an aggregated record; ``number`` is its index there."""

    partition_key: str
    data: bytes
    number: int


def user_records(data: bytes, first_hash_key: int, last_hash_key: int) -> list[UserRecord] | None:
    """Returns the user records of this shard in an aggregated record; ``None`` if the record is not aggregated.

    Args:
        data: The data of the record.
        first_hash_key: The least hash key of the shard.
        last_hash_key: The greatest hash key of the shard.
    """
    body = data[len(MAGIC) : -_DIGEST]
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST:
        return None
    if hashlib.md5(body, usedforsecurity=False).digest() != data[-_DIGEST:]:
        return None
    try:
        return list(_records(body, first_hash_key, last_hash_key))
    except (IndexError, ValueError):
        return None


def _records(body: bytes, first_hash_key: int, last_hash_key: int) -> Iterator[UserRecord]:
    keys: list[str] = []
    hash_keys: list[str] = []
    records: list[bytes] = []
    for number, value in fields(body):
        if isinstance(value, int):
            continue
        if number == _TABLE_OF_KEYS:
            keys.append(value.decode())
        elif number == _TABLE_OF_HASH_KEYS:
            hash_keys.append(value.decode())
        elif number == _RECORDS:
            records.append(value)
    for place, record in enumerate(records):
        found = dict(fields(record))
        key_index, data = found.get(_KEY_INDEX), found.get(_DATA)
        hash_index = found.get(_HASH_KEY_INDEX)
        if not isinstance(key_index, int) or not isinstance(data, bytes):
            raise DamagedMessageError("the message has a record without a key or data")
        key = keys[key_index]
        explicit = int(hash_keys[hash_index]) if isinstance(hash_index, int) else None
        if first_hash_key <= (hash_key(key) if explicit is None else explicit) <= last_hash_key:
            yield UserRecord(key, data, place)


def hash_key(partition_key: str) -> int:
    """Returns the hash key of a partition key, by which the service chooses the shard."""
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest(), "big")
