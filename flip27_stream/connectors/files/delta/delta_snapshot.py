"""The data files of a snapshot of a Delta table, as delta-rs tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.connectors.files.delta.delta_commit import DataFile
from flip27_stream.connectors.files.formats.schemas import find_column
from flip27_stream.connectors.files.split import Partition
from flip27_stream.connectors.files.storage.found_file import FoundFile


def data_files(
    actions: pa.Table, column: str | None, file: Callable[[str, int, int], FoundFile]
) -> list[DataFile]:
    """The files of ``DeltaTable.get_add_actions(flatten=True)``.

    Args:
        actions: what that returns.
        column: the column of event time, for the least in each file.
        file: makes a file of its path in the log, modification time (ms) and size.
    """
    paths, sizes = actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist()
    times = actions.column("modification_time").to_pylist()
    least, known = _least(actions, column)
    return [
        DataFile(file(path, modified, size), partition, time, is_known)
        for path, modified, size, partition, time, is_known in zip(
            paths, times, sizes, _partitions(actions), least, known, strict=True
        )
    ]


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
