"""The files in the log of a Delta table, one for each version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyarrow import NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileType

from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.storage_errors import storage_error

_COMMIT: Final = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class LogFiles:
    """The commits of a Delta table, as files.

    Methods raise :class:`UnreachableError` where the storage does not answer, :class:`ConnectorError` where it refuses.

    Attributes:
        storage: where the table is.
        folder: path of its log.
    """

    storage: Storage
    folder: str

    def read(self, version: int, most: int | None = None) -> bytes | None:
        """The bytes of a version's file, the first ``most`` of them; ``None`` if there is no such file."""
        fs, path = self.storage.filesystem(), f"{self.folder}/{version:020d}.json"
        try:
            try:
                with fs.open_input_file(path) as file:
                    data: bytes = file.read(most)
                    return data
            except FileNotFoundError:
                return None
            except OSError:
                if fs.get_file_info(path).type == FileType.NotFound:
                    return None
                raise
        except OSError as error:
            raise storage_error(f"The Delta log {path} could not be read", error) from error

    def open(self, name: str) -> NativeFile:
        """A file of the log's folder; raises OSError."""
        return self.storage.filesystem().open_input_file(f"{self.folder}/{name}")

    def read_file(self, name: str) -> bytes:
        """The bytes of a file of the log's folder."""
        try:
            with self.open(name) as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            raise storage_error(f"The Delta log {self.folder}/{name} could not be read", error) from error

    def names(self) -> list[str]:
        """The names of all files in the log's folder."""
        return [info.base_name for info in self._listed()]

    def _listed(self) -> list[FileInfo]:
        selector = FileSelector(self.folder, allow_not_found=True)
        try:
            infos: list[FileInfo] = self.storage.filesystem().get_file_info(selector)
        except OSError as error:
            raise storage_error(f"The Delta log {self.folder} could not be listed", error) from error
        return infos

    def versions(self) -> dict[int, int]:
        """The versions that have a file, ascending, with the time (ms) when it was last modified."""
        named = ((_COMMIT.fullmatch(info.base_name), info.mtime_ns or 0) for info in self._listed())
        return dict(sorted((int(name[1]), modified // 1_000_000) for name, modified in named if name))

    def first_after(self, version: int) -> int | None:
        """The first version behind ``version`` that has a file; ``None`` if there is none."""
        if self.read(version + 1, 1) is not None:
            return version + 1
        return min((found for found in self.versions() if found > version), default=None)
