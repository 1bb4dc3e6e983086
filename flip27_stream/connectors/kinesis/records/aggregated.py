"""Decodes aggregated records of the Kinesis Producer Library (KPL).

The format of ``aggregation-format.md`` of awslabs/amazon-kinesis-producer: four bytes, a protocol buffer
``AggregatedRecord``, and its MD5 digest. As in the Kinesis Client Library, what does not have all of it is a record as
it stands, and user records whose hash key is not in the shard are left out: the KPL sends them again to the shard that
they belong to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST = 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TABLE_OF_KEYS, _TABLE_OF_HASH_KEYS, _RECORDS = 1, 2, 3
_KEY_INDEX, _HASH_KEY_INDEX, _DATA = 1, 2, 3


@dataclass(frozen=True)
class UserRecord:
    """A record in an aggregated record; ``number`` is its place there."""

    partition_key: str
    data: bytes
    number: int


class _DamagedError(Exception):
    """The bytes are not a valid protocol buffer."""


def user_records(data: bytes, first_hash_key: int, last_hash_key: int) -> list[UserRecord] | None:
    """Returns the user records of this shard in an aggregated record; ``None`` if the record is not aggregated.

    Args:
        data: of a record.
        first_hash_key: of the shard.
        last_hash_key: of the shard.
    """
    body = data[len(MAGIC) : -_DIGEST]
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST:
        return None
    if hashlib.md5(body, usedforsecurity=False).digest() != data[-_DIGEST:]:
        return None
    try:
        return list(_records(body, first_hash_key, last_hash_key))
    except (_DamagedError, IndexError, UnicodeDecodeError, ValueError):
        return None


def _records(body: bytes, first_hash_key: int, last_hash_key: int) -> Iterator[UserRecord]:
    keys: list[str] = []
    hash_keys: list[str] = []
    records: list[bytes] = []
    for number, value in _fields(body):
        if isinstance(value, int):
            continue
        if number == _TABLE_OF_KEYS:
            keys.append(value.decode())
        elif number == _TABLE_OF_HASH_KEYS:
            hash_keys.append(value.decode())
        elif number == _RECORDS:
            records.append(value)
    for place, record in enumerate(records):
        fields = dict(_fields(record))
        key_index, data = fields[_KEY_INDEX], fields[_DATA]
        hash_index = fields.get(_HASH_KEY_INDEX)
        if not isinstance(key_index, int) or not isinstance(data, bytes):
            raise _DamagedError
        key = keys[key_index]
        explicit = int(hash_keys[hash_index]) if isinstance(hash_index, int) else None
        if first_hash_key <= (hash_key(key) if explicit is None else explicit) <= last_hash_key:
            yield UserRecord(key, data, place)


def hash_key(partition_key: str) -> int:
    """Returns the hash key of a partition key. The service chooses the shard by it."""
    return int.from_bytes(hashlib.md5(partition_key.encode(), usedforsecurity=False).digest(), "big")


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the fields of a protocol buffer without fields of fixed size."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
        elif kind == _BYTES:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise _DamagedError
            yield tag >> 3, message[at : at + size]
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise _DamagedError


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise _DamagedError
