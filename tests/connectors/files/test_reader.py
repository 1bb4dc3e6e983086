"""The reader of files: ranges of files as a task reads them, and files that are skipped instead
of failing the task.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.api.planned_range import PlannedRange
from flip27_stream.connectors.files.options.format_options import file_format
from flip27_stream.connectors.files.reader import FileSourceReader
from flip27_stream.connectors.files.split import FileSplit
from flip27_stream.connectors.files.storage.local_listing import local_file
from flip27_stream.connectors.files.tolerance import Tolerance
from flip27_stream.errors import CorruptRecordError, DataLossError, Flip27Error, RecordFormatError
from flip27_stream.reader.drive import read_ranges
from flip27_stream.spark.execution.task import SplitTask, TaskContext, TaskOutput
from flip27_stream.spark.source_spec import Driver, SourceSpec
from tests.connectors.files.support.reading import LOCAL_FS
from tests.support.parquet_pages import hide_page

IDS = pa.schema([("id", pa.int64())])


class Task:
    """Reads splits as a task of a micro-batch does."""

    def __init__(
        self, format: str, schema: pa.Schema = IDS, tolerance: Tolerance | None = None, **options: str
    ) -> None:
        self.after_first: Callable[[], object] = lambda: None
        self.context = TaskContext(0)
        reader = FileSourceReader(
            self.context,
            LOCAL_FS,
            file_format(format, options, schema),
            schema,
            tolerance,
            compare_times=tolerance is None,
        )
        self._source: Any = SimpleNamespace(schema=schema, create_reader=lambda _: reader)

    def read(self, splits: Sequence[FileSplit]) -> list[dict[str, Any]]:
        ranges = [PlannedRange(s, s.start, s.end) for s in splits]
        spec = SourceSpec(self._source, WatermarkStrategy(), None, Driver())
        output = TaskOutput(spec, SplitTask(0, 1, ranges))
        rows: list[dict[str, Any]] = []
        for _ in read_ranges(self._source, self.context, ranges, output, timeout_s=10):
            for batch in output.drain():
                if not rows:
                    self.after_first()
                rows += batch.to_pylist()
        return rows

    def counts(self) -> dict[str, int]:
        return {
            name: n
            for name, n in self.context.metric_group().snapshot().items()
            if "files" in name or "mal" in name
        }


def _split(path: Path, start: int, end: int, partition: Sequence[tuple[str, str | None]] = ()) -> FileSplit:
    found = local_file(str(path))
    assert found is not None
    return FileSplit(found.path, found.modified, found.size, tuple(partition)).between(start, end)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"id": range(1000)}), path, row_group_size=300)
    return path


def test_ranges_are_read_one_after_the_other(numbers: Path, tmp_path: Path) -> None:
    """I1: every range is read from its start up to its end."""
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"id": range(5000, 5010)}), other)
    splits = [_split(numbers, 250, 650), _split(other, 3, 5), _split(numbers, 999, 1000)]
    assert [row["id"] for row in Task("parquet").read(splits)] == [*range(250, 650), 5003, 5004, 999]


OLD, NEW = "old" * 16, "new" * 16
LINES = 60_000
BYTES = LINES * len(f"{OLD}\n")
TEXT = pa.schema([("value", pa.string())])


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file of lines that takes several batches to read, modified long ago."""
    path = tmp_path / "lines.txt"
    path.write_text(f"{OLD}\n" * LINES)
    os.utime(path, (10**9, 10**9))
    return path


@pytest.mark.parametrize("text", [f"{NEW}\n" * LINES, ""], ids=["overwritten", "truncated"])
def test_a_file_that_is_overwritten_while_it_is_read_fails_the_task(lines: Path, text: str) -> None:
    """A local file that is overwritten in its place, or truncated, while a task reads it fails the task. Its rows
    would be old and new ones, or end early, without an error.
    """
    task = Task("text", TEXT)
    task.after_first = lambda: lines.write_text(text)
    with pytest.raises(DataLossError, match=r"lines\.txt had modification time 2001-.* was overwritten"):
        task.read([_split(lines, 0, BYTES)])


def test_a_file_that_is_replaced_or_deleted_while_it_is_read_is_read_to_its_end(
    lines: Path, tmp_path: Path
) -> None:
    """Another file in the place of one that a task reads, and its deletion, change nothing of what is read."""
    (tmp_path / "new").write_text(f"{NEW}\n" * LINES)
    task = Task("text", TEXT)
    split = _split(lines, 0, BYTES)
    task.after_first = lambda: (tmp_path / "new").rename(lines)
    assert {row["value"] for row in task.read([split])} == {OLD}
    os.utime(lines, (10**9, 10**9))
    task = Task("text", TEXT)
    task.after_first = lines.unlink
    assert len(task.read([split])) == LINES


