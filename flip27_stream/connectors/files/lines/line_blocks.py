"""Functions that find lines in bytes, and read blocks of whole lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pyarrow as pa

from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import longs
from flip27_stream.errors import RecordFormatError

BLOCK = 4 << 20
"""The number of bytes that are read at once. A block extends to the end of its last line."""

LONGEST_LINE = 1 << 30
"""The greatest length of a line (bytes)."""

_SEARCH = 64 << 10
_KEPT = 30 << 20  # Larger blocks do not change glibc's threshold (mallopt(3), DEFAULT_MMAP_THRESHOLD_MAX).


@dataclass(frozen=True)
class LineBlock:
    """Some lines, each with its line break.

    Attributes:
        offset: The position of the first line in the file (bytes).
        data: The lines.
        mark: The length of the byte-order mark before the first line (bytes), which counts as part of that line.
        whole: Whether the file is read as a whole, so that all rows have position 0.
    """

    offset: int
    data: bytes
    mark: int = 0
    whole: bool = False

    def positions(self, starts: Int64s) -> pa.Int64Array:
        """Returns the positions of the rows whose lines begin at ``starts`` in the data."""
        if self.whole:
            return longs(np.zeros_like(starts))
        return longs(np.where(starts == 0, self.offset - self.mark, starts + self.offset))

    def cut_at(self, start: int) -> tuple[LineBlock, LineBlock]:
        """Returns the lines before ``start`` in the data, and the other lines."""
        return (
            replace(self, data=self.data[:start]),
            replace(self, offset=self.offset + start, data=self.data[start:], mark=0),
        )


@cache
def keep_freed_memory() -> None:
    """Makes glibc keep freed memory for the next block, once per process.

    Otherwise it returns much of the memory of each block to the system, and the page faults of the next block take a
    fourth of the CPU time. glibc keeps up to twice the size of the largest block that was freed (mallopt(3)).
    """
    bytes(_KEPT)


def line_start(file: pa.NativeFile, position: int) -> int:
    """Returns the position of the first line that begins at or after ``position``, or the end of the file."""
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
    """Yields the bytes that ``read`` returns, in blocks that end with a line. The last line can lack its line break."""
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
                f"Line at byte {offset} of file {path} is longer than {LONGEST_LINE} bytes, the longest "
                "line that is read. If the file does not consist of lines, set option 'files.format' to its format."
            )
    last = b"".join(rest)
    if last:
        yield LineBlock(offset, last)


def starts_of_lines(data: bytes) -> Int64s:
    """Returns the positions at which the lines in ``data`` begin, without its end."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    starts = np.concatenate(([0], ends + 1))
    return starts[:-1] if starts[-1] == len(data) else starts


def bounded(file: pa.NativeFile, begin: int, stop: int) -> Callable[[int], bytes]:
    """Returns a function that reads ``file`` from ``begin`` up to ``stop``, piece by piece."""
    file.seek(begin)

    def read(size: int) -> bytes:
        piece: bytes = file.read(min(size, max(stop - file.tell(), 0)))
        return piece

    return read


def count_lines(read: Callable[[int], bytes]) -> int:
    """Returns the number of line breaks in the bytes that ``read`` returns, which are read in pieces."""
    return sum(piece.count(b"\n") for piece in iter(partial(read, BLOCK), b""))


def line_end(data: bytes, start: int) -> int:
    """Returns the end of the line that begins at ``start``, without its line break."""
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def is_blank(data: bytes, start: int) -> bool:
    """Returns whether the line that begins at ``start`` has only white space."""
    return not data[start : line_end(data, start)].strip()
