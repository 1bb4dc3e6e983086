"""Lines in bytes: where they begin, and blocks of whole ones."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from flip27_stream.connectors.files.formats.units import Int64s
from flip27_stream.errors import RecordFormatError

BLOCK = 4 << 20
"""Bytes read at once, and up to the end of a line."""

LONGEST_LINE = 1 << 30
"""Bytes of a line at most."""

_SEARCH = 64 << 10
_HEAD = 64 << 10
_PACKED_HEAD = 2 << 20  # bzip2 needs a whole block of 900 KB to begin with
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_UNREADABLE = (".snappy", ".lz4", ".lzo", ".deflate", ".xz", ".zip", ".br")


@dataclass(frozen=True)
class LineBlock:
    """Some lines, each with its end.

    Attributes:
        offset: where the first begins.
        data: the lines.
        mark: length of the encoding's mark before the first line, which counts as part of it.
        whole: whether they are of a file that is read as a whole, so that all rows are at position 0.
    """

    offset: int
    data: bytes
    mark: int = 0
    whole: bool = False

    def positions(self, starts: Int64s) -> pa.Int64Array:
        """Positions of rows whose lines begin at ``starts`` in the data."""
        if self.whole:
            return pa.array(np.zeros_like(starts))
        return pa.array(np.where(starts == 0, self.offset - self.mark, starts + self.offset))

    def cut_at(self, start: int) -> tuple[LineBlock, LineBlock]:
        """The lines before ``start`` in the data, and the others."""
        return (
            replace(self, data=self.data[:start]),
            replace(self, offset=self.offset + start, data=self.data[start:], mark=0),
        )


def codec_of(path: str) -> str | None:
    """How the file is compressed, by its name.

    Raises:
        RecordFormatError: in a way that is not read here.
    """
    extension = os.path.splitext(path)[1].lower()
    if extension in _UNREADABLE:
        raise RecordFormatError(
            f"File {path} is compressed in a way that is not read here. Known are {', '.join(_CODECS)}."
        )
    return _CODECS.get(extension)


def line_start(file: pa.NativeFile, position: int) -> int:
    """Where the first line begins that begins at or after ``position``; the end of the file if there is none."""
    if position <= 0:
        return 0
    size: int = file.size()
    at = min(position, size) - 1
    while 0 <= at < size:
        piece = file.read_at(_SEARCH, at)
        found = piece.find(b"\n")
        if found >= 0:
            return at + int(found) + 1
        at += len(piece)
    return size


def whole_lines(read: Callable[[int], bytes], offset: int, path: str) -> Iterator[LineBlock]:
    """What ``read`` yields, cut behind the ends of lines; the last line may have none."""
    rest: list[bytes] = []
    while piece := read(BLOCK):
        cut = piece.rfind(b"\n") + 1
        if cut:
            block = LineBlock(offset, b"".join([*rest, piece[:cut]]))
            yield block
            offset += len(block.data)
            rest = []
        rest.append(piece[cut:])
        if len(rest) * BLOCK > LONGEST_LINE:
            raise RecordFormatError(
                f"Line at byte {offset} of file {path} is longer than {LONGEST_LINE} bytes. Is it a file of lines?"
            )
    last = b"".join(rest)
    if last:
        yield LineBlock(offset, last)


def head_of(file: pa.NativeFile, codec: str | None) -> bytes:
    """The first bytes of what is in a file."""
    if codec is None:
        return bytes(file.read_at(min(_HEAD, file.size()), 0))
    packed = file.read_at(min(_PACKED_HEAD, file.size()), 0)
    head: bytes = pa.CompressedInputStream(pa.BufferReader(packed), codec).read(_HEAD)
    return head


def unpacked(file: pa.NativeFile, codec: str | None) -> pa.NativeFile:
    """What is in the file, from its start on. Closes the file when it is freed."""
    file.seek(0)
    return file if codec is None else pa.CompressedInputStream(file, codec)


def starts_of_lines(data: bytes) -> Int64s:
    """Where lines begin in ``data``; at its end begins none."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    starts = np.concatenate(([0], ends + 1))
    return starts[:-1] if starts[-1] == len(data) else starts


def bounded(file: pa.NativeFile, begin: int, stop: int) -> Callable[[int], bytes]:
    """Reads ``file`` from ``begin`` up to ``stop``, piece by piece."""
    file.seek(begin)

    def read(size: int) -> bytes:
        piece: bytes = file.read(min(size, max(stop - file.tell(), 0)))
        return piece

    return read


def line_end(data: bytes, start: int) -> int:
    """Where the line that begins at ``start`` ends, without its line break."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def is_blank(data: bytes, start: int) -> bool:
    """Whether there is nothing but white space in the line that begins at ``start``."""
    return not data[start : line_end(data, start)].strip()
