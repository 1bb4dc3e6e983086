"""The base class of file formats, and the errors about files."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.formats.event_times import TimeRange, event_time_columns
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.local_files import open_file
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
"""The greatest number of rows in a record batch. Larger batches are not faster on their way to the JVM."""


class MalformedRecord(NamedTuple):
    """A malformed record that was skipped: its position, and the reason."""

    position: int
    message: str


_DECODING = (OSError, pa.ArrowException, UnicodeDecodeError)
_OF_THIS_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT)
"""The errors of system calls that say nothing about the bytes of a file, even if it can be read an instant later."""


class FileFormat(ABC):
    """A file format. It is picklable and has configuration only.

    All methods raise :class:`DataLossError` if the file is gone, :class:`CorruptRecordError` if its bytes do not
    decode, :class:`RecordFormatError` if its columns do not fit, :class:`ConnectorError` if the file system refuses
    access or memory does not suffice, and :class:`UnreachableError` if it does not answer. Messages name file, format
    and position.
    """

    name: ClassVar[str]
    """The name of the format in option ``files.format``."""

    @property
    def splittable(self) -> bool:
        """Whether each range of a file can be read without the ranges before it."""
        return True

    @property
    def positions_are_rows(self) -> bool:
        """Whether positions are row numbers; otherwise they are byte offsets."""
        return True

    def of_layout(self, layout: FileLayout) -> FileFormat:
        """Returns this format, set up for files with ``layout``.

        Raises:
            ContractError: The layout maps columns, which files of this format do not have.
        """
        if layout.columns is not None:
            raise ContractError(f"{self.name} files have no column mapping.")
        return self

    def schema(self, fs: FileSystem, path: str) -> pa.Schema:
        """Returns the file's columns in types that Spark has, all nullable."""
        with self._errors(fs, path), open_file(fs, path) as file:
            return self._schema(file, path)

    def units(self, fs: FileSystem, path: str, column: str | None = None) -> FileUnits:
        """Returns the units of the file, with event times of ``column`` if it is given.

        The column is read if the file has no statistics of it.

        Args:
            fs: The file system.
            path: The path of the file.
            column: The name, in any case, of a timestamp or of an int64 in ms. A file without it has no event times.
        """
        with self._errors(fs, path), open_file(fs, path) as file:
            return self._units(file, path, column)

    def with_row_counts(self, fs: FileSystem, path: str, units: FileUnits) -> FileUnits:
        """Returns the units of the file with the number of rows of each unit, or an upper bound of the number."""
        return units

    def least_event_time(self, fs: FileSystem, path: str, column: str) -> int | None:
        """Returns the least event time (ms) in the file, or ``None``. This is cheaper than :meth:`units`."""
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
        dropped: Callable[[MalformedRecord], None] | None = None,
    ) -> Iterator[Records]:
        """Yields the rows from position ``start`` to before ``end``, as record batches of exactly ``schema``.

        Adjacent ranges yield every row once, wherever the file is divided. A column that the file lacks is null.

        Args:
            fs: The file system.
            path: The path of the file.
            start: The position of the first row.
            end: The position after the last row.
            schema: The columns to return, by name in any case, with the types of Spark's Arrow conversion.
            size: The size (bytes) that the file had when it was listed. Another size raises :class:`DataLossError`.
            dropped: Called with each malformed record that is skipped, if options allow that.
        """
        position = start
        try:
            with self._errors(fs, path), open_file(fs, path) as file:
                if size is not None and (found := file.size()) != size:
                    what = f"{self.name} file {path}"
                    raise written_anew(what, f"had {size} bytes", f"has {found}")
                for read in self._read(file, path, start, end, schema):
                    if isinstance(read, Records):
                        yield read
                        position = _behind(read, position)
                    elif dropped is not None:
                        dropped(read)
                if self.positions_are_rows and position < end:
                    what = f"{self.name} file {path}"
                    raise written_anew(what, f"had at least {end} rows", "has fewer")
        except CorruptRecordError as error:
            if isinstance(error.__cause__, _DECODING):
                raise CorruptRecordError(f"{error} Read up to position {position}.") from error.__cause__
            raise

    @abstractmethod
    def _schema(self, file: pa.NativeFile, path: str) -> pa.Schema: ...

    @abstractmethod
    def _units(self, file: pa.NativeFile, path: str, column: str | None) -> FileUnits: ...

    @abstractmethod
    def _read(
        self, file: pa.NativeFile, path: str, start: int, end: int, schema: pa.Schema
    ) -> Iterator[Records | MalformedRecord]: ...

    @contextmanager
    def _errors(self, fs: FileSystem, path: str) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            raise self._too_large(path, error) from error
        except Flip27Error as error:
            if isinstance(error.__cause__, MemoryError):
                raise self._too_large(path, error.__cause__) from error.__cause__
            raise
        except FileNotFoundError as error:
            raise _gone(f"The {self.name} file {path} is gone.") from error
        except PermissionError as error:
            raise ConnectorError(
                f"The permissions of the {self.name} file {path} do not allow reading it: {error}"
            ) from error
        except _DECODING as error:
            if isinstance(error, OSError) and (error.errno in _OF_THIS_MACHINE or not _answers(fs, path)):
                if _is_no_file(fs, path):
                    what = f"The {self.name} file {path} is gone, and its path is not a file any more."
                    raise _gone(what) from error
                raise UnreachableError(f"The {self.name} file {path} could not be read: {error}") from error
            raise CorruptRecordError(
                f"The {self.name} file {path} does not decode: {_sentence(error)} To skip the rest of such "
                "files, set option ignoreCorruptFiles to true."
            ) from error

    def _too_large(self, path: str, error: MemoryError) -> ConnectorError:
        """Returns an error that does not call the file corrupt, since corrupt files may be skipped."""
        return ConnectorError(
            f"The {self.name} file {path} needs more memory than this process can get: {_sentence(error)} Raise the "
            "limit of its memory (spark.executor.pyspark.memory, spark.executor.memoryOverhead or that of the "
            "container), or write files with smaller row groups, stripes or lines. A damaged file can claim any size: "
            "then remove it."
        )


