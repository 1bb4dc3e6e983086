"""The conformance suite over the formats that differ from others in how they are cut: SX-01 to SX-08, CO-11, CO-25."""

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
from flip27_stream.connectors.files import FileSource
from tests.connectors.files.test_conformance import STRATEGY, Folder, OfFiles
from watermark_alignment.event_time import timestamp_assigner

COLUMNS = pa.schema([("split", pa.int64()), ("number", pa.int64()), ("t", pa.int64())])
TEXT = pa.schema([("value", pa.string())])
IN_TEXT = WatermarkStrategy(timestamp_assigner=timestamp_assigner("/t", TEXT))


def files(folder: Path, kind: str, schema: pa.Schema, strategy: WatermarkStrategy) -> FileSource:
    (folder / "data").mkdir(exist_ok=True)
    options = {"path": str(folder / "data"), "files.format": kind, "source.monitor-interval": "50 ms"}
    return FileSource(options, strategy, schema=schema)


class OrcFiles(Folder):
    format = "orc"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        orc.write_table(pa.Table.from_pylist(rows, COLUMNS), str(path), stripe_size=64, row_index_stride=1000)


class CsvFiles(Folder):
    format = "csv"

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        with path.open("w", newline="") as file:
            csv.DictWriter(file, COLUMNS.names, lineterminator="\n").writerows(rows)


class PackedLines(Folder):
    """Compressed: read from the beginning to get anywhere, but in parts all the same."""

    format = "json.gz"

    @property
    def source(self) -> FileSource:
        return files(self._folder, "json", COLUMNS, STRATEGY)

    def _write(self, path: Path, rows: list[dict[str, Any]]) -> None:
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


class TextFiles(Folder):
    """Lines of JSON as text; event time is found by a pointer into them."""

    format = "text"

    @property
    def source(self) -> FileSource:
        return files(self._folder, "text", TEXT, IN_TEXT)

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
