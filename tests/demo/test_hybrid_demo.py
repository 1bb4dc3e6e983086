"""Tests of the demo of the hybrid source: its data, its source, and a small run as a user starts it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from flip27_stream.demo.hybrid.clicks import COLUMNS, PARTITIONS, Clicks
from flip27_stream.demo.hybrid.query import clicks_source
from flip27_stream.demo.windowed_count import WINDOW
from tests.demo.support.small_run import shown_by

NOW = 1_700_000_000_000


@pytest.fixture
def clicks(tmp_path: Path) -> Clicks:
    return Clicks.make("clicks", tmp_path / "history", 4_800, NOW)


def test_table_and_topic_overlap_and_the_seam_cuts_a_window(clicks: Clicks) -> None:
    assert clicks.begin < clicks.topic_begin < clicks.table_end < clicks.live_begin < clicks.end <= NOW
    assert clicks.table_end % WINDOW == WINDOW // 2
    in_both = [t for t in clicks.times if clicks.topic_begin <= t < clicks.table_end]
    assert 0 < clicks.rows_in_both == PARTITIONS * len(in_both) < clicks.rows


def test_the_table_has_the_older_records_in_files_that_are_out_of_order(clicks: Clicks) -> None:
    clicks.write_table()
    table = DeltaTable(str(clicks.table))
    rows = table.to_pyarrow_table()
    assert rows.schema.names == COLUMNS.names
    times = [int(t.timestamp() * 1000) for t in rows["timestamp"].to_pylist()]
    assert max(times) < clicks.table_end
    assert len(times) == PARTITIONS * sum(1 for t in clicks.times if t < clicks.table_end)
    assert times != sorted(times)
    assert table.version() + 1 == len(table.file_uris()) == 24


def test_the_right_counts_are_those_of_the_event_times(clicks: Clicks) -> None:
    one_by_one = Counter((p, int(t) // WINDOW * WINDOW) for p in range(PARTITIONS) for t in clicks.times)
    assert clicks.counts() == one_by_one


def test_the_sources_of_the_demo_have_the_same_columns(clicks: Clicks) -> None:
    """The demo's source can be built before a query runs: columns of the topic are converted to the table's."""
    clicks.write_table()
    source = clicks_source(str(clicks.table), "localhost:9092", "clicks", 10)
    assert source.schema.names == COLUMNS.names
    assert source.read_limits.max_rows == 10


@pytest.mark.jvm
def test_the_demo_counts_every_record_once(tmp_path: Path) -> None:
    shown = shown_by("flip27_stream.demo.hybrid", tmp_path, records=8_000, rows_per_batch=4_000)
    assert re.search(r"│ records +│ 8,000 +│", shown)
    assert re.search(r"│ lost +│ 0 +│", shown)
    assert re.search(r"│ counted twice +│ 0 +│", shown)
