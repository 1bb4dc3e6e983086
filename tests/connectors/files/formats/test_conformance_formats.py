"""The conformance suite (SX-01 to SX-08, CO-11, CO-25) over the formats that are cut in other ways than Parquet."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc

from flip27_stream.api import WatermarkStrategy
from flip27_stream.event_time.assigners import timestamp_assigner
from tests.connectors.files.support.conformance import COLUMNS, FolderSystem, OfFiles

TEXT = pa.schema([("value", pa.string())])
IN_TEXT = WatermarkStrategy(timestamp_assigner=timestamp_assigner("/t", TEXT))


class OrcFiles(FolderSystem):
    format = "orc"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        orc.write_table(pa.Table.from_pylist(rows, COLUMNS), str(path), stripe_size=64, row_index_stride=1000)


class CsvFiles(FolderSystem):
    format = "csv"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        with path.open("w", newline="") as file:
            csv.DictWriter(file, COLUMNS.names, lineterminator="\n").writerows(rows)


class PackedLines(FolderSystem):
    """Compressed lines of JSON. For each part the file is read from its beginning."""

    format = "json.gz"
    reads = "json"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


class TextFiles(FolderSystem):
    """Lines of JSON as text. A pointer finds the event time in a line."""

    format = "text"
    schema = TEXT
    strategy = IN_TEXT

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def identify(self, row: dict[str, Any]) -> Hashable:
        return super().identify(json.loads(row["value"]))


class TestOrc(OfFiles):
    folder = OrcFiles


class TestCsv(OfFiles):
    folder = CsvFiles


class TestPackedLines(OfFiles):
    folder = PackedLines


class TestText(OfFiles):
    strategy = IN_TEXT
    folder = TextFiles
