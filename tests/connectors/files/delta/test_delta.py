"""Delta tables: a query reads a snapshot, and then the rows that commits add. Options say how commits
that change rows are read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import (
    ConnectorError,
    DataLossError,
    OptionError,
    RecordFormatError,
    UnreachableError,
)
from tests.connectors.files.support.delta_tables import append, fails, query, reads, running
from tests.connectors.files.support.file_query import SECOND, FileQuery


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of versions 0 to 5 with 50 rows each. Event times are not in the order of versions."""
    path = tmp_path / "table"
    for number in range(6):
        append(path, number * 5 % 6 * 100 * SECOND + 1, number * 50)
    return path


def ids(*versions: int) -> dict[int, int]:
    return {n: 1 for version in versions for n in range(version * 50, version * 50 + 50)}


def test_a_snapshot_is_read_and_then_added_rows(table: Path) -> None:
    reading = query(table, maxFilesPerTrigger="4")
    assert reading.step()
    append(table, 1, 300)
    reading.run()
    assert reading.ids() == ids(*range(6))
    reading.restart()
    reading.run()
    assert reading.ids() == ids(*range(7))
    assert reading.state == [3, {"delta": [6, None, [], DeltaTable(table).metadata().id]}]


def test_statistics_of_the_log_order_the_snapshot(table: Path) -> None:
    """The snapshot is read by least event time, from the statistics of the log: no footer is read for that."""
    reading = query(table, maxFilesPerTrigger="1", drift="10 s")
    seen = []
    while reading.step() is not None:
        seen.append(max((row["ts"] for row in reading.rows), default=None))
    known = [time for time in seen if time is not None]
    assert known == sorted(known)
    firsts = [row["id"] // 50 for row in reading.rows[::50]]
    assert firsts == sorted(range(6), key=lambda n: n * 5 % 6)


@pytest.mark.long
@settings(max_examples=10)
@given(st.data())
def test_a_query_restarts_after_any_batch_without_loss(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    table = tmp_path_factory.mktemp("table") / "t"
    versions = 0
    for _ in range(data.draw(st.integers(1, 3))):
        append(table, versions * 7 % 5 * 100 * SECOND + 1, versions * 50)
        versions += 1
    reading = query(table, maxFilesPerTrigger="1", **data.draw(st.sampled_from([{}, {"drift": "5 s"}])))
    for _ in range(data.draw(st.integers(1, 8))):
        reading.step()
        if data.draw(st.booleans()):
            append(table, versions * 7 % 5 * 100 * SECOND + 1, versions * 50)
            versions += 1
        if data.draw(st.booleans()):
            reading.restart()
    reading.run()
    reading.restart()
    reading.run()
    assert reading.ids() == ids(*range(versions))


def test_starting_version_skips_earlier_commits(table: Path) -> None:
    reading = query(table, startingVersion="4")
    reading.run()
    assert reading.ids() == ids(4, 5)


def test_a_start_at_the_latest_version_reads_only_later_commits(table: Path) -> None:
    reading = query(table, startingVersion="latest")
    assert reading.run() == []
    append(table, 1, 300)
    reading.restart()
    reading.run()
    assert reading.ids() == ids(6)


def set_commit_times(table: Path, *times: tuple[float, Mapping[str, object]]) -> None:
    """Sets the modification time (s) of the file of each version, and replaces its ``commitInfo``."""
    for version, (modified, info) in enumerate(times):
        file = table / "_delta_log" / f"{version:020}.json"
        others = [line for line in file.read_text().split("\n") if "commitInfo" not in line]
        file.write_text("\n".join([json.dumps({"commitInfo": info}), *others]))
        os.utime(file, (modified, modified))


@pytest.mark.parametrize("at", ["2026-01-04", "2026-01-03T00:00:00.001Z", "2026-01-04T05:00:00+05:00"])
def test_starting_timestamp_skips_earlier_commits(table: Path, at: str) -> None:
    days = [datetime(2026, 1, day, tzinfo=timezone.utc) for day in range(1, 7)]
    set_commit_times(table, *((day.timestamp(), {"timestamp": 1}) for day in days))
    reading = query(table, startingTimestamp=at)
    reading.run()
    assert reading.ids() == ids(3, 4, 5)
    with pytest.raises(OptionError, match=r"startingTimestamp.*after the latest version"):
        query(table, startingTimestamp="2999-01-01").run()


def test_a_version_that_is_not_there_yet(table: Path) -> None:
    with pytest.raises(OptionError, match=r"startingVersion.*latest version is 5"):
        query(table, startingVersion="7").run()


def test_partition_columns_are_columns_of_rows(tmp_path: Path) -> None:
    table = tmp_path / "t"
    append(table, 1, 0, 2, day=pa.array(["a b", None]))
    append(table, 1, 2, 2, day=pa.array(["c/d", "é%"]))
    reading = query(table)
    reading.step()
    append(table, 1, 4, 1, day=pa.array(["later"]))
    reading.restart()
    reading.run()
    assert {row["id"]: row["day"] for row in reading.rows} == {
        0: "a b",
        1: None,
        2: "c/d",
        3: "é%",
        4: "later",
    }


def test_a_commit_that_only_rearranges_files_adds_no_rows(table: Path) -> None:
    reading = query(table)
    reading.run()
    DeltaTable(table).optimize.compact()
    reading.restart()
    assert reading.run() == []


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({}, None),
        ({"ignoreDeletes": "true"}, None),
        ({"skipChangeCommits": "true"}, 300),
        ({"skipChangeCommits": "true", "ignoreChanges": "true"}, 300),
        ({"ignoreChanges": "true"}, 349),
    ],
)
def test_changes_of_rows_follow_the_options(table: Path, options: dict[str, str], read: int | None) -> None:
    """A commit that deletes a row rewrites the other rows of its file: options say what happens then."""
    reading = query(table, **options)
    reading.run()
    DeltaTable(table).delete("id = 3")
    reading.restart()
    if read is None:
        with pytest.raises(DataLossError, match=r"Version 6 .* changes rows.*skipChangeCommits"):
            reading.run()
    else:
        reading.run()
        assert len(reading.rows) == read


