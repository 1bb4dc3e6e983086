"""A folder that is a mapping of files, and a query over it that can stop at any point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from flip27_stream.api import TimestampAssigner
from flip27_stream.connectors.files.backlog.listed_files import ListedFiles, ModifiedFiles
from flip27_stream.connectors.files.backlog.processed_files import ProcessedFiles, ProcessedFilesState
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder, FileStatistics
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.planning.enumerator_state import FilesStateSerializer
from flip27_stream.connectors.files.storage.found_file import FoundFile


class ByColumn(TimestampAssigner):
    """A timestamp assigner for a column. Tests never call it."""

    @property
    def column(self) -> str:
        return "time"

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        raise AssertionError("nothing is read here")


BY_TIME = EventTimeOrder.of(ByColumn())


@dataclass
class FolderModel:
    """Files by path, files that were moved out of the folder, and the event time of each file."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    times: dict[str, int | None] = field(default_factory=dict)
    away: dict[str, FoundFile] = field(default_factory=dict)

    def put(self, path: str, modified: int, time: int | None = None, size: int = 1) -> FoundFile:
        self.files[path] = FoundFile(path, modified, size)
        self.times[path] = time
        return self.files[path]

    def remove(self, path: str) -> None:
        del self.files[path]

    def take_away(self, path: str) -> None:
        self.away[path] = self.files.pop(path)

    def bring_back(self, path: str) -> None:
        self.files[path] = self.away.pop(path)

    def __call__(self) -> list[FoundFile]:
        return list(self.files.values())

    def by_path(self) -> dict[str, list[FoundFile]]:
        return {"folder": self()}

    def least(
        self, paths: Sequence[str], order: EventTimeOrder, layouts: Mapping[str, FileLayout]
    ) -> Mapping[str, int | None]:
        return {path: self.times[path] for path in paths}

    surely_least = least

    def order_named(self, name: str) -> EventTimeOrder:
        return BY_TIME


class FolderQuery:
    """A query that takes files and logs them. It can be stopped at any point, and then takes again the files
    that were not logged.
    """

    def __init__(
        self,
        folder: FolderModel,
        *,
        window: int = 8,
        order: EventTimeOrder | None = None,
        modified: ModifiedFiles = ModifiedFiles.READ,
        fail_on_data_loss: bool = True,
    ) -> None:
        self.folder = folder
        self.order = order
        self.state = ProcessedFilesState()
        self.read: Counter[FoundFile] = Counter()
        self._settings: dict[str, Any] = {"fail_on_data_loss": fail_on_data_loss, "window": window}
        self._modified = modified
        self._batch: list[FoundFile] = []
        self.start()

    def start(self) -> None:
        """Starts a process, which makes its first look."""
        self.files = ListedFiles(
            self.folder.by_path,
            cast(FileStatistics, self.folder),
            ProcessedFiles(self.state, **self._settings),
            self._modified,
            self.order,
        )
        self._batch = []
        self.look()

    def look(self) -> None:
        """Looks for files at once, and takes in the files that are found."""
        self.files._not_before = 0.0
        self.look_when_due()

    def look_when_due(self) -> None:
        """Looks for files unless the last look was too recent."""
        found = self.files.look()
        if found is not None:
            self.files.take_in(found)

    def take(self, count: int) -> list[FoundFile]:
        """Plans up to ``count`` files."""
        processed: list[FoundFile] = []
        while len(processed) < count and (head := self.files.head()) is not None:
            self.files.take(head)
            processed.append(head.file)
        self._batch += processed
        return processed

    def log(self) -> None:
        """Writes the offset, so that the planned files count as read."""
        self.read.update(self._batch)
        self._batch = []
        serializer = FilesStateSerializer()
        stored = serializer.serialize(self.files.snapshot())
        state = serializer.deserialize(serializer.version, stored)
        assert isinstance(state, ProcessedFilesState)
        self.state = state

    def take_all(self) -> None:
        """Looks for files once, and takes and logs them until none is left."""
        self.look()
        while self.take(3):
            self.log()
        assert not len(self.files)
        self.log()
