"""The file system in which the files of a split-watermark table are read and written beside delta-rs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from deltalake.fs import DeltaStorageHandler
from pyarrow import NativeFile
from pyarrow.fs import (
    FileInfo,
    FileSelector,
    FileSystem,
    FileType,
    LocalFileSystem,
    PyFileSystem,
    SubTreeFileSystem,
)

from flip27_stream.threads import of_each
from watermark_alignment.table.storage.location_checks import local_folder

LOG: Final = "_delta_log"
"""The folder of the log in the folder of a table."""
COMMIT: Final = re.compile(r"(\d{20})\.json")
"""The name of the file of a commit."""
UNFINISHED: Final = "#1"
"""The end of the name of a file on this machine while it is written."""

_BOUNDS: Final = {"connect_timeout": "5s", "timeout": "15s", "retry_timeout": "15s"}
"""Storage options with which a call to a store that does not answer ends after 15 s, and not after 3 minutes.

delta-rs (1.6) holds Python's global lock while it reads, lists, writes or deletes a file of a store. So these calls
stop all threads of the process for as long.
"""


def files_at(location: str, options: Mapping[str, str]) -> FileSystem:
    """Returns a file system rooted in the folder of a table. Nothing is read or written yet.

    Files of this machine are used through Arrow, which does not hold Python's global lock: a mount that hangs stops
    only the thread that uses it.

    Args:
        location: A path or URI, as delta-rs takes it.
        options: The storage options.
    """
    folder = local_folder(location)
    if folder is not None:
        return SubTreeFileSystem(str(folder), LocalFileSystem())
    given = {name.lower() for name in options}
    bounds = {name: value for name, value in _BOUNDS.items() if name not in given}
    return PyFileSystem(DeltaStorageHandler(location, {**bounds, **options}))


@contextmanager
def whole_file(files: FileSystem, path: str) -> Iterator[NativeFile]:
    """Yields a file to write, which has its name only when it is complete, as the files of delta-rs.

    Until then it has the name of delta-rs's unfinished files on this machine. Stores have no unfinished files. After an
    error, such as that of a full disk, the unfinished file is deleted, so that it takes no space.
    """
    is_local = isinstance(files, SubTreeFileSystem)
    written = f"{path}{UNFINISHED}" if is_local else path
    try:
        with files.open_output_stream(written) as out:
            yield out
    except Exception:
        if is_local:
            with suppress(OSError):
                files.delete_file(written)
        raise
    if is_local:
        files.move(written, path)


def commit_path(version: int) -> str:
    """Returns the path of the commit of ``version`` in the folder of a table."""
    return f"{LOG}/{version:020}.json"


def commit_times(files: FileSystem) -> dict[int, float]:
    """Returns when the store wrote each commit in the log (s since the epoch), by version."""
    found: list[FileInfo] = files.get_file_info(FileSelector(LOG, allow_not_found=True))
    names = ((COMMIT.fullmatch(info.base_name), info) for info in found)
    return {int(name[1]): info.mtime.timestamp() for name, info in names if name}


def exists(files: FileSystem, paths: Sequence[str]) -> bool:
    """Returns whether all files exist. A store is asked for them at the same time, because each answer takes long."""
    if isinstance(files, SubTreeFileSystem):
        found: list[FileInfo] = files.get_file_info(list(paths))
    else:
        found = of_each(lambda path: files.get_file_info(path), paths, len(paths))
    return all(info.type is not FileType.NotFound for info in found)
