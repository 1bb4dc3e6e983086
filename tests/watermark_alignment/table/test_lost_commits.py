"""A table whose folder is deleted while members write to it: commits that are left alone in its log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from flip27_stream.errors import AlignmentError
from tests.support.module_time import replace_time
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table import split_watermark_table
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import as_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.storage import lost_commits
from watermark_alignment.table.storage.lost_commits import ASIDE, MARK


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Returns a function that lets seconds pass on the clock by which a log counts as settled."""
    now = [0.0]
    replace_time(monkeypatch, lost_commits.__name__, monotonic=lambda: now[0])

    def passes(seconds: float) -> None:
        now[0] += seconds

    return passes


def table_of(path: Path, batches: int) -> SplitWatermarkTable:
    table = SplitWatermarkTable(str(path), {})
    for batch in range(batches):
        table.append("clicks/1", batch, split_rows(batch), {})
    return table


def log(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in (path / "_delta_log").glob("*.json"))


def delete_commits(path: Path, versions: range) -> None:
    for version in versions:
        (path / "_delta_log" / f"{version:020}.json").unlink()


def aside(path: Path) -> list[str]:
    return sorted(file.name.rpartition("-")[2] for file in path.iterdir() if ASIDE.fullmatch(file.name))


def recorded(path: Path) -> set[int]:
    return set(SplitWatermarkTable(str(path), {}).rows()["batch"].to_pylist())


@pytest.mark.parametrize("left", [0, 1], ids=["all is deleted", "another member has created the table again"])
def test_a_commit_after_the_table_was_deleted_does_not_stay_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    """The folder is deleted between the look of delta-rs at the newest version and the file of the next one."""
    table = table_of(path, 5)

    def deleted_meanwhile(*arguments: Any, **options: Any) -> None:
        write_deltalake(*arguments, **options)
        delete_commits(path, range(left, 6))
        monkeypatch.setattr(split_watermark_table, "write_deltalake", write_deltalake)

    monkeypatch.setattr(split_watermark_table, "write_deltalake", deleted_meanwhile)
    assert table.append("clicks/1", 5, split_rows(5), {})
    assert (log(path), recorded(path)) == ([0, 1], {5})
    assert aside(path) == ["00000000000000000006.json"], "no file is deleted"


def test_a_commit_is_kept_after_commits_before_it_were_cleaned_up(path: Path) -> None:
    table = table_of(path, 5)
    DeltaTable(path).create_checkpoint()
    delete_commits(path, range(5))
    assert table.append("clicks/1", 5, split_rows(5), {})
    assert (log(path), aside(path), recorded(path)) == ([5, 6], [], set(range(6)))


@pytest.mark.parametrize(
    ("missing", "kept", "lost"),
    [
        (range(4), set(), [4, 5]),
        (range(3, 5), {0, 1}, [5]),
    ],
    ids=["no beginning", "a gap"],
)
def test_lost_commits_are_put_aside_when_the_log_has_settled(
    path: Path, wait: Callable[[float], None], missing: range, kept: set[int], lost: list[int]
) -> None:
    """A new process opens the table. Data files of lost commits do not count as another use of the path."""
    table_of(path, 5)
    delete_commits(path, missing)
    table = SplitWatermarkTable(str(path), {})
    for seconds in (0, 9):
        wait(seconds)
        with pytest.raises(AlignmentError, match=r"Restore the folder from a copy; or, .* delete it"):
            table.open()
    (path / "_delta_log" / "copied by a user").write_text("")
    wait(9)
    with pytest.raises(AlignmentError):
        table.open()
    wait(10)
    assert table.append("views/1", 9, split_rows(9), {})
    assert recorded(path) == {*kept, 9}
    assert aside(path) == [f"{version:020}.json" for version in lost]


def test_commits_of_others_are_left_alone(path: Path, wait: Callable[[float], None]) -> None:
    for batch in range(3):
        write_deltalake(path, as_table(split_rows(batch)), mode="append")
    delete_commits(path, range(1))
    before = sorted(path.rglob("*"))
    table = SplitWatermarkTable(str(path), {})
    for _ in range(3):
        wait(60)
        with pytest.raises(AlignmentError):
            table.open()
    assert sorted(path.rglob("*")) == before


def test_a_checkpoint_after_the_table_was_deleted_hides_no_new_table(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is deleted, and another member creates the table again, before a checkpoint is written."""
    table = table_of(path, 5)
    create = DeltaTable.create_checkpoint

    def deleted_before(delta: DeltaTable) -> None:
        shutil.copytree(path, path.with_name("deleted"))
        create(DeltaTable(path.with_name("deleted")))
        shutil.rmtree(path)
        table_of(path, 1)
        for file in path.with_name("deleted").glob("_delta_log/*checkpoint*"):
            shutil.copy(file, path / "_delta_log")

    monkeypatch.setattr(DeltaTable, "create_checkpoint", deleted_before)
    assert not Maintenance(table, clock=lambda: START_MS).run()
    assert recorded(path) == {0}
    assert len(aside(path)) == 2


def test_every_commit_has_the_mark_of_its_table(path: Path) -> None:
    table = table_of(path, 3)
    table.note({"flip27.member": "{}"})
    assert Maintenance(table, clock=lambda: START_MS + 8 * 86_400_000).run()
    marks = [
        commit.get(MARK) for commit in DeltaTable(path).history() if commit["operation"] != "CREATE TABLE"
    ]
    assert set(marks) == {str(table.delta.metadata().id)}