def test_values_of_partitions_are_columns(numbers: Path) -> None:
    """Values of partitions are columns if the schema has them, with the schema's types. The reader does not look
    for them in the file.
    """
    schema = pa.schema([("Day", pa.date32()), ("id", pa.int64()), ("n", pa.int32()), ("none", pa.string())])
    split = _split(numbers, 7, 8, [("day", "2024-02-29"), ("n", "12"), ("none", None), ("unwanted", "x")])
    assert Task("parquet", schema).read([split]) == [
        {"Day": date(2024, 2, 29), "id": 7, "n": 12, "none": None}
    ]


def test_a_query_of_partition_columns_alone_has_all_rows(numbers: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    assert Task("parquet", schema).read([_split(numbers, 0, 400, [("n", "1")])]) == [{"n": 1}] * 400


def test_a_partition_value_that_does_not_convert_is_refused(numbers: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(
        RecordFormatError,
        match=r"Column 'n' of the partition of parquet file .* is 'x', which is not a value of int64",
    ):
        Task("parquet", schema).read([_split(numbers, 0, 1, [("n", "x")])])


def _damaged(path: Path) -> FileSplit:
    """Damages the second row group of a file, so that it does not decode. Returns a split of the file."""
    split = _split(path, 0, 900)
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(1).column(0)
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data[begin : begin + 20] = b"\xff" * 20
    path.write_bytes(data)
    return split


def _gone(path: Path) -> FileSplit:
    split = _split(path, 0, 900)
    path.unlink()
    return split


def _written_anew(path: Path) -> FileSplit:
    split = _split(path, 0, 900)
    pq.write_table(pa.table({"id": range(5)}), path)
    return split


def _other_schema(path: Path) -> FileSplit:
    pq.write_table(pa.table({"id": ["x"] * 900}), path)
    return _split(path, 0, 900)


BAD = [
    (_damaged, CorruptRecordError, "corrupt"),
    (_other_schema, RecordFormatError, "corrupt"),
    (_gone, DataLossError, "missing"),
    (_written_anew, DataLossError, "missing"),
]


@pytest.mark.parametrize(("spoil", "error", "why"), BAD)
def test_a_bad_file_fails_the_task(numbers: Path, spoil: Any, error: type[Flip27Error], why: str) -> None:
    """A bad file fails the task by default, and if only the other kind of bad files is tolerated. The error
    names file and format.
    """
    split = spoil(numbers)
    for tolerance in (Tolerance(), Tolerance(corrupt=why == "missing", missing=why == "corrupt")):
        with pytest.raises(error, match=r"parquet file .*numbers\.parquet"):
            Task("parquet", tolerance=tolerance).read([split])


@pytest.mark.parametrize(("spoil", "error", "why"), BAD)
def test_bad_files_are_skipped_warned_of_and_counted(
    numbers: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Any, error: object, why: str
) -> None:
    """Rows that decode before the damage stay, as in Spark. The next file is read."""
    good = tmp_path / "good.parquet"
    pq.write_table(pa.table({"id": [-1]}), good)
    split = spoil(numbers)
    task = Task("parquet", tolerance=Tolerance(corrupt=why == "corrupt", missing=why == "missing"))
    with caplog.at_level(logging.WARNING):
        rows = task.read([split, _split(good, 0, 1)])
    assert rows[-1] == {"id": -1}
    assert len(rows) == 1 or (spoil is _damaged and [row["id"] for row in rows[:-1]] == list(range(300)))
    (record,) = caplog.records
    assert f"Rows of split {split.split_id} from 0 to 900 are skipped" in record.getMessage()
    assert task.counts() == {f"{why}_files": 1}


def test_the_warning_names_the_rows_that_are_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(60_000)}), path, row_group_size=20_000)
    split = _split(path, 0, 60_000)
    hide_page(path, group=1, column="id")
    task = Task("parquet", tolerance=Tolerance(corrupt=True))
    with caplog.at_level(logging.WARNING):
        assert [row["id"] for row in task.read([split])] == list(range(20_000))
    assert f"Rows of split {split.split_id} from 20000 to 60000 are skipped" in caplog.text


def test_malformed_records_are_warned_of_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\nbad\n{"id": 2}\nworse\n')
    split = _split(path, 0, path.stat().st_size)
    task = Task("json", mode="DROPMALFORMED")
    with caplog.at_level(logging.WARNING):
        assert task.read([split]) == [{"id": 1}, {"id": 2}]
    (record,) = caplog.records
    assert "2 malformed records of split" in record.getMessage()
    assert "line at byte 10" in record.getMessage()
    assert task.counts() == {"malformed_records": 2}


def test_rows_of_compressed_lines_stay_in_their_range(tmp_path: Path) -> None:
    """Compressed lines are more bytes than their file has. Their positions stay within the range, or
    rows would be left out.
    """
    path = tmp_path / "a.json.gz"
    with pa.CompressedOutputStream(str(path), "gzip") as out:
        out.write(b"".join(b'{"id": %d}\n' % i for i in range(9000)))
    size = path.stat().st_size
    splits = [_split(path, 0, size // 2), _split(path, size // 2, size)]
    rows = [row["id"] for split in splits for row in Task("json").read([split])]
    assert rows == list(range(9000))
