"""The split of the file source: one file, or a part of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.deletion_vector import DeletionVector
from flip27_stream.connectors.files.layout.file_layout import FileLayout, Partition, version_name
from flip27_stream.errors import CorruptCheckpointError
from flip27_stream.reader import RangeSplit

_ID = re.compile(r"(.+)@(-?\d+)\+(\d+)(?:~[0-9a-f]{16})?", re.DOTALL | re.ASCII)


@dataclass(frozen=True)
class FileSplit(RangeSplit):
    """A file as it was when it was listed. The same path with another time, size or deletion vector is another split.

    Positions are row numbers in Parquet and ORC files, deleted rows included, and byte offsets in files of lines.

    Attributes:
        path: The path in its file system.
        modified: The modification time (ms).
        size: The size (bytes).
        partition: The values of partition columns, which are not in the file, as text; ``None`` for null.
        length: The position after the last row. It is stored, because a file that was read to its end may be deleted.
        deletion: The deletion vector; ``None`` if no rows are deleted.
        columns: The names of the columns in the file. They are not stored, because they are the same for all splits
            of an offset.
    """

    path: str
    modified: int
    size: int
    partition: Partition = ()
    length: int = 0
    deletion: DeletionVector | None = None
    columns: ColumnMapping | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.split_id)

    @cached_property
    def split_id(self) -> str:
        return version_name(f"{self.path}@{self.modified}+{self.size}", self.deletion)

    @property
    def layout(self) -> FileLayout:
        """The partition values, deletion vector and column names with which the rows of the file are read."""
        return FileLayout(self.partition, self.deletion, self.columns)


class FileSplitSerializer(SimpleVersionedSerializer[FileSplit]):
    """Serializes a split as ``[id, length, partition values, deletion vector]``. The id has path, time and size.

    Empty values at the end are left out. Version 1 had no deletion vector.
    """

    version = 2

    def serialize(self, value: FileSplit) -> JsonValue:
        partition: JsonValue = [[name, text] for name, text in value.partition]
        if value.deletion is not None:
            return [value.split_id, value.length, partition, value.deletion.to_json()]
        return (
            [value.split_id, value.length, partition] if value.partition else [value.split_id, value.length]
        )

    def deserialize(self, version: int, data: JsonValue) -> FileSplit:
        self.check_version("file split", version)
        match data:
            case [str(name), int(length)]:
                return _split(data, name, length)
            case [str(name), int(length), list(partition)]:
                return _split(data, name, length, partition)
            case [str(name), int(length), list(partition), list(deletion)] if version > 1:
                return _split(data, name, length, partition, deletion)
        raise _corrupt(data)


def _split(
    data: JsonValue, name: str, length: int, partition: Sequence[JsonValue] = (), deletion: object = None
) -> FileSplit:
    found = _ID.fullmatch(name)
    if found is None:
        raise _corrupt(data)
    try:
        vector = None if deletion is None else DeletionVector.from_json(deletion)
    except ValueError:
        raise _corrupt(data) from None
    values = tuple(_value(pair, data) for pair in partition)
    split = FileSplit(found[1], int(found[2]), int(found[3]), values, length, vector)
    if split.split_id != name:
        raise _corrupt(data)
    return split


def _value(pair: JsonValue, data: JsonValue) -> tuple[str, str | None]:
    match pair:
        case [str(name), str() | None as text]:
            return name, text
    raise _corrupt(data)


def _corrupt(data: JsonValue) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"The file split {data!r:.200} is corrupt: expected ['path@modified+size', length, partition values, "
        "deletion vector]."
    )
