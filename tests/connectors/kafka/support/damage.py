"""Damages one place of record batches, and makes checksums and lengths fit.

Damage that a checksum or a length reveals is found at once. This damage reaches the code that reads the fields.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c
from hypothesis import strategies as st
from kafka.record.util import decode_varint

from flip27_stream.connectors.kafka.records.compression import CODECS
from tests.connectors.kafka.support.batch_bytes import (
    CONTROL,
    DELETE_HORIZON,
    END,
    GZIP,
    LOG_APPEND_TIME,
    LZ4,
    SNAPPY,
    TRANSACTIONAL,
    BatchRow,
    batches,
    compressed,
    v2,
    xerial,
)

_HEADER = 61
_FIELDS = {
    "base_offset": (">q", 0),
    "leader_epoch": (">i", 12),
    "magic": (">b", 16),
    "attributes": (">h", 21),
    "last_delta": (">i", 23),
    "base_timestamp": (">q", 27),
    "max_timestamp": (">q", 35),
    "producer_id": (">q", 43),
    "producer_epoch": (">h", 51),
    "sequence": (">i", 53),
    "count": (">i", 57),
}

extremes = st.sampled_from(
    [0, 1, -1, 2, -2, 63, 64, -64, -65, *(s * 2**b for b in (15, 31, 63) for s in (1, -1))]
)
"""Numbers at the limits of integer types."""

numbers = (
    extremes | extremes.map(lambda number: number - 1) | st.integers(-200, 200) | st.integers(-(2**63), 2**63)
)


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Draws data with one bit, byte or piece changed, removed, repeated or inserted, or with the end cut off."""
    at = draw(st.integers(0, len(data)))
    size = draw(st.integers(0, 1 + min(len(data) - at, 40)))
    head, piece, tail = data[:at], data[at : at + size], data[at + size :]
    return draw(
        st.sampled_from([head, head + tail, head + piece + piece + tail, tail])
        | st.binary(max_size=12).map(lambda new: head + new + tail)
        | st.binary(max_size=12).map(lambda new: head + new + piece + tail)
        | st.integers(0, 7).map(
            lambda bit: head + bytes([(data[at : at + 1] or b"\0")[0] ^ 1 << bit]) + data[at + 1 :]
        )
    )


@st.composite
def varints(draw: st.DrawFn) -> bytes:
    """Draws a number in the form of records, sometimes longer than necessary."""
    number = draw(numbers)
    left, out = (number << 1 ^ number >> 63) & 2**64 - 1, bytearray()
    while True:
        out.append(left & 0x7F | 0x80)
        left >>= 7
        if not left:
            break
    out += b"\x80" * draw(st.sampled_from([0, 0, 0, 1, 4, 9]))
    out[-1] &= 0x7F
    return bytes(out)


def varint(number: int) -> bytes:
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def fields_of(records: bytes) -> list[list[bytes]]:
    """Returns the fields of each record of a batch after its length: numbers, and the bytes whose length they give."""
    at, found = 0, []
    while at < len(records):
        size, at = decode_varint(records, at)
        end = at + size
        fields = [records[at : at + 1]]
        at += 1
        while at < end:
            number, behind = decode_varint(records, at)
            fields.append(records[at:behind])
            at = behind
            # Deltas of time and offset, then key and value, then the number of headers, then their names and values.
            if len(fields) > 3 and len(fields) != _COUNT_AT and number >= 0:
                fields.append(records[at : at + number])
                at += number
            elif len(fields) > 3 and len(fields) != _COUNT_AT:
                fields.append(b"")
        found.append(fields)
    return found


_COUNT_AT = 8


@st.composite
def damaged_records(draw: st.DrawFn, records: bytes) -> bytes:
    """Draws records with a field replaced or damaged. Lengths of records fit, unless a length was damaged."""
    apart = fields_of(records)
    for _ in range(draw(st.integers(1, 2))):
        fields = apart[draw(st.integers(0, len(apart) - 1))]
        at = draw(st.integers(0, len(fields) - 1))
        fields[at] = draw(varints() | damaged_bytes(fields[at]))
    joined = [b"".join(fields) for fields in apart]
    lengths = [varint(len(body)) for body in joined]
    if draw(st.integers(0, 4)) == 0:
        lengths[draw(st.integers(0, len(lengths) - 1))] = draw(varints())
    return b"".join(length + body for length, body in zip(lengths, joined, strict=True))


def sealed(header: bytes | bytearray, records: bytes, **changes: int) -> bytes:
    """Returns a batch of these parts, with a length and a checksum that fit."""
    new = bytearray(header[:_HEADER])
    struct.pack_into(">i", new, 8, _HEADER - 12 + len(records))
    for name, number in changes.items():
        layout, at = _FIELDS[name]
        bits = 8 * struct.calcsize(layout)
        struct.pack_into(layout, new, at, (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))
    struct.pack_into(">I", new, 17, crc32c(bytes(new[21:]) + records))
    return bytes(new) + records


