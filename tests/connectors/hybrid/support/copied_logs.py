"""Logs with their offsets as a column, and bounded sources of files that rows of logs were copied into."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from flip27_stream.api import Boundedness, InputStatus, ReaderOutput, SourceReaderContext
from tests.connectors.hybrid.support.kit import TimedSource
from tests.spark.support.sources.memory_source import MemoryReader, MemorySource, MemoryWorld

TOPIC_ROWS = pa.schema([("split", pa.string()), ("event_time", pa.int64()), ("offset", pa.int64())])
Copied = tuple[str, int, int]
"""A row of the history: the log it came from, its offset there, its event time."""


class CopyReader(MemoryReader):
    """Reads files of copied rows."""

    def __init__(self, world: MemoryWorld, files: dict[str, list[Copied]]) -> None:
        super().__init__(world)
        self._files = files

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT
        split = self._splits.pop(0)
        rows = self._files[split.name][split.start : split.end]
        columns = [[r[0] for r in rows], [r[2] for r in rows], [r[1] for r in rows]]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(c, f.type) for c, f in zip(columns, TOPIC_ROWS, strict=True)], schema=TOPIC_ROWS
        )
        times = pa.array(columns[1], pa.int64())
        output.create_output_for_split(split.name).collect(batch, times)
        return InputStatus.MORE_AVAILABLE


@dataclass
class CopySource(MemorySource):
    """A bounded source of files that rows of logs were copied into."""

    files: dict[str, list[Copied]] = field(default_factory=dict)

    @property
    def schema(self) -> pa.Schema:
        return TOPIC_ROWS

    def create_reader(self, context: SourceReaderContext) -> CopyReader:
        return CopyReader(self.world, self.files)


def copies(files: dict[str, list[Copied]]) -> CopySource:
    world = MemoryWorld({name: [t for _, _, t in rows] for name, rows in files.items()}, finished=set(files))
    return CopySource(world, Boundedness.BOUNDED, "copies", files=files)


class TopicReader(MemoryReader):
    """Reads logs with their offsets as a column."""

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT
        split = self._splits.pop(0)
        offsets = pa.array(range(split.start, split.end), pa.int64())
        times = pa.array(self._world.logs[split.name][split.start : split.end], pa.int64())
        columns = [pa.array([split.name] * len(times)), times, offsets]
        rows = pa.RecordBatch.from_arrays(columns, schema=TOPIC_ROWS)
        output.create_output_for_split(split.name).collect(rows, times, offsets)
        return InputStatus.MORE_AVAILABLE


class Topic(TimedSource):
    @property
    def schema(self) -> pa.Schema:
        return TOPIC_ROWS

    def create_reader(self, context: SourceReaderContext) -> TopicReader:
        return TopicReader(self.world)