@pytest.mark.parametrize("option", ["ignoreDeletes", "ignoreChanges", "skipChangeCommits"])
def test_commits_that_only_delete_follow_the_options(table: Path, option: str) -> None:
    reading = query(table)
    reading.run()
    DeltaTable(table).delete("id < 50")
    reading.restart()
    with pytest.raises(DataLossError, match=r"Version 6 .* removes rows"):
        reading.run()
    lenient = query(table, startingVersion="6", **{option: "true"})
    assert lenient.run() == []


def test_a_log_that_was_cleaned_up(table: Path) -> None:
    reading = query(table)
    reading.run()
    for number in range(2):
        append(table, 1, 300 + 50 * number)
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{6:020}.json").unlink()
    reading.restart()
    with pytest.raises(DataLossError, match=r"Version 6 of the Delta table .* is no longer in its log"):
        reading.run()


def test_features_that_are_not_understood_are_named(table: Path) -> None:
    features = {"readerFeatures": ["telepathy"], "writerFeatures": ["telepathy"]}
    commit = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    (table / "_delta_log" / f"{6:020}.json").write_text(json.dumps(commit))
    with pytest.raises(ConnectorError, match="telepathy"):
        query(table)


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"There is no Delta table at .*nothing"):
        query(tmp_path / "nothing")


def append_at(table: Path, ids: int, *times_ms: int) -> None:
    """Commits one row for each event time, which is a partition column: only the names of folders have it."""
    rows = pa.table({"ts": pa.array(times_ms, pa.int64()), "id": np.arange(ids, ids + len(times_ms))})
    write_deltalake(table, rows, mode="append", partition_by=["ts"])


