from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from flip27_stream.testing import wait_until
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import SplitRow
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter


class StuckTable(SplitWatermarkTable):
    """A table whose store does not answer until it is released."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri, {})
        self.asked = threading.Event()
        self.released = threading.Event()

    def append(self, app_id: str, batch: int, rows: Sequence[SplitRow], metadata: Mapping[str, str]) -> bool:
        self.asked.set()
        assert self.released.wait(60)
        return super().append(app_id, batch, rows, metadata)


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[StuckTable]:
    table = StuckTable(str(tmp_path / "table"))
    yield table
    table.released.set()


def batches(table: SplitWatermarkTable) -> list[int]:
    return sorted(set(table.rows()["batch"].to_pylist()))


def test_flushed_rows_are_in_the_table(tmp_path: Path) -> None:
    """Flushed rows are in the table. The plan that ends a run flushes the table first (rule 8)."""
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    writer = TableWriter(table, "clicks/1")
    for batch in range(5):
        writer.submit(batch, split_rows(batch), {"watermark": str(batch)})
    assert writer.flush(30)
    assert batches(table) == [0, 1, 2, 3, 4]
    assert [commit.get("watermark") for commit in table.delta.history(2)] == ["4", "3"]
    writer.close()


def test_replayed_batches_are_written_once(tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    for _ in range(2):
        writer = TableWriter(table, "clicks/1")
        for batch in range(3):
            writer.submit(batch, split_rows(batch), {})
        assert writer.flush(30)
        writer.close()
    assert table.rows().num_rows == 3 * 4


def test_batches_that_another_process_has_recorded_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two queries run from copies of one checkpoint, in two groups of one table, so that they are no duplicates."""
    one, two = (
        TableWriter(SplitWatermarkTable(str(tmp_path / "table"), {}), "clicks/1", source=name)
        for name in ("clicks", "the copy")
    )

    def record(writer: TableWriter, *numbers: int) -> None:
        for number in numbers:
            writer.submit(number, split_rows(number), {})
        assert writer.flush(30)

    record(one, *range(5))
    record(two, 3, 4)
    assert not caplog.records, "a run that begins with a batch of the former run"
    record(two, 5)
    record(one, 6, 7, 8)
    record(two, 6, 7, 8, 9)
    one.close()
    two.close()
    [warning] = caplog.records
    assert "has batch 8 of the copy, and those before it, already" in warning.getMessage()
    assert "a scan.source.id, or a table, of its own" in warning.getMessage()


def test_rows_are_taken_when_submitted(stuck: StuckTable) -> None:
    writer = TableWriter(stuck, "clicks/1")
    rows = split_rows(0)
    writer.submit(0, rows, {})
    rows.clear()
    stuck.released.set()
    assert writer.flush(30)
    assert stuck.rows().num_rows == 4
    writer.close()


def test_a_table_that_does_not_answer_delays_no_plan(stuck: StuckTable) -> None:
    writer = TableWriter(stuck, "clicks/1", source="clicks", capacity=3)
    writer.submit(0, split_rows(0), {})
    assert stuck.asked.wait(30)
    for batch in range(1, 10):
        writer.submit(batch, split_rows(batch), {})
    assert not writer.flush(0.05)
    stuck.released.set()
    assert writer.flush(30)
    assert batches(stuck) == [0, 7, 8, 9], "the one under way and the newest three"
    writer.close()


def test_close_is_bounded_and_silent(stuck: StuckTable) -> None:
    writer = TableWriter(stuck, "clicks/1")
    writer.submit(0, split_rows(0), {})
    assert stuck.asked.wait(30)
    writer.close(0.05)
    writer.close(0.05)
    writer.submit(1, split_rows(1), {})
    stuck.released.set()
    assert writer.flush(30)
    assert batches(stuck) == [0], "nothing is taken after close"


