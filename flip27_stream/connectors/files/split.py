"""A file as a split."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from flip27_stream.api import JsonValue, SimpleVersionedSerializer
from flip27_stream.errors import CorruptCheckpointError
from flip27_stream.reader import RangeSplit

Partition = tuple[tuple[str, str | None], ...]
"""Values of columns that are not in a file, as text; ``None`` for null."""

_ID = re.compile(r"(.+)@(-?\d+)\+(\d+)", re.DOTALL | re.ASCII)


@dataclass(frozen=True)
class FileSplit(RangeSplit):
    """One file, as it was when it was listed: the same path with another time or size is another split.

    Its positions are row numbers in Parquet and ORC files, and byte offsets in files of lines.

    Attributes:
        path: in its filesystem.
        modified: when the file was last written (ms).
        size: bytes.
        partition: values of columns that are not in the file but known from where it is, as text; ``None`` for null.
        length: the position behind the last row, found out when the split was made: a file that was read to its end may
            be gone since.
    """

    path: str
    modified: int
    size: int
    partition: Partition = ()
    length: int = 0

    def __hash__(self) -> int:
        return hash(self.split_id)

    @cached_property
    def split_id(self) -> str:
        return f"{self.path}@{self.modified}+{self.size}"


class FileSplitSerializer(SimpleVersionedSerializer[FileSplit]):
    """``[id, length]``, and the values of partition columns where there are some; the id says all the rest."""

    @property
    def version(self) -> int:
        return 1

    def serialize(self, value: FileSplit) -> JsonValue:
        if not value.partition:
            return [value.split_id, value.length]
        return [value.split_id, value.length, [[name, text] for name, text in value.partition]]

    def deserialize(self, version: int, data: JsonValue) -> FileSplit:
        self.check_version("file split", version)
        match data:
            case [str(name), int(length)]:
                partition: list[JsonValue] = []
            case [str(name), int(length), list(partition)]:
                pass
            case _:
                raise _corrupt(data)
        found = _ID.fullmatch(name)
        if found is None:
            raise _corrupt(data)
        values = tuple(_value(pair, data) for pair in partition)
        return FileSplit(found[1], int(found[2]), int(found[3]), values, length)


def _value(pair: JsonValue, data: JsonValue) -> tuple[str, str | None]:
    match pair:
        case [str(name), str() | None as text]:
            return name, text
    raise _corrupt(data)


def _corrupt(data: JsonValue) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"A file split is stored as ['path@modified+size', length, partition values], not as {data!r:.200}."
    )