def _behind(read: Records, position: int) -> int:
    """Returns the position after the last row of ``read``, or ``position`` if ``read`` has no positions."""
    last: int = read.positions[-1].as_py() + 1 if read.positions is not None and len(read) else position
    return last


def overlapping(borders: Int64s, start: int, end: int) -> list[int]:
    """Returns the numbers of the units, without empty ones, that have rows from ``start`` to ``end``."""
    if start >= end:
        return []
    touched = (borders[:-1] < end) & (borders[1:] > start) & (borders[:-1] < borders[1:])
    return [int(i) for i in np.flatnonzero(touched)]


def shares(size: int, weights: Sequence[int]) -> Int64s:
    """Divides ``size`` in proportion to ``weights``. The last share has the rounding error."""
    total = sum(weights) or 1
    ends = [reached * size // total for reached in accumulate(weights)]
    ends[-1:] = [size] * len(weights[-1:])
    return np.array([end - start for start, end in pairwise([0, *ends])], np.int64)


def units_of_rows(
    size: int, rows: Sequence[int], weights: Sequence[int], times: Iterable[TimeRange | None]
) -> FileUnits:
    """Returns the units of a file whose positions are row numbers.

    Args:
        size: The size of the file (bytes).
        rows: The number of rows of each unit.
        weights: The size of each unit (bytes), before or after it is compressed.
        times: The range of event times of each unit; ``None`` if it is unknown.
    """
    least, greatest, known = event_time_columns(times)
    return FileUnits(
        borders=np.array([0, *accumulate(rows)], np.int64),
        rows=np.array(rows, np.int64),
        sizes=shares(size, weights),
        least=least,
        greatest=greatest,
        known=known,
        divisible=False,
    )


def _sentence(error: Exception) -> str:
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".") + "."


def _answers(fs: FileSystem, path: str) -> bool:
    """Returns whether the file can be read to its end, so that an error of the decoder means damage."""
    try:
        with fs.open_input_file(path) as file:
            file.read_at(1, max(file.size() - 1, 0))
    except OSError:
        return False
    return True


def _is_no_file(fs: FileSystem, path: str) -> bool:
    """Returns whether the path is a folder, or does not exist because a parent folder is now a file."""
    try:
        return bool(fs.get_file_info(path).type in (FileType.Directory, FileType.NotFound))
    except OSError:
        return False


def _gone(what: str) -> DataLossError:
    return DataLossError(
        f"{what} Files must stay until they have been read; to go on without it, set option ignoreMissingFiles to true."
    )


def written_anew(what: str, was: str, is_now: str) -> DataLossError:
    """Returns the error for a file that has changed since it was listed."""
    return DataLossError(
        f"The {what} {was} when it was listed and {is_now} now: it was overwritten, and the planned rows are gone. "
        "Write files under a temporary name and rename them when they are complete; to go on without them, set option "
        "ignoreMissingFiles to true."
    )
