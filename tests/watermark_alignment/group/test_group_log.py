"""Tests of the group log, which keeps entries in the commits of a real table on disk."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyarrow.fs import PyFileSystem

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group import group_log
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.own_entry import ALL_RENEWED_S
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

HORIZON_MS = 60_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def open_log(path: Path, group: str = "g") -> GroupLog:
    return GroupLog(SplitWatermarkTable(str(path), {}), group, HORIZON_MS)


def told(log: GroupLog) -> list[Entry]:
    return [told for _, told in log.new_entries()]


def test_published_entries_are_read_once_and_in_order(path: Path) -> None:
    """Each published entry is read once and in order, with the version of its commit, also by its own writer.

    The table may be new.
    """
    one, two = open_log(path), open_log(path)
    entries = [entry("a", watermark) for watermark in range(5)]
    one.publish(entries[0])
    assert two.new_entries() == [(1, entries[0])]
    for further in entries[1:]:
        one.publish(further)
    assert two.new_entries() == [(i + 1, further) for i, further in enumerate(entries) if i]
    assert two.new_entries() == []
    assert told(one) == entries


def test_an_entry_adds_no_file_and_rows_are_no_entries(path: Path) -> None:
    log, table = open_log(path), SplitWatermarkTable(str(path), {})
    log.publish(entry("a", 1))
    table.append("clicks/1", 0, split_rows(0), {"watermark": "5"})
    log.publish(entry("a", 2))
    assert len(DeltaTable(str(path)).file_uris()) == 1
    assert [e.watermark for e in told(log)] == [1, 2]


def test_al_06_another_group_of_the_table_is_not_read(path: Path) -> None:
    one, other = open_log(path), open_log(path, "other")
    one.publish(entry("a", 1))
    other.publish(entry("a", 2, group="other"))
    assert [e.watermark for e in told(one)] == [1]
    assert [e.watermark for e in told(other)] == [2]


def test_foreign_commit_metadata_of_the_same_name_is_ignored(path: Path) -> None:
    log = open_log(path)
    log.publish(entry("a", 1))
    nameless = entry("a", 7).to_text().replace('"source": "a"', '"source": ["a"]')
    for text in ("not JSON", "[]", '{"group": "g"}', nameless):
        write_deltalake(
            str(path),
            SCHEMA.empty_table(),
            mode="append",
            commit_properties=CommitProperties(custom_metadata={"flip27.member": text}),
        )
    log.publish(entry("a", 2))
    assert [e.watermark for e in told(log)] == [1, 2]


@pytest.mark.parametrize(
    "text", [b'{"commitInfo":{"flip27.member":' + b"[" * 100_000, b"\xff\xfe flip27.member"]
)
def test_a_commit_that_cannot_be_understood_does_not_hide_those_after_it(path: Path, text: bytes) -> None:
    """The entries after a damaged commit are read. Otherwise the members would keep the last minimum for ever."""
    log = open_log(path)
    log.publish(entry("a", 1))
    told(log)
    commit = path / "_delta_log" / f"{2:020d}.json"
    commit.write_bytes(text)
    assert told(log) == []
    commit.with_name(f"{3:020d}.json").write_text(
        json.dumps({"commitInfo": {group_log.KEY: entry("a", 2).to_text()}})
    )
    assert [e.watermark for e in told(log)] == [2]


def test_reading_begins_with_recent_entries(path: Path) -> None:
    """A new reader begins with the entries of the last ``HORIZON_MS`` by the clock of the store.

    It does not read a log of weeks.
    """
    log = open_log(path)
    for watermark in range(4):
        log.publish(entry("a", watermark))
    newest = (path / "_delta_log" / f"{4:020d}.json").stat().st_mtime
    for version, age_ms in ((1, HORIZON_MS + 1000), (2, HORIZON_MS + 1), (3, HORIZON_MS - 1)):
        at = newest - age_ms / 1000
        os.utime(path / "_delta_log" / f"{version:020d}.json", (at, at))
    assert [e.watermark for e in told(open_log(path))] == [2, 3]


def test_entries_are_read_after_the_clock_of_the_store_was_set_back(path: Path) -> None:
    """I3: a new reader sees the members although older commits have times in the future."""
    log = open_log(path)
    for watermark in range(3):
        log.publish(entry("a", watermark))
    tomorrow = time.time() + 86_400
    os.utime(path / "_delta_log" / f"{1:020d}.json", (tomorrow, tomorrow))
    assert [e.watermark for e in told(open_log(path))] == [0, 1, 2]


def test_a_reader_goes_on_after_the_log_was_shortened(path: Path) -> None:
    retention = {"delta.logRetentionDuration": "interval 0 seconds"}
    DeltaTable.create(str(path), SCHEMA, configuration=retention)
    sleeper, busy = open_log(path), open_log(path)
    sleeper.publish(entry("sleeper", 1))
    sleeper.new_entries()
    for watermark in range(5):
        busy.publish(entry("busy", watermark))
    assert Maintenance(SplitWatermarkTable(str(path), {}), clock=lambda: START_MS).run()
    busy.publish(entry("busy", 99))
    sleeper.publish(entry("sleeper", 2))
    assert [e.watermark for e in told(sleeper)] == [4, 99, 2]


def test_a_table_that_was_made_anew_is_read_from_its_beginning(path: Path) -> None:
    log = open_log(path)
    for watermark in range(5):
        log.publish(entry("a", watermark))
    log.new_entries()
    shutil.rmtree(path)
    SplitWatermarkTable(str(path), {}).open()
    log.publish(entry("a", 7))
    assert [e.watermark for e in told(log)] == [7]
    assert log.tables == 1


def test_a_young_log_is_complete_once_all_live_members_have_renewed_their_entries(path: Path) -> None:
    """The age of a table is the time between its first and its newest commit, by the clock of the store."""
    writer, young = open_log(path), open_log(path)
    for watermark in range(3):
        writer.publish(entry("a", watermark))
    before = time.monotonic()
    young.new_entries()
    assert young.complete_at is not None
    assert before + ALL_RENEWED_S - 5 < young.complete_at <= time.monotonic() + ALL_RENEWED_S
    first = path / "_delta_log" / f"{0:020}.json"
    created = first.stat().st_mtime - ALL_RENEWED_S
    os.utime(first, (created, created))
    for is_shortened in (False, True):
        log = open_log(path)
        if is_shortened:
            first.unlink()
        log.new_entries()
        assert log.complete_at is not None
        assert log.complete_at <= time.monotonic()


def test_a_missing_table_is_not_taken_for_silence(path: Path) -> None:
    """Reading a table that is missing raises an error, and the last entries that were read stay valid (rule 7).

    Otherwise all members would count as dead after a while.
    """
    log = open_log(path)
    log.publish(entry("a", 1))
    log.new_entries()
    path.rename(path.with_name("elsewhere"))
    for _ in range(2):
        with pytest.raises(AlignmentError, match="cannot be read: there is no Delta table"):
            log.new_entries()
    path.with_name("elsewhere").rename(path)
    assert log.new_entries() == []


def test_a_reader_that_never_writes_finds_a_recreated_table(path: Path) -> None:
    log, other = open_log(path), open_log(path)
    for watermark in range(5):
        other.publish(entry("a", watermark))
    assert len(told(log)) == 5
    shutil.rmtree(path)
    assert log.tables == 0
    open_log(path).publish(entry("a", 7))
    assert [e.watermark for e in told(log)] == [7]
    assert log.tables == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_read_that_fails_halfway_loses_no_entry(
    path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """A read that fails halfway loses no entry; otherwise a new member would assume that it is alone (I3).

    Version 3 is the one after the newest, at which reading ends.
    """
    for watermark in range(2):
        open_log(path).publish(entry("a", watermark))
    log, read = open_log(path), group_log._read

    def failing(files: PyFileSystem, at: int) -> str | None:
        if at == version:
            raise OSError("The store is busy")
        return read(files, at)

    with monkeypatch.context() as patched:
        patched.setattr(group_log, "_read", failing)
        with pytest.raises(AlignmentError, match="The store is busy"):
            log.new_entries()
    assert [e.watermark for e in told(log)] == [0, 1]


def test_an_unreadable_log_is_an_error_that_names_the_table(path: Path) -> None:
    path.write_text("no folder")
    for failing in (open_log(path).new_entries, lambda: open_log(path).publish(entry("a"))):
        with pytest.raises(AlignmentError, match=str(path)):
            failing()


def test_a_log_that_grew_for_long_is_read_in_parts_and_many_commits_at_a_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long log is read in parts, so that a member can renew its entry between two of them.

    Many commits of a part are read at the same time.
    """
    log = GroupLog(SplitWatermarkTable(str(path), {}), "g", HORIZON_MS, most_at_once=20)
    writer = open_log(path)
    for watermark in range(50):
        writer.publish(entry("a", watermark))
    parts = [told(log)]
    while log.is_behind:
        parts.append(told(log))
    assert [e.watermark for part in parts for e in part] == [*range(50)]
    assert len(parts) == 3
    for watermark in range(50, 120):
        writer.publish(entry("a", watermark))
    together = threading.Barrier(16)
    read = group_log._read

    def counted(files: PyFileSystem, version: int) -> str | None:
        if 66 <= version < 82:
            together.wait(30)
        return read(files, version)

    monkeypatch.setattr(group_log, "_read", counted)
    parts = [told(log)]
    while log.is_behind:
        parts.append(told(log))
    assert [e.watermark for part in parts for e in part] == [*range(50, 120)]
    assert max(len(part) for part in parts) < 20 + 16


