"""The log of a Delta table: the files of a snapshot, and the files that later commits added."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
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
from flip27_stream.connectors.files.delta.delta_features import check_protocol
from flip27_stream.connectors.files.delta.delta_log_files import LogFiles
from flip27_stream.connectors.files.delta.delta_snapshot import data_files
from flip27_stream.connectors.files.delta.delta_times import commit_time, rising, to_ms
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.deletion_vector import DeletionVector
from flip27_stream.connectors.files.layout.file_layout import FileLayout
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.storage_errors import cause, storage_error
from flip27_stream.errors import ConnectorError, DataLossError, OptionError, UnreachableError
from flip27_stream.threads import of_each

_ELSEWHERE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_MARK_BYTES: Final = 4096
_THREADS: Final = 24


@dataclass(frozen=True)
class TableState:
    """The state of a table at one version.

    Attributes:
        table: the id of the table; a table that is made anew in its place has another one.
        version: the version.
        columns: the columns of the table.
    """

    table: str
    version: int
    columns: TableColumns


@dataclass(frozen=True)
class DeltaLog:
    """The log of a Delta table.

    All methods raise :class:`UnreachableError` if the storage does not answer, the table does not exist, or its log is
    being written, and :class:`ConnectorError` if the storage refuses, the log does not decode, or the table has
    features that are not read.

    Attributes:
        uri: of the table, as delta-rs wants it.
        storage: where it is.
        path: of the table, as the file system wants it.
        options: storage options of delta-rs; may be secret, so never shown.
    """

    uri: str
    storage: Storage
    path: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def files(self) -> LogFiles:
        """The commits as files."""
        return LogFiles(self.storage, f"{self.path}/_delta_log")

    def state(self) -> TableState:
        """The table as it is now."""
        return _state_of(self._table())

    def schema(self) -> pa.Schema:
        """The table's columns now."""
        return self.state().columns.schema

    def version_at(self, time: datetime) -> int:
        """The first version that was committed at ``time`` or later.

        A commit that does not say when it was made was made when its file was last modified.

        Raises:
            OptionError: there is none yet.
        """
        at, found = to_ms(time), self.files.versions()
        said = of_each(self._committed_at, list(found), _THREADS)
        times = rising(found[v] if at_ is None else at_ for v, at_ in zip(found, said, strict=True))
        first = next((version for version, made in zip(found, times, strict=True) if made >= at), None)
        if first is None:
            raise OptionError(
                f"Option 'startingTimestamp' is {time.isoformat()}, after the latest version of the Delta table "
                f"{self.uri} ({max(found, default='none')}) was committed. Name an earlier time, or set "
                "startingVersion to latest."
            )
        return first

    def snapshot(
        self, version: int | None, column: str | None, mapping: ColumnMapping | None = None
    ) -> tuple[TableState, list[DataFile]]:
        """A version and its files.

        Args:
            version: the version; ``None`` for the latest.
            column: the column of event time, for the least time in each file.
            mapping: the names that data files have for the columns.

        Raises:
            DataLossError: the version is no longer in the log.
        """
        table = self._table(version)
        stored = column if mapping is None or column is None else mapping.physical(column)
        adds, state = pa.table(table.get_add_actions(flatten=True)), _state_of(table)
        files = data_files(adds, stored, self._file, self._deletions(table), state.columns.mapping, mapping)
        return state, files

    def _deletions(self, table: DeltaTable) -> Mapping[str, DeletionVector]:
        """The deletion vectors of a snapshot, by the path of the data file as the log has it."""
        if "deletionVectors" not in (table.protocol().reader_features or ()):
            return {}
        found = deletion_vectors(self.files, table.version(), self._what)
        return {path: DeletionVector.of(descriptor, self.path) for path, descriptor in found.items()}

    def commits(self, after: int) -> Iterator[Commit]:
        """The versions behind ``after``, as far as there are any."""
        version = after + 1
        while (data := self.files.read(version)) is not None:
            yield self._commit(version, actions(data, self._name(version)))
            version += 1

    def mark(self, version: int) -> bytes | None:
        """The first bytes of the commit file of ``version``; ``None`` if there is no such file.

        They differ in every table, for they have the time of the commit in milliseconds, or unique names of files.
        """
        return self.files.read(version, _MARK_BYTES)

    def is_another(self) -> DataLossError:
        """The error for a table that has replaced the one that was read."""
        return DataLossError(
            f"The Delta table {self.uri} is not the one that was read before: it was deleted and made anew, or an "
            "older copy of it was put back. Begin anew with a new checkpoint."
        )

    def versions_are_gone(self, first: int, last: int) -> DataLossError:
        """The error for versions ``first`` to ``last``, which were to be read and are gone from the log."""
        more = f", with those up to version {last}," if last > first else ""
        return DataLossError(
            f"Version {first} of the Delta table {self.uri}{more} is no longer in its log, so what it added cannot be "
            "read. Begin anew with a new checkpoint, or set option failOnDataLoss to false to go on without it; keep "
            "logs for longer (delta.logRetentionDuration) than a query stands still."
        )

    def _name(self, version: int) -> str:
        return f"Version {version} of the Delta table {self.uri}"

    @property
    def _what(self) -> str:
        return f"The Delta table {self.uri}"

    # ---- what commits say -----------------------------------------------------------------------------------------

    def _committed_at(self, version: int) -> int | None:
        """The time (ms) that a commit has for itself; ``None`` if it has none."""
        data = self.files.read(version)
        return None if data is None else commit_time(actions(data, self._name(version)))

    def _commit(self, version: int, among: Sequence[Action]) -> Commit:
        with self._form(version):
            return self._parsed(version, among)

    @contextmanager
    def _form(self, version: int) -> Iterator[None]:
        """Raises ConnectorError where an action is not of Delta's form."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConnectorError(
                f"{self._name(version)} has a log that is not of Delta's form: {type(error).__name__} {error}."
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
        schema = pa.schema(Schema.from_json(metadata[-1]["schemaString"]).to_arrow())
        columns = TableColumns(schema, ColumnMapping.of(schema, metadata[-1].get("configuration") or {}))
        return Commit(version, adds, removes, columns, metadata[-1]["id"], restores)

    def added(self, commit: Commit, mapping: ColumnMapping | None = None) -> list[DataFile]:
        """The files that a commit adds.

        They are looked at where they are to be read: nothing is refused of a commit that is passed over.
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
        """Paths in the log are URL-encoded, and below the table unless they begin with a scheme or a slash."""
        inside = unquote(path)
        if _ELSEWHERE.match(inside):
            raise ConnectorError(
                f"The Delta table {self.uri} has the data file {inside}, which lies elsewhere: it is a shallow clone. "
                "Read the table that it was cloned from, or make a deep clone."
            )
        return FoundFile(f"{self.path}/{inside}", modified, size)

    # ---- what the table says --------------------------------------------------------------------------------------

    def _table(self, version: int | None = None) -> DeltaTable:
        table = self._loaded(version)
        protocol = table.protocol()
        check_protocol(self._what, protocol.min_reader_version, protocol.reader_features or ())
        return table

    def _loaded(self, version: int | None) -> DeltaTable:
        try:
            return DeltaTable(self.uri, version=version, storage_options=dict(self.options) or None)
        except OSError as error:
            raise storage_error(f"The Delta table {self.uri} could not be read", error) from error
        except (DeltaError, ValueError) as error:
            if version is None and isinstance(error, TableNotFoundError):
                raise UnreachableError(f"There is no Delta table at {self.uri} (option 'path').") from error
            if version is None:
                raise ConnectorError(
                    f"The Delta table {self.uri} could not be read: {cause(error)}."
                ) from error
            self._loaded(None)  # where the table is gone or damaged as a whole, that is what is wrong
            raise DataLossError(
                f"Version {version} of the Delta table {self.uri}, which was not read to its end, can no longer be "
                f"read: {cause(error)}. Begin anew with a new checkpoint; keep logs and files for longer than a "
                "query takes."
            ) from error


def _state_of(table: DeltaTable) -> TableState:
    schema, metadata = pa.schema(table.schema().to_arrow()), table.metadata()
    columns = TableColumns(schema, ColumnMapping.of(schema, metadata.configuration))
    return TableState(str(metadata.id), table.version(), columns)
