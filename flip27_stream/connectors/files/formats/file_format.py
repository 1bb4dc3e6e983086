"""The base class of file formats, and the errors of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

from flip27_stream.connectors.files.formats.units import FileUnits, Int64s
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.errors import (
    ConnectorError,
    ContractError,
    CorruptRecordError,
    DataLossError,
    Flip27Error,
    UnreachableError,
)
from flip27_stream.reader import Records

MAX_BATCH_ROWS = 20_000
"""The greatest number of rows in a record batch; larger batches are not faster on their way to the JVM."""


class Malformed(NamedTuple):
    """A malformed record that was left out: its position, and the reason."""

    position: int
    message: str


_DECODING = (OSError, pa.ArrowException, UnicodeDecodeError)


class FileFormat(ABC):
    """A file format. It is picklable and holds configuration only.

    All methods raise :class:`DataLossError` where the file is gone, :class:`CorruptRecordError` where its bytes do not
    decode, :class:`RecordFormatError` where its columns do not fit, :class:`ConnectorError` where the filesystem
    refuses and :class:`UnreachableError` where it does not answer. Messages name file, format and position.
    """

    name: ClassVar[str]
    """The name of the format in option ``files.format``."""

    @property
    def splittable(self) -> bool:
        """Whether each range of a file can be read without reading the others."""
        return True

    @property
    def positions_are_rows(self) -> bool:
        """Whether positions count rows; otherwise they count bytes."""
        return True

    def of_layout(self, layout: FileLayout) -> FileFormat:
        """The format of files with this layout."""
        if layout.columns is not None:
            raise ContractError(f"{self.name} files have no column mapping.")
        return self

    def schema(self, fs: FileSystem, path: str) -> pa.Schema:
        """The file's columns in types that Spark has, all nullable."""
        with self._errors(fs, path), fs.open_input_file(path) as file:
            return self._schema(file, path)

    def units(self, fs: FileSystem, path: str, column: str | None = None, *, scan: bool = True) -> FileUnits:
        """The parts of the file, with event times of ``column`` if it is given.

        Args:
            fs: where the file is.
            path: of the file.
            column: a timestamp, or int64 in ms; in any case. A file without it has no event times.
            scan: read the column where the file has no statistics of it; otherwise it stays unknown.
        """
        with self._errors(fs, path), fs.open_input_file(path) as file:
            return self._units(file, path, column, scan)

    def least_event_time(self, fs: FileSystem, path: str, column: str) -> int | None:
        """The least event time (ms) in the file; cheaper than :meth:`units`."""
        return self.units(fs, path, column).least_event_time

    def read(
        self,
        fs: FileSystem,
        path: str,
        start: int,
        end: int,
        schema: pa.Schema,
        *,
        size: int | None = None,
        dropped: Callable[[Malformed], None] | None = None,
    ) -> Iterator[Records]:
        """The rows from position ``start`` up to, not including, ``end``, as record batches of exactly ``schema``.

        Ranges that meet yield every row once, wherever they are cut. A column that the file lacks is null.

        Args:
            fs: where the file is.
            path: of the file.
            start: position of the first row.
            end: position behind the last one.
            schema: columns wanted, by name in any case; types as Spark's Arrow conversion has them.
            size: bytes that the file should have; a :class:`DataLossError` says where it has been written anew.
            dropped: told of each record that is left out, where options say that malformed ones are.
        """
        position = start
        try:
            with self._errors(fs, path), fs.open_input_file(path) as file:
                if size is not None and (found := file.size()) != size:
                    what = f"{self.name} file {path}"
                    raise written_anew(what, f"had {size} bytes", f"has {found}")
                for read in self._read(file, path, start, end, schema):
                    if isinstance(read, Records):
                        yield read
                        position = _behind(read, position)
                    elif dropped is not None:
                        dropped(read)
        except CorruptRecordError as error:
            if isinstance(error.__cause__, _DECODING):
                raise CorruptRecordError(f"{error} Read up to position {position}.") from error.__cause__
            raise

    @abstractmethod
    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema: ...

    @abstractmethod
    def _units(self, file: pa.NativeFile, path: str, column: str | None, scan: bool) -> FileUnits: ...

    @abstractmethod
    def _read(
        self, file: pa.NativeFile, path: str, start: int, end: int, schema: pa.Schema
    ) -> Iterator[Records | Malformed]: ...

    @contextmanager
    def _errors(self, fs: FileSystem, path: str) -> Iterator[None]:
        try:
            yield
        except Flip27Error:
            raise
        except FileNotFoundError as error:
            raise _gone(f"The {self.name} file {path} is gone.") from error
        except PermissionError as error:
            raise ConnectorError(f"The {self.name} file {path} may not be read: {error}") from error
        except _DECODING as error:
            if isinstance(error, OSError) and not _answers(fs, path):
                if _is_no_file(fs, path):
                    what = f"The {self.name} file {path} is gone, and something else is in its place."
                    raise _gone(what) from error
                raise UnreachableError(f"The {self.name} file {path} could not be read: {error}") from error
            raise CorruptRecordError(
                f"The {self.name} file {path} does not decode: {_sentence(error)} To skip what cannot be read, set "
                "option ignoreCorruptFiles to true."
            ) from error


def _behind(read: Records, position: int) -> int:
    """The position behind ``read``; ``position`` if it has no positions."""
    last: int = read.positions[-1].as_py() + 1 if read.positions is not None and len(read) else position
    return last


def overlapping(borders: Int64s, start: int, end: int) -> list[int]:
    """The units that rows ``start`` to ``end`` touch; empty ones are left out."""
    if start >= end:
        return []
    touched = (borders[:-1] < end) & (borders[1:] > start) & (borders[:-1] < borders[1:])
    return [int(i) for i in np.flatnonzero(touched)]


def shares(size: int, weights: Sequence[int]) -> Int64s:
    """``size`` divided in proportion to ``weights``; the last share takes the rounding error."""
    total = sum(weights) or 1
    ends = [reached * size // total for reached in accumulate(weights)]
    ends[-1:] = [size] * len(weights[-1:])
    return np.array([end - start for start, end in pairwise([0, *ends])], np.int64)


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") + "."


def _answers(fs: FileSystem, path: str) -> bool:
    """Whether the file can be read to its end, so that an error while decoding it means damage."""
    try:
        with fs.open_input_file(path) as file:
            file.read_at(1, max(file.size() - 1, 0))
    except OSError:
        return False
    return True


def _is_no_file(fs: FileSystem, path: str) -> bool:
    """Whether there is a folder at the path, or nothing because a parent folder is a file now."""
    try:
        return bool(fs.get_file_info(path).type in (FileType.Directory, FileType.NotFound))
    except OSError:
        return False


def _gone(what: str) -> DataLossError:
    return DataLossError(
        f"{what} Files must stay until they have been read; to go on without it, set option ignoreMissingFiles to true."
    )


def written_anew(what: str, was: str, is_now: str) -> DataLossError:
    """The error for a file that has changed since it was listed."""
    return DataLossError(
        f"The {what} {was} when it was listed and {is_now} now: it was written anew, and what was planned is gone. "
        "Write files under a temporary name and rename them when they are complete; to go on without them, set option "
        "ignoreMissingFiles to true."
    )
