"""A table whose columns another program has put into another order, as Spark's ``ALTER COLUMN ... FIRST`` does."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import SCHEMA, as_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable


def test_a_table_of_another_column_order_is_compacted(tmp_path: Path) -> None:
    """Its data files have either order."""
    path = tmp_path / "table"
    reordered = pa.schema([SCHEMA.field("recorded_at"), *(f for f in SCHEMA if f.name != "recorded_at")])
    DeltaTable.create(path, reordered)
    table = SplitWatermarkTable(str(path), {})
    for batch in range(5):
        table.append("clicks/1", batch, split_rows(batch), {})
    for batch in range(5, 10):
        write_deltalake(path, as_table(split_rows(batch)).select(reordered.names), mode="append")
    before = table.rows()
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert table.rows() == before
    [merged] = DeltaTable(path).file_uris()
    assert pq.read_schema(merged).names == reordered.names


def test_a_forgotten_file_of_another_column_order_is_removed(tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    table.append("clicks/1", 0, split_rows(0), {})
    forgotten = tmp_path / "table" / "part-forgotten.parquet"
    pq.write_table(as_table(split_rows(0)).select(SCHEMA.names[::-1]), forgotten)
    long_ago = forgotten.stat().st_mtime - 48 * 3600
    os.utime(forgotten, (long_ago, long_ago))
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert not forgotten.exists()