@st.composite
def damaged_batches(draw: st.DrawFn, rows: Sequence[BatchRow]) -> bytes:
    """Draws a batch of format v2 with these rows, and damage to its header, its records, or its compressed bytes."""
    flags = st.sampled_from([0, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL | TRANSACTIONAL, DELETE_HORIZON])
    whole = v2(rows, attributes=draw(flags), producer=draw(st.sampled_from([-1, 7])))
    codec = draw(st.sampled_from([0, *range(len(CODECS))]))
    records, changes = whole[_HEADER:], {"attributes": struct.unpack_from(">h", whole, 21)[0] | codec}
    place = draw(st.sampled_from(["fields", "fields", "bytes", "header", "compressed", "nowhere"]))
    if place == "fields":
        records = draw(damaged_records(records))
    elif place == "bytes":
        records = draw(damaged_bytes(records))
    pack = (
        draw(st.sampled_from([compressed, lambda data, _: xerial(data)])) if codec == SNAPPY else compressed
    )
    payload = pack(records, codec)
    if place == "compressed":
        payload = draw(damaged_bytes(payload))
    elif place == "header":
        for name in draw(st.lists(st.sampled_from(sorted(_FIELDS)), min_size=1, max_size=2)):
            layout, at = _FIELDS[name]
            as_it_is: int = changes.get(name, struct.unpack_from(layout, whole, at)[0])
            changes[name] = draw(numbers | st.integers(as_it_is - 2, as_it_is + 2))
    return sealed(whole, payload, **changes)


@st.composite
def old_logs(draw: st.DrawFn) -> bytes:
    """Draws messages of older formats. Offsets rise from one damaged piece to the next, unless they are the damage."""
    first, pieces = 0, []
    for magic in draw(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=3)):
        first += draw(st.integers(0, 2**40))
        count = draw(st.integers(1, 4))
        pieces.append(draw(damaged_messages(magic, first, count)))
        first += count
    return b"".join(pieces)


@st.composite
def damaged_messages(draw: st.DrawFn, magic: int, first: int, count: int) -> bytes:
    """Draws ``count`` messages of an older format, possibly compressed into one, with a damaged field and fitting
    checksums.

    LZ4 in magic 0 is left out, since kafka-python needs another library for it.
    """
    time = struct.pack(">q", 1_700_000_000_000) if magic else b""
    codec = draw(st.sampled_from([0, GZIP, SNAPPY, *([LZ4] if magic else [])]))
    pairs = [
        (draw(st.none() | st.binary(max_size=9)), draw(st.none() | st.binary(max_size=90)))
        for _ in range(count)
    ]
    inner = [
        [
            struct.pack(">q", (0 if codec and magic else first) + i),
            bytes([magic]),
            b"\0",
            time,
            *old_field(key),
            *old_field(value),
        ]
        for i, (key, value) in enumerate(pairs)
    ]
    damage = draw(st.sampled_from(["inner", "outer", "compressed", "nowhere"]))
    if damage == "inner":
        _damage_one(draw, inner)
    messages = b"".join(old_message(fields) for fields in inner)
    if not codec:
        return messages
    packed = compressed(messages, codec)
    if damage == "compressed":
        packed = draw(damaged_bytes(packed))
    attributes = codec | draw(st.sampled_from([0, 0, LOG_APPEND_TIME]))
    offset = struct.pack(">q", first + count - 1)
    outer = [[offset, bytes([magic]), bytes([attributes]), time, *old_field(None), *old_field(packed)]]
    if damage == "outer":
        _damage_one(draw, outer)
    return old_message(outer[0])


def _damage_one(draw: Any, messages: list[list[bytes]]) -> None:
    fields = messages[draw(st.integers(0, len(messages) - 1))]
    at = draw(st.integers(0, len(fields) - 1))
    as_it_is = fields[at]
    same_size = st.binary(min_size=len(as_it_is), max_size=len(as_it_is))
    fields[at] = draw(same_size if at < 2 else same_size | damaged_bytes(as_it_is))


def old_field(data: bytes | None) -> tuple[bytes, bytes]:
    """Returns a key or value as messages of older formats have it: its length, and its bytes."""
    return (struct.pack(">i", -1), b"") if data is None else (struct.pack(">i", len(data)), data)


def old_message(fields: list[bytes]) -> bytes:
    """Returns a message of an older format, with a length and a checksum that fit. The first field is the offset."""
    offset, *body = fields
    joined = b"".join(body)
    return offset + struct.pack(">iI", 4 + len(joined), zlib.crc32(joined)) + joined


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int, int]:
    """Draws the answer of a broker with a damaged log: a few batches, and possibly raw damage at the end.

    Returns:
        The log, the first offset to read, and the offset before which to stop.
    """
    groups = draw(batches(most_rows=4))
    log = b"".join(draw(damaged_batches(rows)) if draw(st.booleans()) else v2(rows) for rows in groups)
    if draw(st.integers(0, 9)) == 0:
        log = draw(damaged_bytes(log))
    offsets = [row.offset for rows in groups for row in rows]
    start = draw(st.just(0) | st.sampled_from(offsets))
    return log, start, draw(st.just(END) | st.sampled_from([offset for offset in offsets if offset >= start]))
