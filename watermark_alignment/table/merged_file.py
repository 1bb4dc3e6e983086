"""One data file with the rows of several data files of a split-watermark table."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow.fs import FileSystem

from flip27_stream.parquet_rows import row_batches
from flip27_stream.wall_clock import now_ms
from watermark_alignment.table.data_files import DataFile
from watermark_alignment.table.storage.table_files import whole_file

_GROUP_ROWS = 1 << 17  # About 30 MB in memory.


def write_merged_file(store: FileSystem, files: Sequence[DataFile], schema: pa.Schema) -> AddAction:
    """Writes the rows of ``files`` into one file, and returns the action that adds this file to the table.

    Only some of the rows are in memory at a time.

    Args:
        store: The file system of the table.
        files: The files, whose columns may have any order.
        schema: The columns of the table.
    """
    path = f"part-{uuid.uuid4()}.zstd.parquet"
    described: list[pa.Table] = []
    with whole_file(store, path) as out, pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for rows in _row_groups(store, files, schema):
            writer.write_table(rows)
            described.append(rows.select(["batch", "recorded_at"]))
    size, statistics = store.get_file_info(path).size, _statistics(pa.concat_tables(described))
    return AddAction(path, size, {}, now_ms(), data_change=False, stats=json.dumps(statistics))


def _row_groups(store: FileSystem, files: Sequence[DataFile], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yields the rows of the files in tables of about :data:`_GROUP_ROWS` rows; one table at least."""
    waiting: list[pa.Table] = [pa.Table.from_batches([], schema)]
    for file in files:
        with store.open_input_file(file.path) as data:
            parquet = pq.ParquetFile(data, coerce_int96_timestamp_unit="us")
            for batch in row_batches(parquet, range(parquet.num_row_groups), _GROUP_ROWS):
                waiting.append(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
                if sum(len(rows) for rows in waiting) >= _GROUP_ROWS:
                    yield pa.concat_tables(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _statistics(rows: pa.Table) -> dict[str, Any]:
    """Returns Delta's "Per-file Statistics" for the columns that expiry and readers filter by."""
    batch, recorded_at = (pc.min_max(rows[column]).as_py() for column in ("batch", "recorded_at"))
    at = {bound: recorded_at[bound].strftime("%Y-%m-%dT%H:%M:%S.%fZ") for bound in ("min", "max")}
    return {
        "numRecords": rows.num_rows,
        "minValues": {"batch": batch["min"], "recorded_at": at["min"]},
        "maxValues": {"batch": batch["max"], "recorded_at": at["max"]},
        "nullCount": {"batch": rows["batch"].null_count, "recorded_at": rows["recorded_at"].null_count},
    }
