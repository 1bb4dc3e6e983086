"""The simulations of very many tasks, group members and splits run at a small size. Their costs are not tested."""

from __future__ import annotations

from pathlib import Path

from benchmarks.planning import scale


def test_all_reports_are_taken() -> None:
    assert "20 tasks report at once: 20 taken, 0 undelivered" in scale.reports(20, 0.0)


def test_a_member_reads_the_entries_of_all(tmp_path: Path) -> None:
    lines = scale.members(tmp_path, 7)
    assert any(line.startswith("one member reads 7 entries") for line in lines)


def test_rows_of_all_splits_are_written(tmp_path: Path) -> None:
    assert scale.table(tmp_path, 10, 3)[0].startswith("3 batches of 10 rows")
