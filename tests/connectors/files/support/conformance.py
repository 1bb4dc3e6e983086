"""A folder of files as an external system, and the conformance suite over such systems."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_stream.api import ReadLimits, WatermarkStrategy
from flip27_stream.connectors.files import FileSource
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.event_time.assigners import ColumnTimestampAssigner
from flip27_stream.testing import ExternalSystem, SourceConformanceSuite

NOON = 1_700_000_000_000
GROUP = 5
COLUMNS = pa.schema([("split", pa.int64()), ("number", pa.int64()), ("t", pa.int64())])
LIMITS = {
    "max_rows": "maxRowsPerTrigger",
    "max_bytes": "maxBytesPerTrigger",
    "max_files": "maxFilesPerTrigger",
}
STEP_MS = 10
STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ColumnTimestampAssigner("t"))


class FolderSystem(ExternalSystem):
    """A folder in which each write makes a file, since files do not grow. Event times rise by 10 ms within
    the files of a split.
    """

    format = "parquet"

    reads: str = ""
    """The format's name for the source, where it is not that of the files."""
    schema: pa.Schema | None = COLUMNS
    strategy = STRATEGY

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._data, self._hidden, self._away = (folder / name for name in ("data", "hidden", "away"))
        self._data.mkdir()
        self._written: dict[int, int] = {}

    def _source(
        self, options: Mapping[str, str] = MappingProxyType({}), *, bounded: bool = False
    ) -> FileSource:
        given = {
            "path": str(self._data),
            "files.format": self.reads or self.format,
            "source.monitor-interval": "50 ms",
            **options,
        }
        return FileSource(given, self.strategy, schema=self.schema, bounded=bounded)

    @property
    def source(self) -> FileSource:
        return self._source()

    @property
    def bounded(self) -> FileSource:
        return self._source(bounded=True)

    def limited(self, limits: ReadLimits) -> FileSource:
        ((name, limit),) = ((n, v) for n, v in vars(limits).items() if n in LIMITS and v is not None)
        return self._source({LIMITS[name]: str(limit)})

    def write(self, split: int, count: int) -> Sequence[Hashable]:
        first = self._written.get(split, 0)
        numbers = range(first, first + count)
        return self.write_at(split, [NOON + 1000 * split + STEP_MS * n for n in numbers])

    def write_at(self, split: int, times: Sequence[int | None]) -> Sequence[Hashable]:
        first = self._written.get(split, 0)
        self._written[split] = first + len(times)
        rows = [{"split": split, "number": n, "t": t} for n, t in enumerate(times, first)]
        self._put(f"{split}-{first:06}.{self.format}", rows)
        return [(split, row["number"]) for row in rows]

    def _put(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._write(self._hidden, rows)
        self._hidden.rename(self._data / name)

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        pq.write_table(pa.Table.from_pylist(rows, COLUMNS), path, row_group_size=max(GROUP, len(rows) // 10))

    def hide(self, split: int) -> str:
        """Moves the files of a split away. Their times and sizes stay."""
        self._away.mkdir()
        for path in self._data.glob(f"{split}-*"):
            path.rename(self._away / path.name)
        return f"{split}-000000.{self.format}"

    def restore(self, split: int) -> None:
        for path in self._away.glob(f"{split}-*"):
            path.rename(self._data / path.name)
        self._away.rmdir()

    def fail(self) -> None:
        """Makes the folder a link to itself, so that it cannot be opened."""
        self._data.rename(self._away)
        self._data.symlink_to(self._data)

    def recover(self) -> None:
        self._data.unlink()
        self._away.rename(self._data)

    def identify(self, row: dict[str, Any]) -> Hashable:
        return row["split"], row["number"]


class OfFiles(SourceConformanceSuite):
    """The conformance suite over a folder that each test has for itself."""

    folder: type[FolderSystem]
    strategy = STRATEGY
    unit_ms = 1000 * STEP_MS
    splits_finish = True
    large_split = 60_000

    @pytest.fixture(autouse=True)
    def _begin(self, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Retries, "time_limit_s", 0.5)
        monkeypatch.setattr(Retries, "pause_s", 0.1)
        self._folders = tmp_path_factory

    def create_system(self) -> ExternalSystem:
        return self.folder(self._folders.mktemp("system"))