def test_close_writes_pending_rows(tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    writer = TableWriter(table, "clicks/1")
    for batch in range(5):
        writer.submit(batch, split_rows(batch), {})
    writer.close(30)
    assert batches(table) == [0, 1, 2, 3, 4]


def test_a_writer_without_rows_creates_no_table(tmp_path: Path) -> None:
    writer = TableWriter(SplitWatermarkTable(str(tmp_path / "table"), {}), "clicks/1")
    assert writer.flush(0)
    writer.close()
    assert not (tmp_path / "table").exists()


def test_an_unreachable_table_is_warned_of_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "table"
    path.write_text("in the way")
    table = SplitWatermarkTable(str(path), {})
    writer = TableWriter(table, "clicks/1", source="clicks", capacity=3)
    for batch in range(10):
        writer.submit(batch, split_rows(batch), {})
        assert not writer.flush(0.02)
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING
    assert str(path) in warning.getMessage()
    assert "cannot be opened" in warning.getMessage()
    assert "clicks is still read" in warning.getMessage()

    path.unlink()
    assert writer.flush(30)
    assert batches(table)[-3:] == [7, 8, 9]
    writer.close(30)
    assert len(caplog.records) == 2
    assert "the rows of 7 batches (0 to 6) were dropped" in caplog.records[1].getMessage()


def test_an_outage_ends_with_close(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "table"
    path.write_text("in the way")
    writer = TableWriter(SplitWatermarkTable(str(path), {}), "clicks/1")
    writer.submit(0, split_rows(0), {})
    writer.close(30)
    assert writer._thread is None or not writer._thread.is_alive()
    assert len(caplog.records) == 2
    assert "is closed without the rows of 1 batches (0 to 0)" in caplog.records[1].getMessage()


def test_an_outage_takes_little_memory(tmp_path: Path) -> None:
    """While the table cannot be written, the newest batches of 10,000 splits that fit into the limit are kept, and
    all of these are written in the end.
    """
    path = tmp_path / "table"
    path.write_text("in the way")
    table = SplitWatermarkTable(str(path), {})
    writer = TableWriter(table, "clicks/1", max_bytes=1_500_000)
    rows = split_rows(0, splits=10_000)
    before = pa.total_allocated_bytes()
    for batch in range(30):
        writer.submit(batch, rows, {})
    assert pa.total_allocated_bytes() - before < 10_000_000
    path.unlink()
    assert writer.flush(30)
    kept = len(table.delta.history()) - 1
    assert 5 < kept < 30
    assert table.rows().num_rows == kept * 10_000
    writer.close(30)


def test_a_flush_waits_less_for_a_table_that_fails(tmp_path: Path, stuck: StuckTable) -> None:
    path = tmp_path / "file"
    path.write_text("in the way")
    failing = TableWriter(SplitWatermarkTable(str(path), {}), "clicks/1")
    failing.submit(0, split_rows(0), {})
    assert not failing.flush(3600, 0.1)
    failing.close()
    slow = TableWriter(stuck, "clicks/1")
    slow.submit(0, split_rows(0), {})
    threading.Timer(0.3, stuck.released.set).start()
    assert slow.flush(60, 0), "it has not failed"
    slow.close()


def test_maintenance_runs_in_the_background(tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    writer = TableWriter(
        table, "clicks/1", maintenance=Maintenance(table, round_every=20, clock=lambda: START_MS)
    )
    for batch in range(25):
        writer.submit(batch, split_rows(batch), {})
    writer.close(60)
    assert len(table.delta.file_uris()) == 1 + 5
    assert batches(table) == list(range(25))


def test_commits_of_others_in_the_process_are_maintained_without_batches(tmp_path: Path) -> None:
    """Entries are commits too, so the table of a query that writes no rows for weeks is maintained.

    The last commit before the end is not forgotten.
    """
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    rounds: list[int] = []

    class Counting(Maintenance):
        def committed(self, version: int) -> None:
            rounds.append(version)

    writer = TableWriter(table, "clicks/1", maintenance=Counting(table))
    for version in range(41):
        writer.look_after(version)
    wait_until(lambda: rounds == [0, 20, 40], "maintenance", 30)
    writer.look_after(60)
    writer.close(30)
    assert rounds == [0, 20, 40, 60]
