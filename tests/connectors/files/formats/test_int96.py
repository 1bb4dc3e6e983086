"""INT96 in Parquet files, by which Spark and Hive store instants."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from tests.connectors.files.support.reading import INSTANT, LOCAL_FS, read_rows

PARQUET = ParquetFormat()
NOON = datetime(2024, 2, 29, 12, tzinfo=timezone.utc)


def test_int96_is_an_instant_at_every_depth(tmp_path: Path) -> None:
    local = NOON.replace(tzinfo=None)

    def kind(time: pa.DataType) -> pa.Schema:
        inner = pa.struct([("n", pa.int64()), ("t", time)])
        return pa.schema(
            [("s", inner), ("l", pa.list_(pa.list_(time))), ("m", pa.map_("string", inner)), ("t", time)]
        )

    row = {"s": {"n": 1, "t": local}, "l": [[local]], "m": [("k", {"n": 2, "t": local})], "t": local}
    table = pa.Table.from_pylist([row], kind(pa.timestamp("ns")))
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    schema = PARQUET.schema(LOCAL_FS, str(tmp_path / "a.parquet"))
    assert schema == kind(INSTANT)
    assert read_rows(PARQUET, tmp_path / "a.parquet", schema) == [
        {"s": {"n": 1, "t": NOON}, "l": [[NOON]], "m": [("k", {"n": 2, "t": NOON})], "t": NOON}
    ]