def test_a_look_that_finds_nothing_asks_for_one_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that finds nothing new asks the store for one commit.

    Members read several times a second, and a store charges for each request.
    """
    log = open_log(path)
    log.publish(entry("a", 1))
    log.new_entries()
    asked: list[int] = []
    monkeypatch.setattr(group_log, "_read", lambda files, version: asked.append(version))
    assert log.new_entries() == []
    assert asked == [2]


@pytest.mark.long
def test_members_that_publish_at_once_lose_nothing(path: Path) -> None:
    """Five writers add entries and rows at the same time, with maintenance.

    Conflicts are retried, and every entry is read once.
    """

    def member(name: str) -> None:
        log, table = open_log(path), SplitWatermarkTable(str(path), {})
        maintenance = Maintenance(table, checkpoint_every=7, round_every=21, clock=lambda: START_MS)
        for n in range(20):
            maintenance.committed(log.publish(entry(name, n)))
            assert table.append(f"{name}/1", n, split_rows(n, source=name), {})
            maintenance.committed(table.delta.version())

    SplitWatermarkTable(str(path), {}).open()
    reader = open_log(path)
    reader.new_entries()
    names = ["a", "b", "c", "d", "e"]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(member, names))
    read = told(reader)
    for name in names:
        assert [e.watermark for e in read if e.source == name] == [*range(20)]
    assert SplitWatermarkTable(str(path), {}).rows().num_rows == len(names) * 20 * 4
