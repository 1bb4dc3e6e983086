"""The data files of a snapshot of a Delta table, from the add actions that delta-rs returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.connectors.files.delta.delta_commit import DataFile
from flip27_stream.connectors.files.layout.column_mapping import ColumnMapping
from flip27_stream.connectors.files.layout.columns import find_column
from flip27_stream.connectors.files.layout.deletion_vector import DeletionVector
from flip27_stream.connectors.files.layout.file_layout import FileLayout, Partition
from flip27_stream.connectors.files.storage.found_file import FoundFile
from flip27_stream.errors import ConnectorError


def data_files(
    actions: pa.Table,
    column: str | None,
    file: Callable[[str, int, int], FoundFile],
    deletions: Mapping[str, DeletionVector],
    own: ColumnMapping | None,
    mapping: ColumnMapping | None,
) -> list[DataFile]:
    """Returns the files of ``DeltaTable.get_add_actions(flatten=True)``.

    Args:
        actions: The add actions, a result of that method.
        column: The column of event time under its name in statistics; ``None`` for no event times.
        file: Makes a file from its path in the log, modification time (ms) and size (bytes).
        deletions: The deletion vectors of files, by their paths in the log.
        own: The column mapping of this version.
        mapping: The names that the files have for the columns of the query.

    Raises:
        ConnectorError: A deletion vector belongs to no file.
    """
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    times = actions.column("modification_time").to_pylist()
    if not deletions.keys() <= set(paths):
        raise ConnectorError(
            f"The log has a deletion vector of the file {min(deletions.keys() - set(paths))}, which is not among the "
            "table's files: the table changed while it was read, or is damaged."
        )
    least, known = _least(actions, column)
    return [
        DataFile(
            file(path, modified, size), FileLayout(partition, deletions.get(path), mapping), time, is_known
        )
        for path, modified, size, partition, time, is_known in zip(
            paths, times, sizes, _partitions(actions, own), least, known, strict=True
        )
    ]


def _partitions(actions: pa.Table, own: ColumnMapping | None) -> Sequence[Partition]:
    """Returns the values of partition columns as text, by the names that data files have for them."""
    names = [name for name in actions.column_names if name.startswith("partition.")]
    columns = [pc.cast(actions.column(name), pa.string()).to_pylist() for name in names]
    if not names:
        return [()] * actions.num_rows
    keys = [name.removeprefix("partition.") for name in names]
    if own is not None:
        keys = [own.physical(key) or key for key in keys]
    return [tuple(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]


def _least(actions: pa.Table, column: str | None) -> tuple[Sequence[int | None], Sequence[bool]]:
    """Returns the least event time (ms) of each file, and whether the log has it."""
    no_statistics: tuple[Sequence[int | None], Sequence[bool]] = (
        [None] * actions.num_rows,
        [False] * actions.num_rows,
    )
    if column is None or "." in column:  # The name with a dot can also be that of a field of a struct.
        return no_statistics
    at = find_column(actions.column_names, f"min.{column}")
    if at is None:
        return no_statistics
    least = actions.column(at)
    nulls = find_column(actions.column_names, f"null_count.{column}")
    if pa.types.is_timestamp(least.type):
        least = least.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    elif not pa.types.is_int64(least.type):
        return no_statistics
    known = pc.greater_equal(least, 0).fill_null(False)
    if nulls is not None:
        empty = pc.equal(actions.column(nulls), actions.column("num_records"))
        known = pc.or_(known, pc.fill_null(empty, False))
    return least.to_pylist(), known.to_pylist()
