"""Files through the conformance suite: SX-01 to SX-08, CO-11, CO-25, FI-17, alignment, replays."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.files import FileSource
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite
from watermark_alignment.event_time import ColumnTimestampAssigner

NOON = 1_700_000_000_000
GROUP = 5
STEP_MS = 10
STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ColumnTimestampAssigner("t"))


class Folder(ExternalSystem):
    """Each write is a file, since files do not grow; event times rise by 10 ms within the files of a split."""

    format = "parquet"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: dict[int, int] = {}

    @property
    def source(self) -> FileSource:
        schema = pa.schema([("split", pa.int64()), ("number", pa.int64()), ("t", pa.int64())])
        options = {
            "path": str(self._folder / "data"),
            "files.format": self.format,
            "source.monitor-interval": "50 ms",
        }
        (self._folder / "data").mkdir(exist_ok=True)
        return FileSource(options, STRATEGY, schema=schema)

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        first = self._written.get(split, 0)
        numbers = range(first, first + count)
        self._written[split] = first + count
        rows = [{"split": split, "number": n, "t": NOON + 1000 * split + STEP_MS * n} for n in numbers]
        hidden = self._folder / "hidden"
        self._write(hidden, rows)
        (self._folder / "data").mkdir(exist_ok=True)
        hidden.rename(self._folder / "data" / f"{split}-{first:06}.{self.format}")
        return [(split, number) for number in numbers]

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        schema = pa.schema([("split", pa.int64()), ("number", pa.int64()), ("t", pa.int64())])
        pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=GROUP)

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["split"], row["number"]


class Lines(Folder):
    format = "json"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


class Table(Folder):
    """Each write is a commit."""

    @property
    def source(self) -> FileSource:
        self._append([])
        options = {
            "path": str(self._folder / "table"),
            "files.format": "delta",
            "source.monitor-interval": "50 ms",
        }
        return FileSource(options, STRATEGY)

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        first = self._written.get(split, 0)
        self._written[split] = first + count
        numbers = range(first, first + count)
        self._append([{"split": split, "number": n, "t": NOON + 1000 * split + STEP_MS * n} for n in numbers])
        return [(split, number) for number in numbers]

    def _append(self, rows: list[dict[str, Any]]) -> None:
        schema = pa.schema([("split", pa.int64()), ("number", pa.int64()), ("t", pa.int64())])
        write_deltalake(self._folder / "table", pa.Table.from_pylist(rows, schema), mode="append")


class OfFiles(SourceConformanceSuite):
    """In a folder of the test's own."""

    folder: type[Folder]
    strategy = STRATEGY
    unit_ms = 1000 * STEP_MS
    splits_finish = True

    @pytest.fixture(autouse=True)
    def _begin(self, tmp_path: Path) -> None:
        self._in = tmp_path

    def create_system(self) -> ExternalSystem:
        return self.folder(self._in)


class TestParquet(OfFiles):
    folder = Folder
    unit_ms = GROUP * STEP_MS


class TestJson(OfFiles):
    folder = Lines


class TestDelta(OfFiles):
    folder = Table
