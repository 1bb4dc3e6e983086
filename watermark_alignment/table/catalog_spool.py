"""The spool: files with the rows of a split-watermark table that only the session can write (a table of a catalog).

The planning process has no session. So it writes each commit to a file in a folder of the driver, the *spool*. The
session's :class:`~watermark_alignment.catalog_writer.CatalogTableWriter` moves the rows of these files into the table.
Locks of the operating system on files in the folder show which of these processes run; a lock ends with its process.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from flip27_stream.errors import AlignmentError
from watermark_alignment.options import called
from watermark_alignment.table.file_lock import FileLock
from watermark_alignment.table.split_rows import SplitRow, as_table
from watermark_alignment.table_location import TABLE_OPTION, catalog_name

_SUFFIX: Final = ".arrow"
_MOST_BYTES: Final = 256 << 20
_MOST_FILES: Final = 10_000
_FORMER_PROCESS_S: Final = 20.0
"""The time (s) to wait for the lock of another process, which can live for some seconds after its query."""
_FORMER_RUN_S: Final = 60.0
"""The time (s) to wait for the process of a former run of the same source, which ends, on a busy machine late."""
PAUSE_S: Final = 0.02
"""The time (s) between two attempts to get a lock."""
_LOOKS: Final = 5


@dataclass(frozen=True, slots=True)
class SpooledCommit:
    """One commit in the spool.

    Attributes:
        file: The file with the commit.
        batch: The number of the batch.
    """

    file: Path
    batch: int

    def read(self) -> tuple[str, pa.Table, dict[str, str]]:
        """Returns the id of the application transaction, the rows and the metadata of the commit."""
        with pa.OSFile(str(self.file)) as data, pa.ipc.open_file(data) as reader:
            rows = reader.read_all()
        about = json.loads(rows.schema.metadata[b"commit"])
        return about["app_id"], rows.replace_schema_metadata(None), about["metadata"]


class CatalogSpool:
    """The spool of one table. The constructor does no I/O.

    Args:
        root: The folder of :mod:`~watermark_alignment.table.spool_root`; empty if the session has none.
        table: The name of the table in the catalog.
    """

    def __init__(self, root: str, table: str) -> None:
        self.table = table
        self._root = Path(root) if root else None
        self._group: FileLock | None = None

    def __repr__(self) -> str:
        return f"CatalogSpool({self.table!r})"

    @property
    def folder(self) -> Path:
        """The folder of the spool.

        Raises:
            AlignmentError: The session has no such folder.
        """
        if self._root is None:
            raise AlignmentError(
                f"The split-watermark table '{self.table}' is named by a catalog, so the session must write it, from "
                "the driver. This session has no driver process of its own (Spark Connect), or flip27_stream.register "
                "was not called in it, or its driver can write to no folder for temporary files (set TMPDIR). Give "
                f"option '{TABLE_OPTION}' a path or URI."
            )
        return self._root / _short(catalog_name(self.table) or self.table)

    def create(self) -> None:
        """Creates the folder, which only this user can read and write.

        Raises:
            AlignmentError: The folder cannot be created, or belongs to another user.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = self.folder.parent.parent.stat().st_uid
        except OSError as error:
            raise self._unusable(f"{error.strerror or error}") from error
        if owner != os.getuid():
            raise self._unusable(f"{self.folder.parent.parent} belongs to another user")

    def open(self, group: str, source: str, reads: str = "") -> None:
        """Joins ``group`` until :meth:`close`, after a check for the writer and for other sources of the group.

        Args:
            group: The name of the group.
            source: The id of the source.
            reads: A short name of the topics or paths that the source reads.

        Raises:
            AlignmentError: No session writes the table, or ``group`` has another source.
        """
        self.create()
        if not self.has_writer():
            raise AlignmentError(
                f"The split-watermark table '{self.table}' is named by a catalog, and no session writes it. Before you "
                "start the query, in the session that starts it: spark.streams.addListener(watermark_alignment."
                f"CatalogTableWriter(spark, {self.table!r})); or give option '{TABLE_OPTION}' a path or URI."
            )
        lock, began = FileLock(self.folder / f"{_short(group)}.group"), time.monotonic()
        name = called(source, reads)
        while not lock.acquire():
            holder, _, other = lock.note().partition("\n")
            time_limit_s = _FORMER_RUN_S if holder == source else _FORMER_PROCESS_S
            if time.monotonic() - began > time_limit_s:
                raise AlignmentError(
                    f"Group '{group}' has another source, '{other or holder}', and source '{name}' cannot be "
                    f"aligned with it: sources meet in the split-watermark table, but '{self.table}' is named by "
                    f"a catalog, and written by the session only. Give option '{TABLE_OPTION}' a path or URI that "
                    "both can write, or each source a group of its own."
                )
            time.sleep(PAUSE_S)
        lock.write(f"{source}\n{name}")
        self._group = lock

    def close(self) -> None:
        """Leaves the group."""
        if self._group is not None:
            self._group.release()

    def has_writer(self) -> bool:
        """Returns whether a session writes the table now.

        Another planning process that checks for a writer at the same moment also holds the lock, for a short time.
        """
        lock = self.writer_lock()
        for _ in range(_LOOKS):
            if lock.acquire():
                lock.release()
                return False
            time.sleep(PAUSE_S)
        return True

    def writer_lock(self) -> FileLock:
        """Returns the lock that every writer of the table shares while it lives."""
        return FileLock(self.folder / "writer.lock")

    def append(
        self, app_id: str, batch: int, rows: Sequence[SplitRow] | pa.Table, metadata: Mapping[str, str]
    ) -> bool:
        """Writes a commit to the spool; the same commit again replaces it.

        If temporary files were cleaned up meanwhile, the folder and the lock of the group are made again.

        Returns:
            False, because no version of the table was made.

        Raises:
            AlignmentError: The file cannot be written, or too many commits are in the spool.
        """
        data = rows if isinstance(rows, pa.Table) else as_table(rows)
        about = json.dumps({"app_id": app_id, "metadata": dict(metadata)})
        file = self.folder / f"{_short(app_id)}-{batch:020}{_SUFFIX}"
        self.create()
        try:
            if self._group is not None:
                self._group.acquire()
            self._check_size()
            _replace(file, data.replace_schema_metadata({"commit": about}))
        except OSError as error:
            raise self._unusable(str(error)) from error
        return False

    def pending(self) -> dict[str, list[SpooledCommit]]:
        """Returns the commits in the spool, the oldest first, by a hash of their application id."""
        found: dict[str, list[SpooledCommit]] = {}
        for file in sorted(self.folder.glob(f"*{_SUFFIX}")):
            app, batch = file.stem.split("-")
            found.setdefault(app, []).append(SpooledCommit(file, int(batch)))
        return found

    def _check_size(self) -> None:
        sizes = []
        for entry in os.scandir(self.folder):
            with suppress(FileNotFoundError):  # the session has just written and removed it
                if entry.name.endswith(_SUFFIX):
                    sizes.append(entry.stat().st_size)
        if len(sizes) >= _MOST_FILES or sum(sizes) >= _MOST_BYTES:
            raise AlignmentError(
                f"Rows of the split-watermark table '{self.table}' are not written: {len(sizes)} batches wait in "
                f"folder {self.folder} until the session writes them. The log of the session has the reason: see the "
                "warnings of CatalogTableWriter"
            )

    def _unusable(self, cause: str) -> AlignmentError:
        return AlignmentError(
            f"Rows for the split-watermark table '{self.table}' cannot be put into the driver's folder "
            f"{self.folder}: {cause}. The session and the planning process must be able to write there"
        )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _replace(file: Path, rows: pa.Table) -> None:
    """Writes ``rows`` to ``file``, which appears only when it is complete and on disk. A failure leaves no file."""
    unfinished = file.with_suffix(".unfinished")
    try:
        with unfinished.open("wb") as data:
            with pa.ipc.new_file(data, rows.schema) as writer:
                writer.write_table(rows)
            data.flush()
            os.fsync(data.fileno())
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
