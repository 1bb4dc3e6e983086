"""A source of one's own, whole: a folder of text files that grow line by line. A file is a split, a line a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitRange,
)
from flip27_stream.reader import DataclassSerializer, IteratorSourceReader, RangeSplit


@dataclass(frozen=True)
class LogFile(RangeSplit):
    path: str

    @property
    def split_id(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True)
class Assigned:
    paths: tuple[str, ...] = ()


def read_lines(split: LogFile) -> Iterator[dict[str, object]]:
    """The lines of a file from number ``split.start`` up to ``split.end``."""
    with open(split.path) as lines:
        for number, line in enumerate(islice(lines, split.start, split.end), split.start):
            yield {"file": split.split_id, "number": number, "line": line.rstrip("\n")}


class LogFolderEnumerator(SplitEnumerator[LogFile, Assigned]):
    def __init__(self, folder: str, context: SplitEnumeratorContext[LogFile], state: Assigned) -> None:
        self._folder = Path(folder)
        self._context = context
        self._state = state

    def start(self) -> None:
        self._context.call_async(self._list, self._assign)
        self._context.call_async(self._list, self._assign, initial_delay_ms=100, period_ms=100)

    def _list(self) -> list[str]:
        return sorted(str(path) for path in self._folder.glob("*.log"))

    def _assign(self, paths: list[str], error: BaseException | None) -> None:
        if error is not None:
            raise error
        for path in (p for p in paths if p not in self._state.paths):
            reader = len(self._state.paths) % self._context.current_parallelism()
            self._context.assign_split(LogFile(path), reader)
            self._state = Assigned((*self._state.paths, path))

    def split_ranges(self, positions: Mapping[LogFile, int | None]) -> Mapping[str, SplitRange]:
        return {
            split.split_id: SplitRange(position or 0, Path(split.path).read_bytes().count(b"\n"))
            for split, position in positions.items()
        }

    def snapshot_state(self) -> Assigned:
        return self._state


@dataclass(frozen=True)
class LogFolder(Source[LogFile, Assigned]):
    folder: str
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED
    schema = pa.schema([("file", pa.string()), ("number", pa.int64()), ("line", pa.string())])
    split_serializer = DataclassSerializer(LogFile)
    enumerator_checkpoint_serializer = DataclassSerializer(Assigned)

    @property
    def fingerprint(self) -> str:
        return f"lines of {self.folder}/*.log"

    def create_reader(self, context: SourceReaderContext) -> SourceReader[LogFile]:
        return IteratorSourceReader(context, self.schema, read_lines)

    def create_enumerator(self, context: SplitEnumeratorContext[LogFile]) -> LogFolderEnumerator:
        return LogFolderEnumerator(self.folder, context, Assigned())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[LogFile], checkpoint: Assigned
    ) -> LogFolderEnumerator:
        return LogFolderEnumerator(self.folder, context, checkpoint)
