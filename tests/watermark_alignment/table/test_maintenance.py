from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from tests.support.parquet_pages import hide_page
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.table import merged_file as merged_file_module
from watermark_alignment.table.data_files import DataFile
from watermark_alignment.table.maintenance import ROUND_EVERY, ROW_RETENTION, Maintenance
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

KEEP_NOTHING = {
    "delta.logRetentionDuration": "interval 0 seconds",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}
HOUR_MS = 3_600_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def files(path: Path) -> int:
    return len(list(path.glob("*.parquet")))


def log_files(path: Path) -> int:
    return len(list((path / "_delta_log").iterdir()))


def keep_rows(table: SplitWatermarkTable, duration: str) -> None:
    table.delta.alter.set_table_properties({ROW_RETENTION: duration}, raise_if_not_exists=False)


@pytest.mark.long
def test_files_stay_few_over_many_batches(path: Path) -> None:
    """With 120 batches, rounds of 20 versions and retention 0, one data file is left after each round, and no row is
    lost.
    """
    DeltaTable.create(str(path), SCHEMA, configuration=KEEP_NOTHING)
    table = SplitWatermarkTable(str(path), {})
    maintenance = Maintenance(table, checkpoint_every=5, round_every=20, clock=lambda: START_MS)
    rounds = 0
    for batch in range(120):
        table.append("clicks/1", batch, split_rows(batch, splits=4 + batch % 5), {})
        made = table.delta.version()
        maintenance.committed(made)
        if made % 20 == 0:
            rounds += 1
            assert files(path) == len(table.delta.file_uris()) == 1
            assert log_files(path) <= 5
    assert rounds >= 6
    found = SplitWatermarkTable(str(path), {}).rows()
    assert found.num_rows == sum(4 + batch % 5 for batch in range(120))
    assert found.group_by(["batch", "split"]).aggregate([]).num_rows == found.num_rows


