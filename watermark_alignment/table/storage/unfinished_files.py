"""Unfinished files of processes that were killed, in the folder of a split-watermark table on this machine."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from typing import Final

from pyarrow.fs import FileInfo, FileSelector, FileSystem, SubTreeFileSystem

from watermark_alignment.table.storage.location_checks import PROBE

_UNFINISHED: Final = {
    "": re.compile(rf"part-.*\.parquet#\d+|{PROBE.pattern}"),
    "_delta_log": re.compile(
        r"(?:\d{20}\.json|\d{20}\.checkpoint\..*parquet|_last_checkpoint|_commit_.*\.json\.tmp)#\d+"
        r"|_commit_[0-9a-f-]{36}\.json\.tmp"
    ),
}
"""By folder, the names that delta-rs and this project give to files that they have not finished."""


def remove_unfinished(files: FileSystem, before: datetime) -> None:
    """Removes unfinished files that were last written ``before`` a time. Stores have none, and are not listed.

    Args:
        files: The file system of the table, see :func:`~watermark_alignment.table.storage.table_files.files_at`.
        before: The time, with a time zone.
    """
    if not isinstance(files, SubTreeFileSystem):
        return
    for folder, names in _UNFINISHED.items():
        found: list[FileInfo] = files.get_file_info(FileSelector(folder))
        for info in found:
            if names.fullmatch(info.base_name) and info.is_file and info.mtime < before:
                with suppress(FileNotFoundError):  # The round of another member was faster.
                    files.delete_file(info.path)
