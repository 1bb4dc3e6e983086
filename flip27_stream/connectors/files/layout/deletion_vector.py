"""Deletion vectors of Delta tables: the sets of deleted rows of data files."""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import unquote
from uuid import UUID
from zlib import crc32

import numpy as np
from pyarrow.fs import FileSystem
from pyroaring import BitMap64

from flip27_stream.api import JsonValue
from flip27_stream.arrays import Int64s
from flip27_stream.connectors.files.local_files import open_file
from flip27_stream.errors import ConnectorError, CorruptRecordError, DataLossError, UnreachableError

_MAGIC: Final = (1681511377).to_bytes(4, "little")
_UUID_CHARS: Final = 20
_OF_PYTHON: Final = bytes.maketrans(
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
"""Translates the alphabet of ZeroMQ's Base85, which Delta uses, to that of Python."""


@dataclass(frozen=True)
class DeletionVector:
    """The set of row numbers that are deleted in a data file (Delta protocol, "Deletion Vector Format").

    Attributes:
        path: The path of the file that has the bitmap; ``None`` if the bitmap is in the log.
        inline: The bitmap in Base85 if it is in the log, otherwise empty.
        offset: The position of the bitmap in its file (bytes).
        size: The size of the bitmap (bytes).
        rows: The number of deleted rows.
    """

    path: str | None
    inline: str
    offset: int
    size: int
    rows: int

    @classmethod
    def of(cls, descriptor: Mapping[str, Any], table: str) -> DeletionVector:
        """Returns the vector that an ``add`` action of the log describes.

        Args:
            descriptor: The field ``deletionVector`` of the action.
            table: The path of the table.

        Raises:
            ConnectorError: The vector lies outside the table, or its storage type is unknown.
        """
        kind, where = descriptor["storageType"], descriptor["pathOrInlineDv"]
        size, rows = int(descriptor["sizeInBytes"]), int(descriptor["cardinality"])
        if kind == "i":
            return cls(None, where, 0, size, rows)
        if kind != "u":
            raise ConnectorError(
                f"The Delta table at {table} has the deletion vector {unquote(where)} of storage type {kind!r}; only "
                "those in the table's own folder ('u') and in its log ('i') are read. A shallow clone has others: read "
                "the table that it was cloned from, or rewrite it with REORG TABLE ... APPLY (PURGE)."
            )
        prefix, name = where[:-_UUID_CHARS], UUID(bytes=_decoded(where[-_UUID_CHARS:]))
        folder = f"{table}/{prefix}" if prefix else table
        return cls(f"{folder}/deletion_vector_{name}.bin", "", int(descriptor.get("offset") or 0), size, rows)

    @cached_property
    def mark(self) -> str:
        """A hash of 16 hexadecimal digits that differs from those of other vectors of the same data file."""
        identity = repr((self.path, self.inline, self.offset)).encode()
        return blake2b(identity, digest_size=8, usedforsecurity=False).hexdigest()

    def deleted_rows(self, fs: FileSystem, data_file: str) -> Int64s:
        """Returns the numbers of the deleted rows, ascending.

        Args:
            fs: The file system of the table.
            data_file: The data file, for errors.

        Raises:
            DataLossError: The vector's file is gone.
            CorruptRecordError: The vector does not decode.
            UnreachableError: The storage did not answer.
        """
        what = f"deletion vector of the parquet file {data_file} ({self.path or 'in the log'})"
        data = _decoded(self.inline)[: self.size] if self.path is None else self._read(fs, self.path, what)
        try:
            if data[:4] != _MAGIC:
                raise ValueError(f"the bitmap begins with {data[:4].hex()}, not {_MAGIC.hex()}")
            found = np.array(BitMap64.deserialize(data[4:]).to_array(), np.int64)
        except (ValueError, OverflowError) as error:
            raise _damaged(what, str(error)) from error
        if len(found) != self.rows:
            raise _damaged(what, f"it has {len(found)} rows, but {self.rows} in the log")
        return found

    def _read(self, fs: FileSystem, path: str, what: str) -> bytes:
        """Reads the bitmap from a file, which has its size, its bytes and their CRC-32. Numbers are big-endian."""
        try:
            with open_file(fs, path) as file:
                data: bytes = file.read_at(self.size + 8, self.offset)
        except FileNotFoundError as error:
            raise DataLossError(
                f"The {what} is gone, so the deleted rows are unknown. Files must stay until they have "
                "been read; to go on without the data file, set option ignoreMissingFiles to true."
            ) from error
        except OSError as error:
            raise UnreachableError(f"The {what} could not be read: {error}") from error
        size, bitmap, checksum = data[:4], data[4:-4], data[-4:]
        if len(data) != self.size + 8 or int.from_bytes(size, "big") != self.size:
            raise _damaged(what, f"at byte {self.offset} it does not have the {self.size} bytes of the log")
        if crc32(bitmap) != int.from_bytes(checksum, "big"):
            raise _damaged(what, "its checksum is not that of its bytes")
        return bitmap

    def to_json(self) -> JsonValue:
        """Returns the form that a split stores."""
        return [self.path, self.inline, self.offset, self.size, self.rows]

    @classmethod
    def from_json(cls, data: object) -> DeletionVector:
        """Returns the vector that :meth:`to_json` wrote.

        Raises:
            ValueError: The data has another form.
        """
        match data:
            case [str() | None as path, str(inline), int(offset), int(size), int(rows)]:
                return cls(path, inline, offset, size, rows)
        raise ValueError(f"not a deletion vector: {data!r}")


def _decoded(text: str) -> bytes:
    """Returns the bytes of a text in ZeroMQ's Base85."""
    return b85decode(text.encode("ascii").translate(_OF_PYTHON))


def _damaged(what: str, why: str) -> CorruptRecordError:
    return CorruptRecordError(
        f"The {what} does not decode: {why}. To skip such files, set option ignoreCorruptFiles to true."
    )
