"""The log of a Delta table: what files a snapshot has, and what commits after it added."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileType

from flip27_stream.connectors.files.filesystem import Storage
from flip27_stream.connectors.files.found_file import FoundFile
from flip27_stream.connectors.files.schemas import find_column
from flip27_stream.connectors.files.split import Partition
from flip27_stream.errors import ConnectorError, DataLossError, OptionError

_ELSEWHERE: Final = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_UNDERSTOOD: Final = {
    "deletionVectors",  # as long as no file has one
    "domainMetadata",
    "timestampNtz",
    "v2Checkpoint",
    "vacuumProtocolCheck",
}


@dataclass(frozen=True)
class DataFile:
    """A data file of the table.

    Attributes:
        file: its path in the file system, and what the log says of it.
        partition: values of partition columns.
        least: least event time (ms) by the log's statistics.
        known: whether ``least`` is known; it is ``None`` where no row has an event time.
    """

    file: FoundFile
    partition: Partition
    least: int | None = None
    known: bool = False


@dataclass(frozen=True)
class Commit:
    """What a version did to the data; rearranging it, as OPTIMIZE does, is nothing.

    Attributes:
        version: its number.
        added: files with new rows.
        removes: whether rows were removed.
        changes_schema: whether columns or settings of the table changed.
    """

    version: int
    added: Sequence[DataFile]
    removes: bool
    changes_schema: bool


@dataclass(frozen=True)
class DeltaLog:
    """A Delta table, by its log.

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

    def schema(self) -> pa.Schema:
        """The table's columns.

        Raises:
            ConnectorError: there is no such table, or it has features that are not understood.
        """
        return pa.schema(self._table().schema().to_arrow())

    def latest_version(self) -> int:
        """The version that the table has now."""
        return self._table().version()

    def table_id(self) -> str:
        """What tells the table from one that is made later in its place."""
        return str(self._table().metadata().id)

    def version_at(self, time: datetime) -> int:
        """The first version that was committed at ``time`` or later.

        Raises:
            OptionError: there is none yet.
        """
        at = int(time.timestamp() * 1000)
        versions = [int(c["version"]) for c in self._table().history() if int(c["timestamp"]) >= at]
        if not versions:
            latest = self.latest_version()
            raise OptionError(
                f"Option 'startingTimestamp' is {time.isoformat()}, after the latest version of the Delta table "
                f"{self.uri} ({latest}) was committed. Name an earlier time, or set startingVersion to latest."
            )
        return min(versions)

    def snapshot(self, version: int | None, column: str | None) -> tuple[int, list[DataFile]]:
        """A version, by default the latest, and its files, with their least time in ``column``.

        Raises:
            DataLossError: the version is no longer in the log.
        """
        table = self._table(version)
        actions = pa.table(table.get_add_actions(flatten=True))
        paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
        times = actions.column("modification_time").to_pylist()
        partitions = _partitions(actions)
        least, known = _least(actions, column)
        return table.version(), [
            DataFile(self._file(path, modified, size), partition, time, is_known)
            for path, modified, size, partition, time, is_known in zip(
                paths, times, sizes, partitions, least, known, strict=True
            )
        ]

    def commits(self, after: int) -> Iterator[Commit]:
        """The versions behind ``after``, as far as there are any.

        Raises:
            ConnectorError: one needs a feature that is not understood.
        """
        version = after + 1
        while (text := self._commit_text(version)) is not None:
            yield self._commit(version, self._actions(version, text))
            version += 1

    def _actions(self, version: int, text: str) -> list[Mapping[str, Any]]:
        """What is in the log of a version. Lines end with a line feed; other breaks may be in a name."""
        try:
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        except ValueError as error:
            raise ConnectorError(
                f"Version {version} of the Delta table {self.uri} has a log that is no JSON ({error})."
            ) from error

    def check_next(self, after: int) -> None:
        """See that :meth:`commits` misses none.

        Raises:
            DataLossError: the version behind ``after`` is gone, or there is not even ``after``.
        """
        version = after + 1
        if self._commit_text(version) is not None:
            return
        latest = self.latest_version()
        if latest < after:
            raise self.is_another()
        if latest >= version:
            raise DataLossError(
                f"Version {version} of the Delta table {self.uri} is no longer in its log, so what it added cannot be "
                "read. Begin anew with a new checkpoint; keep logs for longer (delta.logRetentionDuration) than a "
                "query stands still."
            )

    def is_another(self) -> DataLossError:
        """The table that was read is gone, and this is one in its place."""
        return DataLossError(
            f"The Delta table {self.uri} is not the one that was read before: it was deleted and made anew. Begin anew "
            "with a new checkpoint."
        )

    def _commit_text(self, version: int) -> str | None:
        fs, path = self.storage.filesystem(), f"{self.path}/_delta_log/{version:020d}.json"
        try:
            if fs.get_file_info(path).type == FileType.NotFound:
                return None
            with fs.open_input_stream(path) as stream:
                text: str = stream.read().decode()
                return text
        except OSError as error:
            raise ConnectorError(f"The Delta log {path} could not be read: {error}") from error

    def _commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> Commit:
        added = [action["add"] for action in actions if action.get("add", {}).get("dataChange")]
        removed = [action for action in actions if action.get("remove", {}).get("dataChange")]
        for action in actions:
            if protocol := action.get("protocol"):
                self._check_features(protocol.get("readerFeatures") or ())
            if metadata := action.get("metaData"):
                self._check_mapping(metadata.get("configuration") or {})
        if any(add.get("deletionVector") for add in added):
            raise self._has_deletion_vectors()
        files = [
            DataFile(
                self._file(add["path"], add["modificationTime"], add["size"]),
                tuple((name, text or None) for name, text in add.get("partitionValues", {}).items()),
            )
            for add in added
        ]
        return Commit(version, files, bool(removed), version > 0 and any("metaData" in a for a in actions))

    def _file(self, path: str, modified: int, size: int) -> FoundFile:
        """Paths in the log are URL-encoded, and below the table unless they begin with a scheme or a slash."""
        inside = unquote(path)
        if _ELSEWHERE.match(inside):
            raise ConnectorError(
                f"The Delta table {self.uri} has the data file {inside}, which lies elsewhere: it is a shallow clone. "
                "Read the table that it was cloned from, or make a deep clone."
            )
        return FoundFile(f"{self.path}/{inside}", modified, size)

    def _table(self, version: int | None = None) -> DeltaTable:
        try:
            table = DeltaTable(self.uri, version=version, storage_options=dict(self.options) or None)
            features = table.protocol().reader_features or ()
            self._check_features(features)
            self._check_mapping(table.metadata().configuration)
            if "deletionVectors" in features and pa.table(table.deletion_vectors()).num_rows:
                raise self._has_deletion_vectors()
            return table
        except TableNotFoundError as error:
            raise ConnectorError(f"There is no Delta table at {self.uri} (option 'path').") from error
        except (DeltaError, OSError, ValueError) as error:
            if version is None:
                raise ConnectorError(
                    f"The Delta table {self.uri} could not be read: {_first_line(error)}"
                ) from error
            raise DataLossError(
                f"Version {version} of the Delta table {self.uri}, which was not read to its end, can no longer be "
                f"read: {_first_line(error)}. Begin anew with a new checkpoint; keep logs and files for longer than a "
                "query takes."
            ) from error

    def _check_features(self, features: Sequence[str]) -> None:
        unknown = sorted(set(features) - _UNDERSTOOD - {"columnMapping"})
        if unknown:
            raise ConnectorError(
                f"The Delta table {self.uri} needs reader features that are not understood: {', '.join(unknown)}."
            )

    def _check_mapping(self, configuration: Mapping[str, str]) -> None:
        mode = configuration.get("delta.columnMapping.mode", "none")
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


