"""The log of a Delta table: what files a snapshot has, and what commits after it added."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from flip27_stream.connectors.files.delta.delta_commit import Action, Commit, DataFile, actions, all_of
from flip27_stream.connectors.files.delta.delta_log_files import LogFiles
from flip27_stream.connectors.files.delta.delta_snapshot import data_files
from flip27_stream.connectors.files.delta.delta_times import commit_time, rising, to_ms
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.connectors.files.storage.storage_errors import cause, storage_error
from flip27_stream.errors import ConnectorError, DataLossError, OptionError, UnreachableError
from flip27_stream.threads import of_each

_ELSEWHERE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_UNDERSTOOD: Final = {
    "deletionVectors",  # as long as no file has one
    "domainMetadata",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}
_LATEST_READER: Final = 3
_MARK_BYTES: Final = 4096
_THREADS: Final = 24


@dataclass(frozen=True)
class TableState:
    """What a table is at one version.

    Attributes:
        table: tells it from one that is made later in its place.
        version: the version.
        schema: its columns.
    """

    table: str
    version: int
    schema: pa.Schema


@dataclass(frozen=True)
class DeltaLog:
    """A Delta table, by its log.

    All methods raise :class:`UnreachableError` where the storage does not answer, the table is not there or its log is
    being written, and :class:`ConnectorError` where the storage refuses, the log does not decode, or the table has
    features that are not understood.

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
        return self.state().schema

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

    def snapshot(self, version: int | None, column: str | None) -> tuple[TableState, list[DataFile]]:
        """A version, by default the latest, and its files, with their least time in ``column``.

        Raises:
            DataLossError: the version is no longer in the log.
        """
        table = self._table(version)
        files = data_files(pa.table(table.get_add_actions(flatten=True)), column, self._file)
        return _state_of(table), files

    def commits(self, after: int) -> Iterator[Commit]:
        """The versions behind ``after``, as far as there are any."""
        version = after + 1
        while (data := self.files.read(version)) is not None:
            yield self._commit(version, actions(data, self._name(version)))
            version += 1

    def mark(self, version: int) -> bytes | None:
        """What tells the log's file of ``version`` from that of another table; ``None`` if there is no such file.

        Its first bytes: they have the time of the commit to the millisecond, or names of files that are never the same.
        """
        return self.files.read(version, _MARK_BYTES)

    def is_another(self) -> DataLossError:
        """The error to raise where the table that was read is gone, and this is one in its place."""
        return DataLossError(
            f"The Delta table {self.uri} is not the one that was read before: it was deleted and made anew, or an "
            "older copy of it was put back. Begin anew with a new checkpoint."
        )

    def versions_are_gone(self, first: int, last: int) -> DataLossError:
        """The error to raise where versions from ``first`` to ``last`` were to be read."""
        more = f", with those up to version {last}," if last > first else ""
        return DataLossError(
            f"Version {first} of the Delta table {self.uri}{more} is no longer in its log, so what it added cannot be "
            "read. Begin anew with a new checkpoint, or set option failOnDataLoss to false to go on without it; keep "
            "logs for longer (delta.logRetentionDuration) than a query stands still."
        )

    def _name(self, version: int) -> str:
        return f"Version {version} of the Delta table {self.uri}"

    # ---- what commits say -----------------------------------------------------------------------------------------

    def _committed_at(self, version: int) -> int | None:
        """When a version was committed (ms), by what its commit says."""
        data = self.files.read(version)
        return None if data is None else commit_time(actions(data, self._name(version)))

    def _commit(self, version: int, among: Sequence[Action]) -> Commit:
        try:
            return self._parsed(version, among)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConnectorError(
                f"{self._name(version)} has a log that is not of Delta's form: {type(error).__name__} {error}."
            ) from error

    def _parsed(self, version: int, among: Sequence[Action]) -> Commit:
        added = [add for add in all_of("add", among) if add["dataChange"]]
        for protocol in all_of("protocol", among):
            self._check_protocol(protocol["minReaderVersion"], protocol.get("readerFeatures") or ())
        metadata = all_of("metaData", among)
        for one in metadata:
            self._check_mapping(one.get("configuration") or {})
        if any(add.get("deletionVector") for add in added):
            raise self._has_deletion_vectors()
        files = [
            DataFile(
                self._file(add["path"], add["modificationTime"], add["size"]),
                tuple((name, text or None) for name, text in (add.get("partitionValues") or {}).items()),
            )
            for add in added
        ]
        removes = any(remove["dataChange"] for remove in all_of("remove", among))
        restores = any(info.get("operation") == "RESTORE" for info in all_of("commitInfo", among))
        if not metadata:
            return Commit(version, files, removes, restores=restores)
        schema = pa.schema(Schema.from_json(metadata[-1]["schemaString"]).to_arrow())
        return Commit(version, files, removes, schema, metadata[-1]["id"], restores)

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
        features = protocol.reader_features or ()
        self._check_protocol(protocol.min_reader_version, features)
        self._check_mapping(table.metadata().configuration)
        if "deletionVectors" in features and pa.table(table.deletion_vectors()).num_rows:
            raise self._has_deletion_vectors()
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

    def _check_protocol(self, reader: int, features: Sequence[str]) -> None:
        unknown = sorted(set(features) - _UNDERSTOOD - {"columnMapping"})
        if unknown:
            raise ConnectorError(
                f"The Delta table {self.uri} needs reader features that are not understood: {', '.join(unknown)}."
            )
        if reader > _LATEST_READER:
            raise ConnectorError(
                f"The Delta table {self.uri} needs a reader of protocol version {reader}; up to {_LATEST_READER} is "
                "understood."
            )

    def _check_mapping(self, configuration: Mapping[str, str | None]) -> None:
        mode = configuration.get("delta.columnMapping.mode") or "none"
        if mode != "none":
            raise ConnectorError(
                f"The Delta table {self.uri} has delta.columnMapping.mode {mode}, which is not understood. Copy it "
                "into a table without column mapping."
            )

    def _has_deletion_vectors(self) -> ConnectorError:
        return ConnectorError(
            f"The Delta table {self.uri} has files with deletion vectors, which are not understood. Rewrite them with "
            "REORG TABLE ... APPLY (PURGE), and set delta.enableDeletionVectors to false."
        )


def _state_of(table: DeltaTable) -> TableState:
    return TableState(str(table.metadata().id), table.version(), pa.schema(table.schema().to_arrow()))