@pytest.mark.parametrize("knows_strategy", [True, False])
def test_event_time_is_a_partition_column(tmp_path: Path, knows_strategy: bool) -> None:
    """I3: all rows of a file have the same event time. Neither paths nor versions are in the order of event times."""
    table = tmp_path / "t"
    append_at(table, 0, 900, 1000, 20)
    append_at(table, 3, 3, 100_000)
    options = {"path": str(table), "files.format": "delta", "maxFilesPerTrigger": "1"}
    reading = FileQuery(options, max_drift="1 ms", knows_strategy=knows_strategy)
    while len(reading.rows) < 3:
        reading.step()
    reading.restart()
    reading.run()
    append_at(table, 5, 4000, 70, 4000)
    reading.restart()
    reading.run()
    assert [row["ts"] for row in reading.rows] == [3, 20, 900, 1000, 100_000, 70, 4000, 4000]


def test_the_order_becomes_known_while_a_look_is_under_way(table: Path) -> None:
    """FI-12: the order of files becomes known during a look. The look in the old order does not mix up their places."""
    reading = FileQuery({"path": str(table), "files.format": "delta"}, max_drift="5 s", knows_strategy=False)
    reading.run()
    for number in range(6, 9):
        append(table, (20 - number) * 100 * SECOND + 1, number * 50)
    backlog = reading.coordinator._enumerator._backlog  # type: ignore[union-attr]
    order, backlog._order = backlog._order, None
    look = backlog.look()
    backlog._order = order
    backlog.take_in(look)
    assert [one.least for one in backlog._queue] == [(20 - n) * 100 * SECOND + 1 for n in range(6, 9)]
    assert backlog.head().least == 1200 * SECOND + 1