def _first_line(error: Exception) -> str:
    """What is wrong, without the stack of another language."""
    return str(error).partition("\n")[0]


def parse_time(option: str, text: str) -> datetime:
    """A date, or a date and time in ISO 8601's form; UTC where it names no zone.

    Raises:
        OptionError: it is neither.
    """
    try:
        time = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise OptionError.of(
            option, text, "Expected a date such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z."
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


def _partitions(actions: pa.Table) -> Sequence[Partition]:
    """Values of partition columns as text."""
    names = [name for name in actions.column_names if name.startswith("partition.")]
    columns = [pc.cast(actions.column(name), pa.string()).to_pylist() for name in names]
    if not names:
        return [()] * actions.num_rows
    keys = [name.removeprefix("partition.") for name in names]
    return [tuple(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]


def _least(actions: pa.Table, column: str | None) -> tuple[Sequence[int | None], Sequence[bool]]:
    """The least time (ms) of each file, and whether the log knows it."""
    none: tuple[Sequence[int | None], Sequence[bool]] = (
        [None] * actions.num_rows,
        [False] * actions.num_rows,
    )
    at = find_column(actions.column_names, f"min.{column}") if column is not None else None
    if at is None:
        return none
    least = actions.column(at)
    nulls = find_column(actions.column_names, f"null_count.{column}")
    if pa.types.is_timestamp(least.type):
        least = least.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    elif not pa.types.is_int64(least.type):
        return none
    known = pc.greater_equal(least, 0).fill_null(False)
    if nulls is not None:
        empty = pc.equal(actions.column(nulls), actions.column("num_records"))
        known = pc.or_(known, pc.fill_null(empty, False))
    return least.to_pylist(), known.to_pylist()