@pytest.mark.long
def test_the_table_of_a_group_stays_small(path: Path) -> None:
    """At retention 0, the number of files of a group's table does not grow with the number of batches and entries.

    Files of commits that failed are not counted: commits of the log are gone too early for the others here.
    """
    DeltaTable.create(str(path), SCHEMA, configuration=KEEP_NOTHING)
    logs = [GroupLog(SplitWatermarkTable(str(path), {}), "g", HOUR_MS) for _ in range(3)]
    tables = [SplitWatermarkTable(str(path), {}) for _ in logs]
    keep_rows(tables[0], "16 s")
    rounds = [
        Maintenance(table, checkpoint_every=10, round_every=30, clock=lambda: START_MS + now * 1000)
        for table in tables
    ]
    most: list[tuple[int, int]] = []
    for now in range(60):
        for number, (log, table, maintenance) in enumerate(zip(logs, tables, rounds, strict=True)):
            maintenance.committed(log.publish(entry(f"m{number}", now)))
            if now % 3 == number:
                table.append(f"m{number}/1", now, split_rows(now, source=f"m{number}"), {})
                maintenance.committed(table.delta.version())
            log.new_entries()
        most.append((len(DeltaTable(str(path)).file_uris()), log_files(path)))
    first, second = (
        [max(figures) for figures in zip(*half, strict=True)] for half in (most[20:40], most[40:])
    )
    for early, late, most_allowed in zip(first, second, (20, 40), strict=True):
        assert late <= early + 1
        assert late <= most_allowed
    assert tables[0].rows().num_rows <= 4 * (16 * 9 // 8 + 20)


def test_replays_are_known_after_the_log_was_shortened(path: Path) -> None:
    DeltaTable.create(str(path), SCHEMA, configuration=KEEP_NOTHING)
    table = SplitWatermarkTable(str(path), {})
    for batch in range(5):
        table.append("clicks/1", batch, split_rows(batch), {})
    assert Maintenance(table).run()
    assert not list((path / "_delta_log").glob("*0000[0-5].json"))
    assert not SplitWatermarkTable(str(path), {}).append("clicks/1", 4, split_rows(4), {})


def test_a_reader_may_hold_on_to_a_version(path: Path) -> None:
    """At the default retention of a quarter of an hour, the files that a round replaced can still be read."""
    table = SplitWatermarkTable(str(path), {})
    for batch in range(5):
        table.append("clicks/1", batch, split_rows(batch), {})
    reader = DeltaTable(str(path))
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert reader.count() == 20
    assert len(reader.to_pyarrow_table()) == 20
    assert DeltaTable(str(path), version=3).count() == 12


def test_rows_older_than_their_retention_are_deleted(path: Path) -> None:
    table = SplitWatermarkTable(str(path), {})
    for batch in (0, 60, 119, 120, 200):  # seconds after START_MS
        table.append("clicks/1", batch, split_rows(batch), {})
    now = START_MS
    keep_rows(table, "interval 80 seconds")
    maintenance = Maintenance(table, clock=lambda: now)

    def left() -> list[int]:
        assert maintenance.run()
        return sorted(set(table.rows()["batch"].to_pylist()))

    now = START_MS + 90_000
    assert left() == [0, 60, 119, 120, 200], "up to an eighth longer"
    now = START_MS + 200_000
    assert left() == [120, 200]
    now = START_MS + HOUR_MS
    assert left() == []
    assert left() == []


@pytest.mark.long
def test_members_survive_the_maintenance_of_each_other(path: Path) -> None:
    """Three members write and maintain one table at the same time, and no row is lost or doubled."""

    def member(name: str) -> int:
        table = SplitWatermarkTable(str(path), {})
        maintenance = Maintenance(table, checkpoint_every=2, round_every=4, clock=lambda: START_MS)
        written = 0
        for batch in range(24):
            written += table.append(f"{name}/1", batch, split_rows(batch, source=name), {})
            maintenance.committed(table.delta.version())
        return written

    SplitWatermarkTable(str(path), {}).open()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(member, ["a", "b", "c"])) == [24, 24, 24]
    table = SplitWatermarkTable(str(path), {})
    found = table.rows()
    assert found.num_rows == 3 * 24 * 4
    assert found.group_by(["source", "batch", "split"]).aggregate([]).num_rows == found.num_rows
    assert len(table.delta.file_uris()) <= 3 * 4, "even where two rounds in three are cut short"
    assert Maintenance(table, clock=lambda: START_MS).run()
    assert len(table.delta.file_uris()) == 1


def ours(path: Path) -> None:
    assert Maintenance(SplitWatermarkTable(str(path), {}), clock=lambda: START_MS).run()


def optimize(path: Path) -> None:
    DeltaTable(str(path)).optimize.compact()


@pytest.mark.parametrize("compact", [ours, optimize])
def test_two_compactions_that_meet_do_not_double_rows(path: Path, compact: Callable[[Path], None]) -> None:
    """A compaction, ours or Delta's, that commits after ours has read its files and before ours commits does not
    double rows.
    """
    table = SplitWatermarkTable(str(path), {})
    for batch in range(5):
        table.append("clicks/1", batch, split_rows(batch), {})

    class Late(Maintenance):
        """A maintenance in which another compaction comes between the reading of the files and the commit."""

        def _replace(self, removed: Sequence[DataFile], added: Sequence[AddAction]) -> bool:
            compact(path)
            return super()._replace(removed, added)

    assert Late(table, clock=lambda: START_MS).run()
    assert table.rows().num_rows == 5 * 4
    assert len(table.delta.file_uris()) == 1


def test_a_damaged_file_is_not_merged(path: Path) -> None:
    """Arrow leaves a damaged page out without an error, and the rows would be lost."""
    table = SplitWatermarkTable(str(path), {})
    for batch in range(2):
        table.append("clicks/1", batch, split_rows(batch), {})
    hide_page(next(path.glob("*.parquet")), group=0, column="batch")
    assert not Maintenance(table, clock=lambda: START_MS).run()
    assert len(table.delta.file_uris()) == 2


