"""The reader of files in a task. It reads planned ranges into record batches."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator, Sequence
from stat import S_ISREG

import pyarrow as pa
from pyarrow.fs import FileSystem

from flip27_stream.api import InputStatus, ReaderOutput, SourceReader, SourceReaderContext
from flip27_stream.connectors.files.formats.file_format import FileFormat, MalformedRecord, written_anew
from flip27_stream.connectors.files.formats.rows import read_rows
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.tolerance import UNREADABLE, Tolerance, metric_of
from flip27_stream.errors import Flip27Error
from flip27_stream.reader import Records
from flip27_stream.time_text import time_text

log = logging.getLogger(__name__)


class FileSourceReader(SourceReader[FileSplit]):
    """A reader that reads one range after the other, in the thread of the task.

    It does not use :class:`SourceReaderBase`, because files need no thread that waits for a server, and to pass batches
    between threads costs a tenth of the rows per second.

    The metrics ``corrupt_files``, ``missing_files`` and ``malformed_records`` count skipped files and records.

    Args:
        context: The context of the task.
        filesystem: The file system of the files.
        format: The format of the files.
        schema: The columns of the rows. Partition columns are not read from the file.
        tolerance: The unreadable files that are skipped.
        compare_times: Whether a file counts as replaced if its modification time differs from that in the listing. Only
            for local files, where the comparison is cheap.

    Raises:
        Flip27Error: See :class:`FileFormat`. The message has file, format and position.
    """

    def __init__(
        self,
        context: SourceReaderContext,
        filesystem: FileSystem,
        format: FileFormat,
        schema: pa.Schema,
        tolerance: Tolerance | None = None,
        *,
        compare_times: bool = False,
    ) -> None:
        self._context = context
        self._filesystem = filesystem
        self._format = format
        self._schema = schema
        self._tolerance = tolerance or Tolerance()
        self._compare_times = compare_times
        self._splits: deque[FileSplit] = deque()
        self._rows_left: Iterator[Records] | None = None

    def add_splits(self, splits: Sequence[FileSplit]) -> None:
        self._splits.extend(splits)

    def notify_no_more_splits(self) -> None:
        """Does nothing: all splits are known from the start."""

    def snapshot_state(self) -> Sequence[FileSplit]:
        return list(self._splits)

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        """Emits one record batch."""
        if not self._splits:
            return InputStatus.END_OF_INPUT
        split = self._splits[0]
        if self._rows_left is None:
            self._rows_left = self._tolerantly(split)
        records = next(self._rows_left, None)
        if records is None:
            self._splits.popleft()
            self._rows_left = None
            output.release_output_for_split(split.split_id)
            return InputStatus.MORE_AVAILABLE
        emit = output.create_output_for_split(split.split_id)
        emit.collect(records.rows, records.timestamps, records.positions)
        if records.positions is not None and len(records):
            self._splits[0] = split.between(int(records.positions[-1].as_py()) + 1, split.end)
        return InputStatus.MORE_AVAILABLE

    def close(self) -> None:
        self._rows_left = None

    def _tolerantly(self, split: FileSplit) -> Iterator[Records]:
        try:
            yield from self._rows(split)
        except UNREADABLE as error:
            if not self._tolerance.allows(error):
                raise
            self._skip(self._splits[0], error)

    def _rows(self, split: FileSplit) -> Iterator[Records]:
        what = f"{self._format.name} file {split.path}"
        opened = _status(split) if self._compare_times else None
        if opened is not None:
            _check_time(split, opened, what)
        dropped: list[MalformedRecord] = []
        yield from read_rows(
            self._format,
            self._filesystem,
            split.path,
            split.start,
            split.end,
            self._schema,
            split.layout,
            size=split.size,
            dropped=dropped.append,
        )
        now = _status(split) if opened is not None else None
        if now is not None and opened is not None and now.st_ino == opened.st_ino:
            _check_time(split, now, what)  # The file may have been overwritten while it was read.
        if dropped:
            self._leave_out(split, dropped)

    def _skip(self, split: FileSplit, error: Flip27Error) -> None:
        log.warning(
            "Rows of split %s from %d to %d are skipped: %s", split.split_id, split.start, split.end, error
        )
        self._context.metric_group().counter(metric_of(error)).inc()

    def _leave_out(self, split: FileSplit, dropped: list[MalformedRecord]) -> None:
        log.warning(
            "%d malformed records of split %s are left out, the first being this one: %s",
            len(dropped),
            split.split_id,
            dropped[0].message,
        )
        self._context.metric_group().counter("malformed_records").inc(len(dropped))


def _status(split: FileSplit) -> os.stat_result | None:
    """Returns the status of a local file; ``None`` if it is missing or not a file (opening it then raises an error)."""
    try:
        # Whatever encoding this Python has for names of files, Arrow opens the file by its name in UTF-8.
        status = os.stat(split.path.encode())
    except OSError:
        return None
    return status if S_ISREG(status.st_mode) else None


def _check_time(split: FileSplit, status: os.stat_result, what: str) -> None:
    """Checks that a local file was not modified since it was listed.

    Raises:
        DataLossError: The file was modified.
    """
    found = FoundFile.of(split.path, status.st_mtime_ns, status.st_size)
    if found.modified != split.modified:
        before, now = (time_text(each, "milliseconds") for each in (split.modified, found.modified))
        raise written_anew(what, f"had modification time {before} UTC", f"has {now} UTC")
