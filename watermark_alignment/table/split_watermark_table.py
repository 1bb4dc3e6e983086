"""The Delta table of split watermarks. It has a row for each split of a group and each micro-batch.

It is written with delta-rs, which needs no JVM, and can be read with delta-spark at the same time. Each batch of a
source is one commit. Delta's application transactions (protocol action ``txn``) make commits idempotent: the
application id is the source id and the id of its checkpoint, the version is the number of the batch.
:mod:`watermark_alignment.table.maintenance` keeps the table small.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final, TypeVar

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Transaction,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileSelector, FileSystem

from flip27_stream.errors import AlignmentError
from flip27_stream.local_calls import answered
from watermark_alignment.table.data_files import NO_HOOKS, active_files, files_added_by, replace_files
from watermark_alignment.table.delta_rs_remedies import RENAME, is_unknown_scheme, remedy
from watermark_alignment.table.split_rows import SCHEMA, SplitRow, as_table, mismatch
from watermark_alignment.table.storage.location_checks import (
    PROBE,
    check_is_location,
    check_place,
    has_hard_links,
    local_folder,
    on_disk_of_driver,
    renames_instead,
    warn_once,
)
from watermark_alignment.table.storage.lost_commits import (
    ASIDE,
    MARK,
    LostCommits,
    commits_before,
    is_in_log,
    is_of_another_table,
    put_commit_aside,
)
from watermark_alignment.table.storage.table_files import exists, files_at
from watermark_alignment.table_location import TABLE_OPTION, for_delta_rs, shown

PROPERTIES: Mapping[str, str] = {
    "delta.logRetentionDuration": "interval 15 minutes",
    "delta.deletedFileRetentionDuration": "interval 15 minutes",
}
"""The properties of a new table. Users can alter them in the table to keep more or less history."""

# empty_table() would import pandas, which takes a third of a second.
_NO_ROWS = pa.Table.from_batches([], SCHEMA)
_ATTEMPTS = 5
_DETAILS = re.compile(r"\.? Known schemes:|\n\s*0: |: ParsedLogPath ")
"""Parts of messages of delta-rs that do not help a user: a list of some fifty schemes, a stack of calls, an object."""
_OWN = re.compile(rf"_delta_log|{PROBE.pattern}|{ASIDE.pattern}")
"""The names of files in the folder of a table that are not of another use."""
_DATA_FILE = re.compile(r"part-.*\.parquet.*")

_T = TypeVar("_T")

_RENAMING = threading.RLock()
"""Held while a thread commits by renaming, so that no two threads of this process make the same version."""

NO_TABLE: Final = "there is no Delta table"
"""The message of :class:`TableNotFoundError` if no other cause is known."""


class NoTableError(AlignmentError):
    """The path has no Delta table. The first aligned query that uses the path creates the table."""


class SplitWatermarkTable:
    """A split-watermark table at a path or URI. Only one thread at a time may write with an object of this class.

    The constructor does no I/O.

    Args:
        uri: The location of the table. Messages show it as it is given, but without credentials.
        storage_options: The options with which delta-rs reaches ``uri``. No message shows their values.
    """

    def __init__(self, uri: str | os.PathLike[str], storage_options: Mapping[str, str]) -> None:
        uri = os.fspath(uri)
        self.uri = for_delta_rs(uri)
        self._given = uri
        self._shown = shown(uri)
        self._options = dict(storage_options)
        self._renames = False
        self._delta: DeltaTable | None = None
        self._batches: dict[str, int] = {}
        self._own: int | None = None
        self._lost = LostCommits()

    def __repr__(self) -> str:
        return f"SplitWatermarkTable({shown(self.uri)!r})"

    def open(self) -> None:
        """Loads the newest version of the table. Creates the table if the path is new or empty.

        Raises:
            AlignmentError: The path has other files or a table with another schema, or cannot be reached.
        """
        with self.failing("cannot be opened"):
            self._choose_how_to_commit()
            delta = self._load_or_repair() or self._create()
        self._check_schema(delta)
        self._begin(delta)

    def open_in_time(self) -> None:
        """Opens the table as :meth:`open` does, with a time limit if it is on a file system of this machine.

        Raises:
            AlignmentError: See :meth:`open`.
            UnreachableError: The file system does not answer.
        """
        if local_folder(self.uri) is None:  # The client of a store has a time limit.
            self.open()
        else:
            answered(self.open, f"Opening the split-watermark table at '{self._shown}'")

    def reload(self) -> None:
        """Loads the newest version of a table that exists, even if it was created again. Creates nothing.

        Raises:
            AlignmentError: See :meth:`load`.
        """
        self._begin(self.load())

    def _begin(self, delta: DeltaTable) -> None:
        self._delta, self._own = delta, None
        self._batches.clear()

    @property
    def delta(self) -> DeltaTable:
        """The handle of the writing thread. The first access calls :meth:`open`."""
        if self._delta is None:
            self.open()
            assert self._delta is not None
        return self._delta

    def files(self) -> FileSystem:
        """Returns a file system rooted in the folder of the table, with data files under the paths in its log."""
        return files_at(self.uri, self._options)

    def append(
        self, app_id: str, batch: int, rows: Sequence[SplitRow] | pa.Table, metadata: Mapping[str, str]
    ) -> bool:
        """Appends the rows of ``batch``, 0 or more, in one commit with ``metadata``.

        Args:
            app_id: The id of the application transaction.
            batch: The number of the batch.
            rows: The rows, or the result of :func:`as_table`.
            metadata: The metadata of the commit.

        Returns:
            True if the rows were written; false if the table already has that batch of ``app_id`` or a later one.

        Raises:
            AlignmentError: The commit failed, also after the newest version of the table was loaded.
        """
        data = rows if isinstance(rows, pa.Table) else as_table(rows)

        def once() -> bool:
            if batch <= self._last_batch(app_id):
                return False
            what = f"did not take the rows of batch {batch}"
            self._commit(data, metadata, what, [Transaction(app_id, version=batch)])
            self._batches[app_id] = batch
            return True

        return self._retried(once)

    def note(self, metadata: Mapping[str, str]) -> int:
        """Makes a commit that has only ``metadata``, and returns its version.

        Raises:
            AlignmentError: The commit failed, also after the newest version of the table was loaded.
        """
        self._retried(lambda: self._commit(_NO_ROWS, metadata, "did not take a commit"))
        return int(self.delta.version())

    def rows(self, *, group: str | None = None, source: str | None = None) -> pa.Table:
        """Returns the rows of the newest version in the order in which they were recorded.

        They can be restricted to one group or source.

        Raises:
            AlignmentError: The table does not exist, or cannot be read.
        """
        wanted = {"group": group, "source": source}
        terms = [equals(column, value) for column, value in wanted.items() if value is not None]
        delta = self.load()
        with self.failing("cannot be read"):
            found = pa.table(delta.scan(SCHEMA.names, " AND ".join(terms) or None)).cast(SCHEMA)
        return found.sort_by([(c, "ascending") for c in ("recorded_at", "source", "batch", "split")])

    def load(self) -> DeltaTable:
        """Returns the newest version of a table that exists, in a new handle. Creates nothing.

        Raises:
            AlignmentError: The table does not exist, has another schema, or cannot be reached.
        """
        with self.failing("cannot be read"):
            check_place(self._given)
            delta = self._load()
            if delta is None:
                raise TableNotFoundError(NO_TABLE)
        self._check_schema(delta)
        return delta

    @contextmanager
    def failing(self, what: str) -> Iterator[None]:
        """Converts every error, including panics of delta-rs, to an :class:`AlignmentError`.

        The message begins with ``what``.
        """
        try:
            with _RENAMING if self._renames else nullcontext():
                yield
        except BaseException as error:  # A panic of delta-rs is not a subclass of Exception.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise self._failure(what, error) from None

    def _failure(self, what: str, error: BaseException) -> AlignmentError:
        """Returns an error with the table and the cause, on one line, without the values of storage options."""
        if isinstance(error, AlignmentError):
            return error
        cause = _DETAILS.split(re.sub(r"\x1b\[\d*m|↳", "", str(error)))[0] or type(error).__name__
        for secret in sorted(self._options.values(), key=len, reverse=True):
            if len(secret) > 3:  # Shorter values are flags and numbers, not credentials.
                cause = cause.replace(secret, "***")
        cause = " ".join(cause.split()).rstrip(".")
        place = f"The split-watermark table at '{self._shown}' {what}"
        if isinstance(error, TableNotFoundError) and str(error) == NO_TABLE:
            folder = local_folder(self.uri)
            if folder is not None and not folder.is_absolute():
                cause += f" in '{folder.absolute()}', to which this relative path leads"
            return NoTableError(
                f"{place}: {cause}. An aligned query creates the table when it starts. Check that "
                f"option {TABLE_OPTION} has this path"
            )
        return AlignmentError(f"{place}. {remedy(self.uri, cause)} The cause: {cause}")

    def _choose_how_to_commit(self) -> None:
        """Decides whether to commit by renaming files. Done once, before anything is created."""
        if self._renames or self._delta is not None:
            return
        check_place(self._given)
        warn_once(on_disk_of_driver(self._given))
        if not has_hard_links(self.uri, self._options):
            self._renames, self._options[RENAME] = True, "true"
            warn_once(renames_instead(self._shown))

    def _load(self) -> DeltaTable | None:
        check_is_location(self.uri)
        try:
            return DeltaTable(self.uri, storage_options=self._options)
        except TableNotFoundError as error:
            if is_unknown_scheme(str(error)):
                raise
            return None

    def _load_or_repair(self) -> DeltaTable | None:
        """Loads the table, also if commits of members are left in the log of a table that was deleted."""
        try:
            return self._load()
        except DeltaError:
            with suppress(DeltaError, OSError):  # The first error says more.
                if self._lost.put_aside(self.files()):
                    return self._load()
            raise

    def _create(self) -> DeltaTable:
        held = self._contents()
        if held:
            # Unless another process has just created the table, the path is in use.
            return self._load() or self._refuse(f"is not a Delta table, its path has {held}: give a new path")
        try:
            DeltaTable.create(
                self.uri,
                SCHEMA,
                mode="ignore",
                description="Watermarks of the splits of every micro-batch",
                configuration=dict(PROPERTIES),
                storage_options=self._options,
            )
        except DeltaError:
            if (created := self._load()) is not None:
                return created
            raise
        return DeltaTable(self.uri, storage_options=self._options)

    def _contents(self) -> str:
        """Returns the name of a file which shows that the path is in use, or an empty text.

        If the table was deleted while this process used it, or a commit was put aside, data files of failed commits may
        be left. Those do not count.
        """
        held = self.files().get_file_info(FileSelector("", allow_not_found=True))
        names = sorted(info.base_name for info in held)
        was_deleted = self._delta is not None or any(ASIDE.fullmatch(name) for name in names)
        others = (name for name in names if not _OWN.fullmatch(name))
        return next((f"'{name}'" for name in others if not was_deleted or not _DATA_FILE.fullmatch(name)), "")

    def _check_schema(self, delta: DeltaTable) -> None:
        schema = pa.schema(delta.schema().to_arrow())
        if why := mismatch(schema, delta.metadata().partition_columns):
            self._refuse(why)

    def _refuse(self, why: str) -> Any:
        raise AlignmentError(f"The split-watermark table at '{self._shown}' {why}")

    def _last_batch(self, app_id: str) -> int:
        """Returns the newest batch of ``app_id``, or -1 if the table has no batch of it.

        The log is read only once: a commit fails if another process has since written as ``app_id``.
        """
        if app_id not in self._batches:
            with self.failing("cannot be read"):
                version = self.delta.transaction_version(app_id)
            self._batches[app_id] = -1 if version is None else version
        return self._batches[app_id]

    def _retried(self, attempt: Callable[[], _T]) -> _T:
        """Runs ``attempt``, again after loading the newest version of the table if it fails.

        It can fail because another process wrote with the same ``app_id``, or because the log after our version was
        cleaned up.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(AlignmentError):
                return attempt()
            self.open()
        return attempt()

    def commit_properties(
        self,
        metadata: Mapping[str, str],
        transactions: Sequence[Transaction] = (),
        *,
        retries: int | None = None,
    ) -> CommitProperties:
        """Returns the properties of a commit, with the mark by which :mod:`lost_commits` knows it."""
        marked = {MARK: str(self.delta.metadata().id), **metadata}
        return CommitProperties(marked, max_commit_retries=retries, app_transactions=list(transactions))

    def _commit(
        self, data: pa.Table, metadata: Mapping[str, str], what: str, transactions: Sequence[Transaction] = ()
    ) -> None:
        """Makes a commit, and looks whether it and its data files are in the table: both may have been deleted.

        Before that, it looks whether another table is at the path now: delta-rs would write to that one.
        """
        with self.failing(what):
            files = self.files()
            if self._own is not None and is_of_another_table(files, self._own, str(self.delta.metadata().id)):
                raise TableNotFoundError("the table was replaced by another one")
            self._write(data, metadata, transactions)
            self._own = version = self.delta.version()
            added = files_added_by(files, version) if data.num_rows else []
            if exists(files, [*commits_before(version), *added]):
                return
            if not is_in_log(files, version):
                put_commit_aside(files, version)
                raise TableNotFoundError("the table was deleted or replaced during the commit")
            if not exists(files, added):
                # This process was suspended before the commit, for so long that a vacuum deleted the file. If the rows
                # cannot be written again, the file stays in the table, and maintenance tells that they are lost.
                self._write(data, metadata, transactions)
                lost = [file for file in active_files(self.delta) if file.path in added]
                replace_files(self.delta, files, lost, [], self.commit_properties(metadata, retries=0))

    def _write(
        self, data: pa.Table, metadata: Mapping[str, str], transactions: Sequence[Transaction]
    ) -> None:
        write_deltalake(
            self.delta,
            data,
            mode="append",
            commit_properties=self.commit_properties(metadata, transactions),
            post_commithook_properties=NO_HOOKS,
        )


def equals(column: str, value: str) -> str:
    """Returns a SQL condition with quoted names: `group` is a keyword, and a source's name can have any characters."""
    return f'"{column}" = ' + "'" + value.replace("'", "''") + "'"