def starting_at(table: Path, ms: int) -> set[int]:
    """Returns the versions that are read from a time (ms) on."""
    at = datetime.fromtimestamp(ms / 1000, timezone.utc).isoformat()
    reading = query(table, startingTimestamp=at)
    reading.run()
    return {n // 50 for n in reading.ids()}


def test_a_commit_without_commit_info_was_made_when_its_file_was_modified(table: Path) -> None:
    """Delta's writers may leave out ``commitInfo`` (``spark.databricks.delta.commitInfo.enabled``). Then the commit
    has the modification time of its file.
    """
    for version in range(6):
        file = table / "_delta_log" / f"{version:020}.json"
        file.write_text("\n".join(line for line in file.read_text().split("\n") if "commitInfo" not in line))
        os.utime(file, (1_000 + version,) * 2)
    assert starting_at(table, 1_002_500) == {3, 4, 5}
    assert starting_at(table, 1_003_000) == {3, 4, 5}
    assert starting_at(table, 0) == set(range(6))
    with pytest.raises(
        OptionError, match=r"after the latest version of the Delta table .* \(5\) was committed"
    ):
        starting_at(table, 1_005_001)


def test_times_of_commits_rise(table: Path) -> None:
    """Times of commits rise, as in Delta (``monotonizeCommitTimestamps``), though the clock of a store is late or
    repeats a time. In-commit timestamps come before the time of the file, which comes before the writer's clock.
    """
    set_commit_times(
        table,
        (5, {"timestamp": 1}),
        (4, {}),
        (5, {"timestamp": 99_000}),
        (1, {"timestamp": 1, "inCommitTimestamp": 7_000}),
        (8, {"inCommitTimestamp": "not a number"}),
        (9, {"timestamp": 1}),
    )
    begins = {ms: min(starting_at(table, ms)) for ms in (5_000, 5_001, 5_002, 5_003, 7_001, 8_001)}
    assert begins == {5_000: 0, 5_001: 1, 5_002: 2, 5_003: 3, 7_001: 4, 8_001: 5}


@pytest.mark.parametrize("options", [{"startingVersion": "1"}, {"startingVersion": "0"}])
def test_a_start_before_the_cleaned_log_fails(table: Path, options: dict[str, str]) -> None:
    """A start version that is no longer in the log fails the query, which would otherwise read nothing silently."""
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (table / "_delta_log" / f"{version:020}.json").unlink()
    with pytest.raises(DataLossError, match=r"Version \d of the Delta table .* is no longer in its log"):
        query(table, **options).run()


def test_versions_that_were_cleaned_up_before_they_were_read_to_their_end(table: Path) -> None:
    reading = query(table, startingVersion="1", maxFilesPerTrigger="1")
    assert reading.step()
    DeltaTable(table).create_checkpoint()
    for version in range(5):
        (table / "_delta_log" / f"{version:020}.json").unlink()
    reading.restart()
    with pytest.raises(DataLossError, match=r"Version 1 of the Delta table .* is no longer in its log"):
        reading.run()


@pytest.mark.parametrize("versions", [2, 9])
def test_a_table_that_was_made_anew(table: Path, versions: int) -> None:
    """A table that was made anew is refused, for its first versions would count as read."""
    reading = query(table)
    reading.run()
    shutil.rmtree(table)
    for number in range(versions):
        append(table, 1, number * 50)
    reading.restart()
    with pytest.raises(DataLossError, match="deleted and created again"):
        reading.run()


def test_an_empty_partition_value_is_null(tmp_path: Path) -> None:
    """An empty partition value is null by Delta's protocol, in a snapshot and in a commit."""
    table = tmp_path / "t"
    append(table, 1, 0, 1, day=pa.array([""]))
    reading = query(table)
    reading.run()
    append(table, 1, 1, 1, day=pa.array([""]))
    reading.restart()
    reading.run()
    assert [row["day"] for row in reading.rows] == [None, None]


def test_binary_partition_columns_are_refused_by_name(tmp_path: Path) -> None:
    append(tmp_path / "t", 1, 0, 1, key=pa.array([b"ab"]))
    with pytest.raises(RecordFormatError, match=r"'key' is a partition column .* binary"):
        query(tmp_path / "t").run()


@pytest.mark.parametrize("path", ["file:/elsewhere/a.parquet", "/elsewhere/a.parquet", "s3://b/a.parquet"])
def test_files_of_other_tables_are_refused_by_name(table: Path, path: str) -> None:
    added = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    (table / "_delta_log" / f"{6:020}.json").write_text(json.dumps({"add": added}))
    with pytest.raises(ConnectorError, match=f"{path}, which lies elsewhere"):
        query(table, ignoreMissingFiles="true").run()


@pytest.mark.parametrize("written", [b"", b'{"add": {"path": "', '{"add": {"path": "é'.encode()[:-1]])
def test_a_log_that_is_only_half_written_is_looked_at_again(
    table: Path, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may show a file of the log before it is complete. Such a file is looked at again; an empty one is
    no version that adds nothing.
    """
    monkeypatch.setattr(Retries, "pause_s", 0.01)
    append(table, 1, 300)
    log = table / "_delta_log" / f"{6:020}.json"
    whole = log.read_bytes()
    log.unlink()
    reading = running(table)
    log.write_bytes(written)
    delta = reading.coordinator._enumerator._backlog._delta  # type: ignore[union-attr]
    with pytest.raises(UnreachableError, match=r"Version 6 .*(has no action|is not complete)"):
        list(delta.commits(5))
    log.write_bytes(whole)
    reads(reading, 350)
    assert reading.ids() == ids(*range(7))


@pytest.mark.parametrize("written", [b"no JSON", b"[]", b"5\n", b'{"add"\n{}', b'{"add": 5}', b"\xff"])
def test_a_log_that_does_not_decode_fails_a_running_query_at_once(table: Path, written: bytes) -> None:
    reading = running(table)
    (table / "_delta_log" / f"{6:020}.json").write_bytes(written)
    with pytest.raises(ConnectorError, match=r"Version 6 of the Delta table .*(JSON|Delta's form)"):
        fails(reading)


def test_line_separators_in_values_end_no_line_of_the_log(table: Path) -> None:
    added = {"path": "a", "partitionValues": {"day": "a\u2028b\x85"}, "size": 1, "modificationTime": 1}
    text = json.dumps({"add": added | {"dataChange": True}}, ensure_ascii=False)
    (table / "_delta_log" / f"{6:020}.json").write_text(text, encoding="utf-8")
    delta = query(table).coordinator._spec.source._options.delta  # type: ignore[attr-defined]
    (commit,) = delta.commits(5)
    assert delta.added(commit)[0].layout.values == (("day", "a\u2028b\x85"),)
