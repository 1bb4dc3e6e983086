"""Reads the tail of an ORC file for the rows and statistics of each stripe, which Arrow's reader does not return.

It follows the ORC v1 specification. The file ends with the stripes' statistics, a footer and a postscript. The first
two are Protocol Buffers in compressed chunks; the postscript is not compressed.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import cramjam
import pyarrow as pa

from flip27_stream.decoding.protobuf import DamagedMessageError, fields, varints

_FIRST_READ = 16 << 10
_MAGIC = b"ORC"

TIMESTAMP = 9
"""The number of ORC's type ``timestamp``, a local time."""

_UNKNOWN, _JULIAN = 0, 1
_JAVA = 0


@dataclass(frozen=True)
class Stripe:
    """A stripe of an ORC file.

    Attributes:
        rows: The number of rows.
        size: The size of its data, compressed (bytes).
        times: The least and greatest value by column id: ms for times, the number itself for integers; ``None`` if all
            values are null. Columns without such statistics are left out.
        footer: The position and the length of the stripe's footer (bytes).
    """

    rows: int
    size: int
    times: dict[int, tuple[int, int] | None]
    footer: tuple[int, int]


@dataclass(frozen=True)
class OrcFooter:
    """The stripes and columns of a file.

    Attributes:
        stripes: The stripes in their order.
        columns: The columns at the top level, by name: column id and number of the type.
        compression: The number of the codec, and the size of its blocks (bytes).
        julian: Whether dates before 1582-10-15 are Julian, as in files of Spark and of Hive.
    """

    stripes: tuple[Stripe, ...]
    columns: dict[str, tuple[int, int]]
    compression: tuple[int, int]
    julian: bool


def read_orc_footer(file: pa.NativeFile) -> OrcFooter:
    """Reads the tail of ``file``, in one or two reads.

    Raises:
        pa.ArrowInvalid: The file is not an ORC file, or is damaged.
    """
    size = file.size()
    tail = file.read_at(min(size, _FIRST_READ), max(size - _FIRST_READ, 0))
    if len(tail) < 4 or tail[-4:-1] != _MAGIC:
        raise pa.ArrowInvalid("the file does not end as an ORC file does.")
    length = tail[-1]
    try:
        postscript = _ProtobufMessage(tail[-1 - length : -1])
    except DamagedMessageError as error:
        raise pa.ArrowInvalid(f"the footer is damaged: {error}") from error
    footer_length, metadata_length = postscript.number(1), postscript.number(5)
    needed = 1 + length + footer_length + metadata_length
    if needed > size:
        raise pa.ArrowInvalid(f"its footer would be longer than the {size} bytes of the file.")
    if needed > len(tail):
        tail = file.read_at(needed, size - needed)
    try:
        return _decoded(tail[: len(tail) - 1 - length], postscript)
    except (IndexError, TypeError, ValueError) as error:
        raise pa.ArrowInvalid(f"the footer is damaged: {error}") from error


def writer_zone(file: pa.NativeFile, footer: OrcFooter, stripe: Stripe) -> str:
    """Returns the time zone of the local times in a stripe.

    Raises:
        pa.ArrowInvalid: The stripe's footer is damaged.
    """
    start, length = stripe.footer
    try:
        zones = _ProtobufMessage(_plain(file.read_at(length, start), *footer.compression)).every(3)
        return bytes(zones[-1]).decode() if zones else "UTC"
    except (IndexError, TypeError, ValueError) as error:
        raise pa.ArrowInvalid(f"the footer of its stripe at byte {start} is damaged: {error}") from error


def _decoded(tail: bytes, postscript: _ProtobufMessage) -> OrcFooter:
    """Decodes the footer, which is last in ``tail``, and the statistics before it."""
    compression, block = postscript.number(2), postscript.number(3)
    start = len(tail) - postscript.number(1)
    footer = _ProtobufMessage(_plain(tail[start:], compression, block))
    metadata = _ProtobufMessage(_plain(tail[start - postscript.number(5) : start], compression, block))
    statistics = [[_ProtobufMessage(s) for s in _ProtobufMessage(one).every(1)] for one in metadata.every(1)]
    stripes = [
        _stripe(_ProtobufMessage(one), statistics[i] if i < len(statistics) else [])
        for i, one in enumerate(footer.every(3))
    ]
    columns = _columns([_ProtobufMessage(t) for t in footer.every(4)])
    return OrcFooter(tuple(stripes), columns, (compression, block), _is_julian(footer))


