"""Random damage to bytes and to the fields of record batches. It takes some microseconds."""

from __future__ import annotations

import gzip
import random
import struct

import cramjam
from crc32c import crc32c

from benchmarks.mutated_bytes.healthy import HEADER, HealthyBatch
from tests.connectors.kafka.support.batch_bytes import (
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    ZSTD,
    compressed,
    some_rows,
    v2,
    xerial,
)
from tests.connectors.kafka.support.damage import old_field, old_message, varint

_EXTREMES = [
    0,
    1,
    -1,
    2,
    -2,
    63,
    64,
    -64,
    -65,
    *(s * 2**b + d for b in (15, 31, 63) for s in (1, -1) for d in (0, -1)),
]
_HEADER_FIELDS = (
    (">q", 0),
    (">i", 12),
    (">h", 21),
    (">i", 23),
    (">q", 27),
    (">q", 35),
    (">q", 43),
    (">i", 57),
)
_MAGIC_AT, _ATTRIBUTES_AT = 16, 21


def number(chance: random.Random) -> int:
    """Returns a number at which an integer may overflow, or one near zero."""
    return chance.choice(_EXTREMES) if chance.random() < 0.5 else chance.randint(-200, 200)


def damaged_bytes(chance: random.Random, data: bytes) -> bytes:
    """Returns the bytes with damage.

    A bit, a byte or several bytes are changed, removed, repeated or inserted, or the end is missing.
    """
    at = chance.randrange(len(data) + 1)
    behind = at + chance.randrange(min(len(data) - at, 12) + 1)
    what = chance.randrange(8)
    if what < 3 and at < len(data):
        changed = data[at] ^ 1 << chance.randrange(8) if what < 2 else chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        return data[:at] + bytes((changed,)) + data[at + 1 :]
    if what == 3:
        return data[:at]
    if what == 4:
        return data[:at] + data[behind:]
    if what == 5:
        return data[:at] + data[at:behind] * 2 + data[behind:]
    return data[:at] + chance.randbytes(chance.randrange(9)) + data[behind if what == 6 else at :]


def damaged_records(chance: random.Random, batch: HealthyBatch) -> bytes:
    """Returns records with one field replaced or damaged.

    The lengths of the records fit, unless that field is a length.
    """
    apart = [list(fields) for fields in batch.fields]
    for _ in range(chance.choice((1, 1, 2))):
        fields = apart[chance.randrange(len(apart))]
        at = chance.randrange(len(fields))
        fields[at] = _varint(chance) if chance.random() < 0.5 else damaged_bytes(chance, fields[at])
    joined = [b"".join(fields) for fields in apart]
    lengths = [varint(len(body)) for body in joined]
    if chance.random() < 0.15:
        lengths[chance.randrange(len(lengths))] = _varint(chance)
    return b"".join(length + body for length, body in zip(lengths, joined, strict=True))


def damaged_header(chance: random.Random, header: bytes) -> bytes:
    """Returns a header with one or two fields replaced."""
    changed = bytearray(header)
    for _ in range(chance.choice((1, 1, 2))):
        layout, at = chance.choice(_HEADER_FIELDS)
        if layout == ">h":
            new = struct.unpack_from(layout, changed, at)[0] ^ 1 << chance.randrange(8)
        elif chance.random() < 0.5:
            new = struct.unpack_from(layout, changed, at)[0] + chance.randint(-2, 2)
        else:
            new = number(chance)
        bits = 8 * struct.calcsize(layout)
        struct.pack_into(layout, changed, at, (new + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))
    if chance.random() < 0.02:
        changed[_MAGIC_AT] = chance.choice((0, 1, 3, 0xFF))
    return bytes(changed)


def sealed(header: bytes, payload: bytes, codec: int) -> bytes:
    """Returns a batch of these parts, with a correct length and checksum."""
    new = bytearray(header)
    struct.pack_into(">i", new, 8, HEADER - 12 + len(payload))
    new[_ATTRIBUTES_AT + 1] |= codec
    struct.pack_into(">I", new, 17, crc32c(payload, crc32c(new[21:])))
    return bytes(new) + payload


def bombs(size: int) -> dict[str, bytes]:
    """Returns batches of some kilobytes whose records decompress to a given number of zeros, by codec."""
    piece = bytes(1 << 20)
    times = size // len(piece)
    block = bytes(cramjam.snappy.compress_raw(piece))
    framed = struct.pack(">i", len(block)) + block
    packed = {
        "gzip": (GZIP, gzip.compress(piece) * times),
        "snappy": (SNAPPY, b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed * times),
        "lz4": (LZ4, bytes(cramjam.lz4.compress(piece)) * times),
        "zstd": (ZSTD, bytes(cramjam.zstd.compress(piece)) * times),
    }
    header = v2(some_rows(1))[:HEADER]
    return {name: sealed(header, payload, codec) for name, (codec, payload) in packed.items()}


def _varint(chance: random.Random) -> bytes:
    """Returns a number in the encoding of records, sometimes longer than necessary."""
    value = number(chance)
    left, out = (value << 1 ^ value >> 63) & 2**64 - 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    if chance.random() < 0.2:
        padding = chance.choice((1, 3, 8))
        return bytes([*out, left | 0x80, *[0x80] * (padding - 1), 0])
    return bytes([*out, left])


def old_messages(chance: random.Random) -> bytes:
    """Returns messages of an older format, sometimes compressed, with a damaged field and correct checksums."""
    magic = chance.randrange(2)
    codec = chance.choice((0, 0, GZIP, SNAPPY, SNAPPY, *((LZ4,) if magic else ())))
    count, first = chance.randint(1, 4), chance.choice((0, 5, 2**40))
    inner = [_old_fields(chance, magic, 0, (0 if codec and magic else first) + i) for i in range(count)]
    place = chance.choice(("inner", "inner", "outer", "packed", "nowhere"))
    if place == "inner":
        _damage_one(chance, chance.choice(inner))
    messages = b"".join(map(old_message, inner))
    if not codec:
        return messages
    pack = xerial if codec == SNAPPY and chance.random() < 0.5 else None
    packed = pack(messages) if pack is not None else compressed(messages, codec)
    if place == "packed":
        packed = damaged_bytes(chance, packed)
    attributes = codec | chance.choice((0, 0, LOG_APPEND_TIME))
    outer = _old_fields(chance, magic, attributes, first + count - 1)
    outer[-4:] = [*old_field(None), *old_field(packed)]
    if place == "outer":
        _damage_one(chance, outer)
    return old_message(outer)


def _old_fields(chance: random.Random, magic: int, attributes: int, offset: int) -> list[bytes]:
    time = struct.pack(">q", 1_700_000_000_000 + chance.randrange(9)) if magic else b""
    key, value = (chance.choice((None, b"", b"key", bytes(40))) for _ in range(2))
    return [
        struct.pack(">q", offset),
        bytes((magic,)),
        bytes((attributes,)),
        time,
        *old_field(key),
        *old_field(value),
    ]


def _damage_one(chance: random.Random, fields: list[bytes]) -> None:
    at = chance.randrange(len(fields))
    size = len(fields[at])
    fields[at] = (
        chance.randbytes(size) if at < 2 or chance.random() < 0.3 else damaged_bytes(chance, fields[at])
    )
