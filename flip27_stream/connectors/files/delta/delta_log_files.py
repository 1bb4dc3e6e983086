"""The files in the log of a Delta table. Each version has one commit file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyarrow import NativeFile
from pyarrow.fs import FileInfo, FileSelector, FileType

from flip27_stream.connectors.files.local_files import open_file
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.storage_errors import storage_error

_COMMIT: Final = re.compile(r"(\d{20})\.json")


@dataclass(frozen=True)
class LogFiles:
    """The commit files and checkpoints of a Delta table.

    Methods raise :class:`UnreachableError` if the storage does not answer, :class:`ConnectorError` if it refuses
    access.

    Attributes:
        storage: The file system of the table.
        folder: The path of the log.
    """

    storage: Storage
    folder: str

    def read(self, version: int, most: int | None = None) -> bytes | None:
        """Returns the bytes of the commit file of a version; ``None`` without such a file.

        Args:
            version: The version.
            most: The greatest number of bytes to read; ``None`` for all.
        """
        fs, path = self.storage.filesystem(), f"{self.folder}/{version:020d}.json"
        try:
            try:
                with open_file(fs, path) as file:
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
        """Opens a file in the folder of the log.

        Raises:
            OSError: The file cannot be opened.
        """
        return open_file(self.storage.filesystem(), f"{self.folder}/{name}")

    def read_file(self, name: str) -> bytes:
        """Returns the bytes of a file in the folder of the log."""
        try:
            with self.open(name) as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            raise storage_error(f"The Delta log {self.folder}/{name} could not be read", error) from error

    def names(self) -> list[str]:
        """Returns the names of all files in the folder of the log."""
        return [info.base_name for info in self._listed()]

    def _listed(self) -> list[FileInfo]:
        fs, selector = self.storage.filesystem(), FileSelector(self.folder, allow_not_found=True)
        try:
            infos: list[FileInfo] = self.storage.answered(
                lambda: fs.get_file_info(selector), f"Listing the Delta log {self.folder}"
            )
        except OSError as error:
            raise storage_error(f"The Delta log {self.folder} could not be listed", error) from error
        return infos

    def versions(self) -> dict[int, int]:
        """Returns the versions that have a commit file, ascending, with the modification time (ms) of that file."""
        named = ((_COMMIT.fullmatch(info.base_name), info.mtime_ns or 0) for info in self._listed())
        return dict(sorted((int(name[1]), modified // 1_000_000) for name, modified in named if name))

    def first_after(self, version: int) -> int | None:
        """Returns the first version after ``version`` that has a commit file; ``None`` without one."""
        if self.read(version + 1, 1) is not None:
            return version + 1
        return min((found for found in self.versions() if found > version), default=None)