def _is_julian(footer: _ProtobufMessage) -> bool:
    """Returns whether dates before 1582-10-15 are Julian.

    The footer says so; if it does not name a calendar, they are Julian in files of ORC's writer in Java.
    """
    calendar, writer = footer.number(11), footer.number(9)
    return calendar == _JULIAN or (calendar == _UNKNOWN and writer == _JAVA)


def _stripe(message: _ProtobufMessage, statistics: list[_ProtobufMessage]) -> Stripe:
    times = {}
    for column, of_column in enumerate(statistics):
        found = _least_and_greatest(of_column)
        if found is not None or (of_column.has(1) and of_column.number(1) == 0):
            times[column] = found
    offset, index, data, footer, rows = map(message.number, range(1, 6))
    return Stripe(rows, index + data + footer, times, (offset + index + data, footer))


def _least_and_greatest(statistics: _ProtobufMessage) -> tuple[int, int] | None:
    """Returns the least and greatest value of a column of times or integers. Local times are taken as UTC."""
    for field, least, greatest in ((9, 3, 4), (2, 1, 2)):
        if statistics.has(field):
            inner = _ProtobufMessage(statistics.every(field)[0])
            if inner.has(least) and inner.has(greatest):
                return _signed(inner.number(least)), _signed(inner.number(greatest))
    return None


def _columns(types: list[_ProtobufMessage]) -> dict[str, tuple[int, int]]:
    if not types:
        raise pa.ArrowInvalid("its footer has no types.")
    root = types[0]
    ids = [
        number
        for packed in root.every(2)
        for number in ([packed] if isinstance(packed, int) else varints(packed))
    ]
    names = [bytes(name).decode() for name in root.every(3)]
    return {name: (i, types[i].number(1)) for name, i in zip(names, ids, strict=True)}


class _ProtobufMessage:
    """A Protocol Buffers message. Its values are found by field number."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Any]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def has(self, field: int) -> bool:
        return field in self._fields

    def number(self, field: int) -> int:
        """Returns the last number of a field, or 0 if the message lacks the field.

        Raises:
            pa.ArrowInvalid: The value is not a number.
        """
        value = self._fields.get(field, [0])[-1]
        if not isinstance(value, int):
            raise pa.ArrowInvalid(f"its footer is damaged: field {field} of a message is not a number.")
        return value

    def every(self, field: int) -> list[Any]:
        """Returns all values of a field, bytes or numbers."""
        return self._fields.get(field, [])


def _signed(number: int) -> int:
    """Decodes a zigzag number, whose last bit is the sign."""
    return (number >> 1) ^ -(number & 1)


def _plain(data: bytes, compression: int, block: int) -> bytes:
    """Decompresses chunks. Each has a header of three bytes: its length, and whether it is stored uncompressed."""
    if compression == 0:
        return data
    parts, at = [], 0
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (header >> 1)]
        parts.append(chunk if header & 1 else _decompressed(chunk, compression, block))
        at += 3 + (header >> 1)
    return b"".join(parts)


def _decompressed(chunk: bytes, compression: int, block: int) -> bytes:
    try:
        if compression == 1:
            return zlib.decompress(chunk, wbits=-zlib.MAX_WBITS)
        if compression == 2:
            return bytes(cramjam.snappy.decompress_raw(chunk))
        if compression == 4:
            plain = bytearray(block)
            return bytes(plain[: cramjam.lz4.decompress_block_into(chunk, plain)])
        if compression == 5:
            return bytes(cramjam.zstd.decompress(chunk))
    except (zlib.error, cramjam.DecompressionError) as error:
        raise pa.ArrowInvalid(f"its footer does not decompress: {error}") from error
    raise pa.ArrowInvalid(f"its compression is number {compression}, which is not zlib, snappy, lz4 or zstd.")
