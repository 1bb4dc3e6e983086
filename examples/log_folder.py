"""A source of one's own: a folder of growing files. Each line begins with its event time (ms) and a space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa

from flip27_stream import api
from flip27_stream.reader import DataclassSerializer, IteratorSourceReader, RangeSplit

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema({"file": "string", "number": "int64", "timestamp": TIME, "text": "string"})


@dataclass(frozen=True)
class LogFile(RangeSplit):
    path: str

    @property
    def split_id(self) -> str:
        return Path(self.path).name


@dataclass(frozen=True)
class AssignedFiles:
    paths: tuple[str, ...] = ()


Context = api.SplitEnumeratorContext[LogFile]


def read_lines(split: LogFile) -> Iterator[dict[str, object]]:
    """Returns the lines from ``split.start`` up to ``split.end``. Files are read as bytes: in text a CR ends a line."""
    with open(split.path, "rb") as lines:
        for number, line in enumerate(islice(lines, split.start, split.end), split.start):
            ms, _, text = line.decode().removesuffix("\n").removesuffix("\r").partition(" ")
            yield {"file": split.split_id, "number": number, "timestamp": int(ms) * 1000, "text": text}


class LogFolderEnumerator(api.SplitEnumerator[LogFile, AssignedFiles]):
    def __init__(self, folder: str, context: Context, state: AssignedFiles) -> None:
        self._folder, self._context, self._state = Path(folder), context, state

    def start(self) -> None:
        self._context.call_async(self._list, self._assign)
        self._context.call_async(self._list, self._assign, initial_delay_ms=100, period_ms=100)

    def _list(self) -> list[str]:
        return [str(path) for path in self._folder.iterdir() if path.suffix == ".log"]

    def _assign(self, paths: list[str], error: BaseException | None) -> None:
        if error is not None:
            raise error
        for number, path in enumerate(sorted(set(paths) - set(self._state.paths)), len(self._state.paths)):
            self._context.assign_split(LogFile(path), number % self._context.current_parallelism())
            self._state = AssignedFiles((*self._state.paths, path))

    def split_ranges(self, positions: Mapping[LogFile, int | None]) -> Mapping[str, api.SplitRange]:
        lines = {split: Path(split.path).read_bytes().count(b"\n") for split in positions}
        return {split.split_id: api.SplitRange(at or 0, lines[split]) for split, at in positions.items()}

    def snapshot_state(self) -> AssignedFiles:
        return self._state


@dataclass(frozen=True)
class LogFolder(api.Source[LogFile, AssignedFiles]):
    folder: str
    rows: int = 1000
    boundedness = api.Boundedness.CONTINUOUS_UNBOUNDED
    schema = SCHEMA
    split_serializer = DataclassSerializer(LogFile)
    enumerator_checkpoint_serializer = DataclassSerializer(AssignedFiles)

    @property
    def fingerprint(self) -> str:
        return f"lines of {self.folder}/*.log"

    @property
    def read_limits(self) -> api.ReadLimits:
        return api.ReadLimits(max_rows=self.rows)

    def create_reader(self, context: api.SourceReaderContext) -> IteratorSourceReader[LogFile]:
        return IteratorSourceReader(context, self.schema, read_lines)

    def create_enumerator(self, context: Context) -> LogFolderEnumerator:
        return LogFolderEnumerator(self.folder, context, AssignedFiles())

    def restore_enumerator(self, context: Context, checkpoint: AssignedFiles) -> LogFolderEnumerator:
        return LogFolderEnumerator(self.folder, context, checkpoint)


def log_folder(folder: str, rows: int = 1000) -> LogFolder:
    """Declares the options of a format: the folder, and the number of rows per micro-batch."""
    return LogFolder(folder, rows)
