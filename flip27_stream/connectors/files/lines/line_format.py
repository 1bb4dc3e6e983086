"""The base class of formats with one record in each line. Positions are byte offsets.

A range has the lines that begin in it, so adjacent ranges have every line once at any division of the file. A reader
skips to the first line that begins at or after its start, and reads to the end of its last line, also if that is after
the end of the range. A file that cannot be read from the middle, such as a compressed one, belongs to the range that
has its first byte.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.event_times import (
    NO_TIMES,
    TimeRange,
    check_time_column,
    event_time_columns,
)
from flip27_stream.connectors.files.formats.file_format import (
    MAX_BATCH_ROWS,
    FileFormat,
    MalformedRecord,
    shares,
)
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.lines.compression import codec_of, head_of, unpacked
from flip27_stream.connectors.files.lines.line_blocks import (
    LineBlock,
    bounded,
    count_lines,
    is_blank,
    keep_freed_memory,
    line_end,
    line_start,
    starts_of_lines,
    whole_lines,
)
from flip27_stream.connectors.files.local_files import open_file
from flip27_stream.errors import RecordFormatError
from flip27_stream.reader import Records

_UNIT = 1 << 20
_MOST_UNITS = 1024
_UTF8_MARK = b"\xef\xbb\xbf"


class LineDecoder(ABC):
    """A decoder of lines into rows."""

    few = 1
    """The greatest number of lines that are decoded one by one after :meth:`at_once` has failed."""

    divisible = True
    """Whether every line can be decoded separately."""

    @abstractmethod
    def at_once(self, data: bytes) -> pa.RecordBatch:
        """Returns a row for each line of ``data`` that is not blank.

        Raises:
            pa.ArrowException: Some lines do not decode.
        """

    @abstractmethod
    def one_by_one(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Returns the rows of the good lines, and the reasons why the other lines are bad, by their index."""

    def line_starts(self, data: bytes, rows: int) -> Int64s | None:
        """Returns the position in ``data`` (bytes) at which the line of each row begins.

        The result is ``None`` if a row can have several lines. It is called after :meth:`at_once` with the same
        ``data``.
        """
        starts = starts_of_lines(data)
        if len(starts) != rows:
            starts = np.array([s for s in starts.tolist() if not is_blank(data, s)], np.int64)
        return starts if len(starts) == rows else None