def test_files_with_deletion_vectors_are_not_merged(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Files are not merged if more than their rows counts, as with deletion vectors, which the table's owner may have
    turned on. One warning says so.
    """
    DeltaTable.create(str(path), SCHEMA, configuration={"delta.enableDeletionVectors": "true"})
    table = SplitWatermarkTable(str(path), {})
    for batch in range(2):
        table.append("clicks/1", batch, split_rows(batch), {})
    assert table.delta.protocol().min_reader_version > 1
    maintenance = Maintenance(table, clock=lambda: START_MS)
    assert [maintenance.run() for _ in range(2)] == [True, True]
    assert len(table.delta.file_uris()) == 2
    [warning] = caplog.records
    assert "are not merged, and their number grows" in warning.getMessage()


def test_compaction_succeeds_beside_appends(path: Path) -> None:
    table, busy = SplitWatermarkTable(str(path), {}), SplitWatermarkTable(str(path), {})
    for batch in range(5):
        table.append("clicks/1", batch, split_rows(batch), {})

    class Busy(Maintenance):
        """A maintenance in which another member appends between the reading of the files and the commit."""

        def _replace(self, removed: Sequence[DataFile], added: Sequence[AddAction]) -> bool:
            busy.append("views/1", 0, split_rows(0, source="views"), {})
            return super()._replace(removed, added)

    assert Busy(table, clock=lambda: START_MS).run()
    assert table.rows().num_rows == 6 * 4
    assert len(table.delta.file_uris()) == 2


@pytest.mark.long
def test_deleting_rows_while_others_write(path: Path) -> None:
    """Expiry deletes old rows only, while other members commit and maintain the table."""

    def member(name: str) -> None:
        now = START_MS
        table = SplitWatermarkTable(str(path), {})
        maintenance = Maintenance(table, checkpoint_every=5, round_every=5, clock=lambda: now)
        for batch in range(20):
            now = START_MS + batch * 1000
            table.append(f"{name}/1", batch, split_rows(batch, source=name), {})
            maintenance.committed(table.delta.version())

    keep_rows(SplitWatermarkTable(str(path), {}), "10 s")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(member, ["a", "b", "c"]))
    found = SplitWatermarkTable(str(path), {}).rows()
    kept = set(zip(found["source"].to_pylist(), found["batch"].to_pylist(), strict=True))
    assert {(source, batch) for source in "abc" for batch in range(10, 20)} <= kept
    assert found.group_by(["source", "batch", "split"]).aggregate([]).num_rows == found.num_rows


@pytest.mark.long
def test_short_processes_maintain_the_table(path: Path) -> None:
    """Processes that make two commits each, as an AvailableNow run every minute does, maintain the table: rounds
    follow the versions of the table, not the life of a process.
    """
    most = 0
    for run in range(40):
        table = SplitWatermarkTable(str(path), {})
        table.append("clicks/1", run, split_rows(run), {})
        maintenance = Maintenance(table, checkpoint_every=5, round_every=10, clock=lambda: START_MS)
        maintenance.committed(table.delta.version())
        maintenance.committed(table.note({"some": "entry"}))
        most = max(most, len(table.delta.file_uris()))
    assert most <= 10
    assert table.rows().num_rows == 40 * 4


def test_checkpoints_are_made_between_rounds(path: Path) -> None:
    table = SplitWatermarkTable(str(path), {})
    maintenance = Maintenance(table, clock=lambda: START_MS)
    for _ in range(ROUND_EVERY - 1):
        maintenance.committed(table.note({"some": "entry"}))
    made = sorted(int(file.name[:20]) for file in (path / "_delta_log").glob("*.checkpoint.parquet"))
    assert made == [20, 40, 60, 80]


def test_old_rows_are_not_written_anew_with_every_round(path: Path) -> None:
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, [row for n in range(2000) for row in split_rows(n)], {})
    [large] = table.delta.file_uris()
    for batch in range(1, 4):
        table.append("clicks/1", batch, split_rows(2000 + batch), {})
    assert Maintenance(table, clock=lambda: START_MS).run()
    found = table.delta.file_uris()
    assert large in found
    assert len(found) == 2
    assert table.rows().num_rows == 4 * 2003


def test_a_malformed_retention_is_warned_of(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = SplitWatermarkTable(str(path), {})
    keep_rows(table, "for ever")
    maintenance = Maintenance(table, clock=lambda: START_MS)
    assert [maintenance.run() for _ in range(3)] == [False] * 3
    [warning] = caplog.records
    assert f"'{path}' cannot be maintained and grows" in warning.getMessage()
    assert ROW_RETENTION in warning.getMessage()
    assert "for ever" in warning.getMessage()


def test_failing_rounds_are_warned_of_when_they_go_on(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = SplitWatermarkTable(str(path), {})
    table.append("clicks/1", 0, split_rows(0), {})
    maintenance = Maintenance(table, clock=lambda: START_MS)
    (path / "_delta_log").rename(path / "elsewhere")
    outcomes = [maintenance.run() for _ in range(4)]
    assert outcomes == [False] * 4
    [warning] = caplog.records
    assert warning.levelno == logging.WARNING
    assert f"'{path}' cannot be maintained and grows" in warning.getMessage()


def test_a_step_that_fails_keeps_no_other_step_from_running(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the retention of rows is invalid, rows do not expire.

    Files are merged and the log is cleaned up all the same.
    """
    DeltaTable.create(str(path), SCHEMA, configuration=KEEP_NOTHING)
    table = SplitWatermarkTable(str(path), {})
    keep_rows(table, "for ever")
    maintenance = Maintenance(table, checkpoint_every=5, round_every=10, clock=lambda: START_MS)
    for batch in range(40):
        table.append("clicks/1", batch, split_rows(batch), {})
        maintenance.committed(table.delta.version())
    assert log_files(path) < 20
    assert files(path) < 15
    [warning] = caplog.records
    assert "failed in the expiry of rows" in warning.getMessage()
    keep_rows(table, "1 hour")
    assert maintenance.run()


def test_a_table_that_was_made_anew_keeps_its_files(path: Path) -> None:
    """Maintenance deletes no file of a table that was made anew.

    By what it knew of the former table, it would delete all.
    """
    held = SplitWatermarkTable(str(path), {})
    for batch in range(5):
        held.append("clicks/1", batch, split_rows(batch), {})
    shutil.rmtree(path)
    DeltaTable.create(str(path), SCHEMA, configuration=KEEP_NOTHING)
    other = SplitWatermarkTable(str(path), {})
    for batch in range(3):
        other.append("views/1", batch, split_rows(batch), {})
    assert Maintenance(held, clock=lambda: START_MS).run()
    assert SplitWatermarkTable(str(path), {}).rows().num_rows == 3 * 4


def test_compaction_has_few_rows_in_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction copies rows to the merged file one group of rows at a time.

    The statistics of the file are of all its rows.
    """
    monkeypatch.setattr(merged_file_module, "_GROUP_ROWS", 10)
    DeltaTable.create(str(path), SCHEMA, configuration=KEEP_NOTHING)
    table = SplitWatermarkTable(str(path), {})
    for batch in range(7):
        table.append("clicks/1", batch, split_rows(batch, splits=4), {})
    before = table.rows()
    Maintenance(table, clock=lambda: START_MS).run()
    assert table.rows() == before
    (merged,) = path.glob("*.parquet")
    metadata = pq.ParquetFile(merged).metadata
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [12, 12, 4]
    (action,) = pa.table(table.delta.get_add_actions(flatten=True)).to_pylist()
    assert (action["num_records"], action["min.batch"], action["max.batch"]) == (28, 0, 6)
