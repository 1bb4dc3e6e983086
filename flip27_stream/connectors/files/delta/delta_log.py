"""The log of a Delta table. It has the files of a snapshot and the files that later commits added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from flip27_stream.connectors.files.delta.deletion_vectors import deletion_vectors
from flip27_stream.connectors.files.delta.delta_commit import (
    Action,
    Commit,
    DataFile,
    TableColumns,
    actions,
    all_of,
)
from flip27_stream.connectors.files.delta.delta_features import (
    check_configuration,
    check_protocol,
    is_coordinated,
    refuse_unreadable,
)
from flip27_stream.connectors.files.delta.delta_log_files import LogFiles
from flip27_stream.connectors.files.delta.delta_snapshot import data_files
from flip27_stream.connectors.files.delta.delta_times import first_since, in_commit_timestamp
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.deletion_vector import DeletionVector
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.storage_errors import (
    cause,
    credentials_remedy,
    is_incomplete,
    storage_error,
)
from flip27_stream.errors import ConnectorError, DataLossError, OptionError, UnreachableError
from flip27_stream.options.iso_times import epoch_ms
from flip27_stream.threads import of_each

T = TypeVar("T")

_ELSEWHERE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_MARK_BYTES: Final = 4096
_WITHOUT_CHECKPOINT: Final = (
    " If this error stays, and all commits are in _delta_log, delete the file _last_checkpoint there: it names a "
    "checkpoint that is gone."
)
_THREADS: Final = 24


@dataclass(frozen=True)
class TableState:
    """The state of a table at one version.

    Attributes:
        table: The id of the table. A table that is created again at the same place has another id.
        version: The version.
        columns: The columns of the table.
    """

    table: str
    version: int
    columns: TableColumns


@dataclass(frozen=True)
class DeltaLog:
    """The log of a Delta table.

    All methods raise :class:`UnreachableError` if the storage does not answer, the table does not exist, or its log is
    being written. They raise :class:`ConnectorError` if the storage refuses access, the log does not decode, or the
    table has features that are not supported.

    Attributes:
        uri: The URI of the table for delta-rs.
        storage: The file system of the table.
        path: The path of the table in that file system.
        options: The storage options of delta-rs. They can be secret, so they are never shown.
    """

    uri: str
    storage: Storage
    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> LogFiles:
        """The files of the log."""
        return LogFiles(self.storage, f"{self.path}/_delta_log")

    def state(self) -> TableState:
        """Returns the present state of the table."""
        return _state_of(self._table())

    def schema(self) -> pa.Schema:
        """Returns the table's present columns."""
        return self.state().columns.schema

    def version_at(self, time: datetime) -> int:
        """Returns the first version that was committed at ``time`` or later.

        If a commit has no in-commit timestamp, the modification time of its file is taken, as in Delta.

        Raises:
            OptionError: No version was committed at that time or later.
        """
        at, found = epoch_ms(time), self.files.versions()
        in_commit = of_each(self._in_commit_timestamp, list(found), _THREADS)
        first = first_since(at, found, dict(zip(found, in_commit, strict=True)))
        if first is None:
            latest = max(found, default="its log has no version")
            raise OptionError(
                f"Option 'startingTimestamp' is {time.isoformat()}, after the latest version of the Delta table "
                f"{self.uri} ({latest}) was committed. Give an earlier time, or set "
                "startingVersion to latest."
            )
        return first

    def snapshot(
        self, version: int | None, column: str | None, mapping: ColumnMapping | None = None
    ) -> tuple[TableState, list[DataFile]]:
        """Returns the state of the table at a version, and its files.

        Args:
            version: The version; ``None`` for the latest.
            column: The column of event time, to find the least event time in each file.
            mapping: The names that data files have for the columns.

        Raises:
            DataLossError: The version is no longer in the log.
        """
        table = self._table(version)
        stored = column if mapping is None or column is None else mapping.physical(column)
        adds = self._answered(lambda: pa.table(table.get_add_actions(flatten=True)))
        state = _state_of(table)
        files = data_files(adds, stored, self._file, self._deletions(table), state.columns.mapping, mapping)
        return state, files

    def _deletions(self, table: DeltaTable) -> Mapping[str, DeletionVector]:
        """Returns the deletion vectors of a snapshot, by the path of the data file in the log."""
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        found = deletion_vectors(self.files, table.version(), f"the Delta table {self.uri}")
        return {path: DeletionVector.of(descriptor, self.path) for path, descriptor in found.items()}

    def commits(self, after: int) -> Iterator[Commit]:
        """Yields the commits after version ``after``, up to the first version that the log lacks."""
        version = after + 1
        while (data := self.files.read(version)) is not None:
            yield self._commit(version, actions(data, self._name(version)))
            version += 1

    def mark(self, version: int) -> bytes | None:
        """Returns the first bytes of the commit file of ``version``; ``None`` without such a file.

        The bytes differ between tables: they have the time of the commit in milliseconds, or unique names of files.
        """
        return self.files.read(version, _MARK_BYTES)

    def is_another(self) -> DataLossError:
        """Returns the error for a table that has replaced the table that was read."""
        return DataLossError(
            f"The Delta table {self.uri} is not the table that was read before: it was deleted and created again, "
            "or replaced (CREATE OR REPLACE TABLE), or an older copy of it was restored. "
            "Start the query with a new checkpoint."
        )

    def versions_are_gone(self, first: int, last: int) -> DataLossError:
        """Returns the error for versions ``first`` to ``last``, which were not read yet and are gone from the log."""
        more = f", with those up to version {last}," if last > first else ""
        return DataLossError(
            f"Version {first} of the Delta table {self.uri}{more} is no longer in its log, so the rows that it added "
            "cannot be read. Start the query with a new checkpoint, or set option failOnDataLoss to false to go on "
            "without these rows; keep logs (delta.logRetentionDuration) for longer than a query is stopped."
        )

    def _name(self, version: int) -> str:
        return f"Version {version} of the Delta table {self.uri}"

    @property
    def _what(self) -> str:
        return f"The Delta table {self.uri}"

    # ---- the contents of commits --------------------------------------------------------------------------------

    def _in_commit_timestamp(self, version: int) -> int | None:
        """Returns the in-commit timestamp (ms) of a version; ``None`` if the commit has no such time."""
        data = self.files.read(version)
        return None if data is None else in_commit_timestamp(actions(data, self._name(version)))

    def _commit(self, version: int, among: Sequence[Action]) -> Commit:
        with self._form(version):
            return self._parsed(version, among)

    @contextmanager
    def _form(self, version: int) -> Iterator[None]:
        """Converts errors about the form of an action.

        Raises:
            ConnectorError: An action does not have the form of the Delta protocol.
        """
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConnectorError(
                f"{self._name(version)} does not have Delta's format: {type(error).__name__} {error}."
            ) from error

    def _parsed(self, version: int, among: Sequence[Action]) -> Commit:
        for protocol in all_of("protocol", among):
            check_protocol(self._what, protocol["minReaderVersion"], protocol.get("readerFeatures") or ())
        adds = [add for add in all_of("add", among) if add["dataChange"]]
        removes = any(remove["dataChange"] for remove in all_of("remove", among))
        restores = any(info.get("operation") == "RESTORE" for info in all_of("commitInfo", among))
        metadata = all_of("metaData", among)
        if not metadata:
            return Commit(version, adds, removes, restores=restores)
        configuration = metadata[-1].get("configuration") or {}
        if is_coordinated(configuration):
            self._table()  # Raises an error, unless a later version has dropped the coordinator.
        schema = self._schema_of(metadata[-1]["schemaString"])
        columns = TableColumns(schema, ColumnMapping.of(schema, configuration))
        return Commit(version, adds, removes, columns, metadata[-1]["id"], restores)

    def _schema_of(self, text: str) -> pa.Schema:
        try:
            return pa.schema(Schema.from_json(text).to_arrow())
        except ValueError as error:
            refuse_unreadable(self._what, error)
            raise

    def added(self, commit: Commit, mapping: ColumnMapping | None = None) -> list[DataFile]:
        """Returns the files that a commit adds.

        Errors about these files are raised here, so that a commit that is skipped raises no errors.
        """
        with self._form(commit.version):
            return [self._data_file(add, mapping) for add in commit.adds]

    def _data_file(self, add: Action, mapping: ColumnMapping | None) -> DataFile:
        values = {name: text or None for name, text in (add.get("partitionValues") or {}).items()}
        descriptor = add.get("deletionVector")
        layout = FileLayout(
            tuple(values.items()),
            None if descriptor is None else DeletionVector.of(descriptor, self.path),
            mapping,
        )
        return DataFile(self._file(add["path"], add["modificationTime"], add["size"]), layout)

    def _file(self, path: str, modified: int, size: int) -> FoundFile:
        """Returns a file of the log, whose path is URL-encoded and relative to the table.

        Raises:
            ConnectorError: The path is absolute (it has a scheme or begins with a slash), as in a shallow clone.
        """
        inside = unquote(path)
        if _ELSEWHERE.match(inside):
            raise ConnectorError(
                f"The Delta table {self.uri} has the data file {inside}, which lies elsewhere: it is a shallow clone. "
                "Read the table that it was cloned from, or make a deep clone."
            )
        return FoundFile(f"{self.path}/{inside}", modified, size)

    # ---- the table in delta-rs ----------------------------------------------------------------------------------

    def _table(self, version: int | None = None) -> DeltaTable:
        table = self._loaded(version)
        protocol = table.protocol()
        check_protocol(self._what, protocol.min_reader_version, protocol.reader_features or ())
        check_configuration(self._what, table.metadata().configuration)
        return table

    @property
    def _unread(self) -> str:
        return f"The Delta table {self.uri} (option 'path') could not be read"

    def _answered(self, work: Callable[[], T]) -> T:
        return self.storage.answered(work, f"Reading the log of the Delta table {self.uri}")

    def _loaded(self, version: int | None, *, is_first_try: bool = True) -> DeltaTable:
        try:
            options = dict(self.options) or None
            return self._answered(lambda: DeltaTable(self.uri, version=version, storage_options=options))
        except OSError as error:
            raise storage_error(self._unread, error, self.uri) from error
        except (DeltaError, ValueError) as error:
            refuse_unreadable(self._what, error)
            if version is None and isinstance(error, TableNotFoundError):
                raise UnreachableError(f"There is no Delta table at {self.uri} (option 'path').") from error
            if version is None:
                kind = UnreachableError if is_incomplete(error) else ConnectorError
                remedy = (
                    _WITHOUT_CHECKPOINT if "_last_checkpoint" in str(error) else credentials_remedy(self.uri)
                )
                raise kind(f"{self._unread}: {cause(error)}.{remedy}") from error
            self._loaded(None)  # This raises another error if the whole table is gone or damaged.
            if is_first_try:  # The table may have returned just now.
                return self._loaded(version, is_first_try=False)
            raise DataLossError(
                f"Version {version} of the Delta table {self.uri}, which was not read to its end, can no longer be "
                f"read: {cause(error)}. Start the query with a new checkpoint; keep logs and files for longer than "
                "a query needs to read a version."
            ) from error


def _state_of(table: DeltaTable) -> TableState:
    schema, metadata = pa.schema(table.schema().to_arrow()), table.metadata()
    columns = TableColumns(schema, ColumnMapping.of(schema, metadata.configuration))
    return TableState(str(metadata.id), table.version(), columns)
