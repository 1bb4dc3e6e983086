"""The deletion vectors of a snapshot of a Delta table.

They are found by replaying the log of the table, because delta-rs does not return them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from flip27_stream.connectors.files.delta.delta_commit import Action, actions, all_of
from flip27_stream.connectors.files.delta.delta_log_files import LogFiles
from flip27_stream.connectors.files.storage.storage_errors import storage_error
from flip27_stream.errors import ConnectorError, DataLossError
from flip27_stream.parquet_rows import check_row_count
from flip27_stream.threads import of_each

Descriptor = Mapping[str, Any]

_CHECKPOINT: Final = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9A-Fa-f-]{36})?\.(json|parquet)"
)
_THREADS: Final = 24


class Checkpoint(NamedTuple):
    """A checkpoint of the log: its version, and the names of the files that it consists of."""

    version: int
    files: Sequence[str]


def deletion_vectors(log: LogFiles, version: int, what: str) -> Mapping[str, Descriptor]:
    """Returns the descriptors of all deletion vectors at a version, by the path of the data file in the log.

    Args:
        log: The log of the table.
        version: The version of the table.
        what: The table, for errors, such as 'the Delta table /clicks'.

    Raises:
        DataLossError: Versions are missing in the log.
        ConnectorError: The log does not decode, or the storage refuses access.
        UnreachableError: The storage does not answer.
    """
    checkpoint = latest_checkpoint(log.names(), version)
    found: dict[str, Descriptor] = {}
    if checkpoint is not None:
        found.update(_of_checkpoint(log, checkpoint, what))
    first = 0 if checkpoint is None else checkpoint.version + 1
    numbers = list(range(first, version + 1))
    for number, data in zip(numbers, of_each(log.read, numbers, _THREADS), strict=True):
        if data is None:
            raise DataLossError(
                f"Version {number} of {what} is no longer in its log, so the deletion vectors of version {version} "
                "are not known. Start the query with a new checkpoint."
            )
        _apply(found, actions(data, f"Version {number} of {what}"))
    return found


def latest_checkpoint(names: Iterable[str], version: int) -> Checkpoint | None:
    """Returns the latest complete checkpoint up to ``version``; ``None`` without such a checkpoint.

    A checkpoint is one file, or several numbered files that must all exist, or one file with a UUID in its name.

    Args:
        names: The names of the files of the log.
        version: The greatest version that the checkpoint may have.
    """
    found: dict[tuple[int, str], list[str]] = {}
    for name in names:
        if (parts := _CHECKPOINT.fullmatch(name)) is not None and int(parts[1]) <= version:
            found.setdefault((int(parts[1]), parts[3] or name), []).append(name)
    complete = [
        Checkpoint(at, sorted(files))
        for (at, count), files in found.items()
        if not count.isdigit() or len(files) == int(count)
    ]
    return max(complete, default=None)


def _apply(found: dict[str, Descriptor], commit: Sequence[Action]) -> None:
    """Applies a commit. A commit that replaces the deletion vector of a file both removes and adds the file."""
    for remove in all_of("remove", commit):
        found.pop(remove["path"], None)
    found.update(_described(all_of("add", commit)))


def _described(adds: Iterable[Action]) -> Iterator[tuple[str, Descriptor]]:
    return ((add["path"], add["deletionVector"]) for add in adds if add.get("deletionVector"))


def _of_checkpoint(log: LogFiles, checkpoint: Checkpoint, what: str) -> Iterator[tuple[str, Descriptor]]:
    for name in checkpoint.files:
        if name.endswith(".json"):
            listed = actions(log.read_file(name), f"The checkpoint {name} of {what}")
            yield from _described(all_of("add", listed))
            sidecars = [one["path"] for one in all_of("sidecar", listed)]
        else:
            table = _table(log, name, what)
            yield from _described(_structs(table, "add"))
            sidecars = [one["path"] for one in _structs(table, "sidecar")]
        for sidecar in sidecars:
            name = unquote(sidecar).rpartition("/")[2]  # Some writers give the whole URI.
            yield from _described(_structs(_table(log, f"_sidecars/{name}", what), "add"))


def _table(log: LogFiles, name: str, what: str) -> pa.Table:
    """Reads the columns of a Parquet checkpoint that have deletion vectors and the paths of sidecars."""
    try:
        with log.open(name) as file:
            parquet = pq.ParquetFile(file)
            table = parquet.read(columns=["add.path", "add.deletionVector", "sidecar.path"])
            check_row_count(table.num_rows, parquet.metadata.num_rows)
            return table
    except pa.ArrowException as error:
        raise ConnectorError(f"The checkpoint {name} of {what} does not decode: {error}.") from error
    except OSError as error:
        raise storage_error(f"The checkpoint {name} of {what} could not be read", error) from error


def _structs(table: pa.Table, name: str) -> Sequence[Mapping[str, Any]]:
    """Returns the values of a struct column that are not null."""
    if name not in table.column_names:
        return ()
    values: list[Mapping[str, Any]] = table.column(name).drop_null().to_pylist()
    return values