@dataclass(frozen=True)
class LineFormat(FileFormat):
    """The base class of formats with one record in each line.

    Attributes:
        columns: The columns that the user wants, which give the type of an event-time column; ``None`` to infer them.
        drop_malformed: Whether to skip and report lines that do not decode, instead of failing.
    """

    columns: pa.Schema | None = None
    drop_malformed: bool = False

    @property
    def positions_are_rows(self) -> bool:
        return False

    def of_layout(self, layout: FileLayout) -> FileFormat:
        """Returns the format of files that have all columns except partition columns."""
        of_partition = {name.lower() for name, _ in layout.values}
        if self.columns is None or not of_partition:
            return super().of_layout(layout)
        in_file = [one for one in self.columns if one.name.lower() not in of_partition]
        return replace(self, columns=pa.schema(in_file))

    def with_row_counts(self, fs: FileSystem, path: str, units: FileUnits) -> FileUnits:
        """Returns the units with the number of lines that begin in each, which is an upper bound for its rows."""
        with self._errors(fs, path), open_file(fs, path) as file:
            if (codec := codec_of(path)) is not None:
                counts = [count_lines(unpacked(file, codec).read) + 1]
            else:
                counts = [count_lines(bounded(file, *unit)) + 1 for unit in pairwise(units.borders.tolist())]
        return replace(units, rows=np.array(counts, np.int64))

    @abstractmethod
    def _decoder(self, file: pa.NativeFile, path: str, schema: pa.Schema) -> LineDecoder:
        """Returns the decoder that makes rows of ``schema``."""

    def _first_record(self, head: bytes) -> int:
        """Returns the position of the first record, after a byte-order mark and a header."""
        return len(_UTF8_MARK) if head.startswith(_UTF8_MARK) else 0

    def _read(
        self, file: pa.NativeFile, path: str, start: int, end: int, schema: pa.Schema
    ) -> Iterator[Records | MalformedRecord]:
        keep_freed_memory()
        decoder = self._decoder(file, path, schema)
        for block in self._blocks(file, path, start, end):
            yield from self._decoded(decoder, block, path)

    def _blocks(self, file: pa.NativeFile, path: str, start: int, end: int) -> Iterator[LineBlock]:
        codec = codec_of(path)
        head = head_of(file, codec)
        mark, first = (len(_UTF8_MARK) if head.startswith(_UTF8_MARK) else 0), self._first_record(head)
        if codec is None:
            begin = max(line_start(file, start), first)
            blocks = whole_lines(bounded(file, begin, line_start(file, end)), begin, path)
        elif start == 0 < end:
            plain = unpacked(file, codec)
            plain.read(first)
            blocks = (replace(block, whole=True) for block in whole_lines(plain.read, first, path))
        else:
            return
        for block in blocks:
            yield replace(block, mark=mark) if block.offset == mark else block

    def _units(self, file: pa.NativeFile, path: str, column: str | None) -> FileUnits:
        size = file.size()
        whole = not self.splittable or codec_of(path) is not None
        count = 1 if whole else min(-(-size // _UNIT), _MOST_UNITS)
        sizes = shares(size, [1] * (count if size else 0))
        borders = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        times: list[TimeRange | None] = [None] * len(sizes)
        if column is not None:
            times = list(self._event_times(file, path, column, borders))
        least, greatest, known = event_time_columns(times)
        return FileUnits(borders, None, sizes, least, greatest, known, divisible=not whole)

    def _event_times(
        self, file: pa.NativeFile, path: str, column: str, borders: Int64s
    ) -> Iterator[TimeRange]:
        schema = self._schema(file, path) if self.columns is None else self.columns
        index = find_column(schema.names, column)
        if index is None:
            yield from [NO_TIMES] * (len(borders) - 1)
            return
        check_time_column(schema.field(index).type, column, f"{self.name} file {path}")
        only = pa.schema([schema.field(index)])
        for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            found = NO_TIMES
            for read in self._read(file, path, start, end, only):
                if isinstance(read, Records) and isinstance(read.rows, pa.RecordBatch):
                    found |= TimeRange.of_column(read.rows.column(0))
            yield found

    def _decoded(
        self, decoder: LineDecoder, block: LineBlock, path: str
    ) -> Iterator[Records | MalformedRecord]:
        try:
            batch = decoder.at_once(block.data)
            starts = decoder.line_starts(block.data, batch.num_rows)
        except (pa.ArrowException, RecordFormatError) as error:
            if not decoder.divisible:
                raise RecordFormatError(f"The {self.name} file {path} does not decode: {error}") from error
            starts = None
        if starts is None:
            yield from self._decoded_in_parts(decoder, block, path)
            return
        yield from _records(batch, block.positions(starts))

    def _decoded_in_parts(
        self, decoder: LineDecoder, block: LineBlock, path: str
    ) -> Iterator[Records | MalformedRecord]:
        """Yields the rows of a block that does not decode as a whole, by halving it until few lines are left."""
        starts = starts_of_lines(block.data)
        if len(starts) <= decoder.few:
            yield from self._decoded_one_by_one(decoder, block, path)
            return
        for half in block.cut_at(int(starts[len(starts) // 2])):
            yield from self._decoded(decoder, half, path)

    def _decoded_one_by_one(
        self, decoder: LineDecoder, block: LineBlock, path: str
    ) -> Iterator[Records | MalformedRecord]:
        starts = [s for s in starts_of_lines(block.data).tolist() if not is_blank(block.data, s)]
        batch, bad = decoder.one_by_one([block.data[s : line_end(block.data, s)] for s in starts])
        for index, why in bad.items():
            position = block.offset + starts[index]
            reason = why.removesuffix(".")
            message = f"The line at byte {position} of the {self.name} file {path} does not decode: {reason}."
            if not self.drop_malformed:
                raise RecordFormatError(f"{message} To skip such lines, set option mode to DROPMALFORMED.")
            yield MalformedRecord(position, message)
        good = np.array([s for i, s in enumerate(starts) if i not in bad], np.int64)
        yield from _records(batch, block.positions(good))


@contextmanager
def inferring(what: str) -> Iterator[None]:
    """A context in which the types of columns are inferred from the first lines of the file ``what``.

    Raises:
        RecordFormatError: Arrow cannot infer them.
    """
    try:
        yield
    except pa.ArrowException as error:
        raise RecordFormatError(
            f"The types of the columns of {what} cannot be inferred from its first lines: {error}. Give the columns "
            "with .schema(...)."
        ) from error


def _records(batch: pa.RecordBatch, positions: pa.Int64Array) -> Iterator[Records]:
    for first in range(0, batch.num_rows, MAX_BATCH_ROWS):
        some = slice(first, first + MAX_BATCH_ROWS)
        yield Records(batch[some], positions=positions[some])
