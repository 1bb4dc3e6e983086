"""Deletion vectors: deleted rows are not read, positions stay row numbers, and another vector is
another version of a file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.files.delta.deletion_vectors import deletion_vectors, latest_checkpoint
from flip27_stream.connectors.files.delta.delta_log_files import LogFiles
from flip27_stream.connectors.files.delta.delta_snapshot import data_files
from flip27_stream.connectors.files.formats.file_units import NEVER, FileUnits
from flip27_stream.connectors.files.planning.budget import Budget
from flip27_stream.connectors.files.storage.filesystem import Storage
from flip27_stream.connectors.files.storage.retries import Retries
from flip27_stream.errors import ConnectorError, CorruptRecordError, DataLossError
from tests.connectors.files.support.deletion_vectors import add, added, create, in_file, inline, removed
from tests.connectors.files.support.delta_tables import commit, query, reads, running
from tests.connectors.files.support.file_query import SECOND
from tests.support.parquet_pages import hide_page

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("id", pa.int64())])


def rows(ids: range) -> pa.Table:
    times = pa.array([n * SECOND * 1000 + 1000 for n in ids], pa.int64()).cast(SCHEMA.field("ts").type)
    return pa.table({"ts": times, "id": pa.array(ids, pa.int64())}, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    create(path, SCHEMA)
    return path


@pytest.mark.parametrize("drift", [None, "10 s"])
@pytest.mark.parametrize("kind", ["inline", "file", "file in a folder"])
def test_deleted_rows_of_a_snapshot_are_not_read(table: Path, kind: str, drift: str | None) -> None:
    """Deleted rows are not read: all rows of one row group, and some of others. Batches end within row groups, and
    the query restarts after each batch.
    """
    gone = {*range(10), 11, 29, 30, 55, 99}
    vector = (
        inline(gone) if kind == "inline" else in_file(table, gone, "ab" if kind.endswith("folder") else "")
    )
    commit(
        table, 1, add(table, rows(range(100)), vector, row_group_size=10), add(table, rows(range(100, 120)))
    )
    options = {"maxRowsPerTrigger": "13", **({} if drift is None else {"drift": drift})}
    reading, batches = query(table, **options), 0
    while (before := len(reading.rows)) is not None and reading.step() is not None:
        assert len(reading.rows) - before <= 13
        batches += 1
        reading.restart()
    assert reading.ids() == dict.fromkeys(set(range(120)) - gone, 1)
    assert batches >= 9


def test_a_commit_with_a_vector_is_another_version_of_the_file(table: Path) -> None:
    """A file with another vector is read again under ``ignoreChanges``, in one look with its first version or in a
    later look. The rows come from another split.
    """
    first = add(table, rows(range(20)))
    file = table / first["add"]["path"]
    commit(table, 1, first)
    reading = running(table, ignoreChanges="true")
    reads(reading, 20)
    second = added(file, inline(range(5)))
    commit(table, 2, second, removed(first))
    reads(reading, 35)
    commit(table, 3, added(file, in_file(table, range(10))), removed(second))
    reads(reading, 45)
    at_once = query(table, startingVersion="1", ignoreChanges="true")
    at_once.run()
    assert at_once.ids() == reading.ids()
    assert [reading.ids()[n] for n in (0, 5, 10)] == [1, 2, 3]


def test_a_vector_that_changes_while_its_file_is_being_read(table: Path) -> None:
    """A file whose vector changes while it is being read goes on in its planned version, also over a restart. The
    checkpoint says which rows that version has.
    """
    first = add(table, rows(range(40)), inline([1, 39]), row_group_size=10)
    commit(table, 1, first)
    reading = query(table, maxRowsPerTrigger="9", skipChangeCommits="true")
    reading.step()
    commit(table, 2, added(table / first["add"]["path"], inline([1, 20, 39])), removed(first))
    reading.restart()
    reading.run()
    assert reading.ids() == dict.fromkeys(set(range(40)) - {1, 39}, 1)
    fresh = query(table)
    fresh.run()
    assert fresh.ids() == dict.fromkeys(set(range(40)) - {1, 20, 39}, 1)


def test_skipped_commits_are_not_read(table: Path) -> None:
    """``skipChangeCommits`` passes over a commit, so a deletion vector of it that cannot be read does not matter."""
    first = add(table, rows(range(10)))
    commit(table, 1, first)
    reading = running(table, skipChangeCommits="true")
    reads(reading, 10)
    elsewhere = {"storageType": "p", "pathOrInlineDv": "file:/x", "sizeInBytes": 1, "cardinality": 1}
    commit(table, 2, added(table / first["add"]["path"], elsewhere), removed(first))
    commit(table, 3, add(table, rows(range(10, 20))))
    reads(reading, 20)
    assert reading.ids() == dict.fromkeys(range(20), 1)


def damage(table: Path, vector: dict[str, Any], how: str) -> None:
    (file,) = table.glob("deletion_vector_*.bin")
    data = file.read_bytes()
    match how:
        case "gone":
            file.unlink()
        case "cut":
            file.write_bytes(data[:-20])
        case "checksum":
            file.write_bytes(data[:-1] + b"\0" if data[-1] else data[:-1] + b"\1")
        case "bytes":
            file.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
        case "cardinality":
            vector["cardinality"] += 1


@pytest.mark.parametrize(
    ("how", "error", "said", "tolerant"),
    [
        ("gone", DataLossError, "is gone", {"ignoreMissingFiles": "true"}),
        ("cut", CorruptRecordError, "does not have the", {"ignoreCorruptFiles": "true"}),
        ("checksum", CorruptRecordError, "checksum", {"ignoreCorruptFiles": "true"}),
        ("bytes", CorruptRecordError, "checksum", {"ignoreCorruptFiles": "true"}),
        (
            "cardinality",
            CorruptRecordError,
            "it has 2 rows, but 3 in the log",
            {"ignoreCorruptFiles": "true"},
        ),
    ],
)
def test_vectors_that_cannot_be_read(
    table: Path,
    how: str,
    error: type[Exception],
    said: str,
    tolerant: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A vector that cannot be read never makes deleted rows come back. Options for missing and corrupt files hold for
    their vectors, too. A missing vector is looked for repeatedly, as a data file is.
    """
    monkeypatch.setattr(Retries, "time_limit_s", 0.1)
    vector = in_file(table, [1, 2])
    damage(table, vector, how)
    commit(table, 1, add(table, rows(range(10)), vector), add(table, rows(range(10, 20))))
    with pytest.raises(error, match=rf"deletion vector of the parquet file .*{said}"):
        query(table).run()
    lenient = query(table, **tolerant)
    lenient.run()
    assert lenient.ids() == dict.fromkeys(range(10, 20), 1)


def test_the_newest_vector_of_a_file_counts(table: Path) -> None:
    """The newest vector of a file counts, and a removed file has none. Tests with Spark have vectors in
    checkpoints of the log.
    """
    kept = add(table, rows(range(10)), inline([1]))
    changed, gone = add(table, rows(range(10, 20))), add(table, rows(range(20, 30)), inline([20]))
    commit(table, 1, kept, changed, gone)
    before = query(table)
    before.run()
    assert before.ids() == dict.fromkeys(set(range(30)) - {1}, 1)  # the last file has 10 rows, and no row 20
    commit(table, 2, added(table / changed["add"]["path"], inline([0])), removed(changed), removed(gone))
    after = query(table)
    after.run()
    assert after.ids() == dict.fromkeys(set(range(20)) - {1, 10}, 1)


def test_the_newest_complete_checkpoint_of_the_log_counts() -> None:
    uuid = "3fb1a7c8-de68-484a-b29c-e5a076f26f92"
    parts = [f"{9:020}.checkpoint.{n:010}.{2:010}.parquet" for n in (1, 2)]
    whole, v2 = f"{3:020}.checkpoint.parquet", f"{5:020}.checkpoint.{uuid}.json"
    names = [whole, v2, *parts, "_last_checkpoint", f"{3:020}.json", f"{3:020}.crc"]

    def chosen(version: int, *without: str) -> list[str] | None:
        found = latest_checkpoint([name for name in names if name not in without], version)
        return None if found is None else list(found.files)

    assert chosen(20) == parts
    assert chosen(20, parts[0]) == [v2]
    assert chosen(8) == [v2]
    assert chosen(4) == [whole]
    assert chosen(2) is None


@pytest.mark.parametrize("prefix", ["", "file:/elsewhere/_delta_log/_sidecars/"])
def test_a_sidecar_is_found_by_its_name(table: Path, prefix: str) -> None:
    """The protocol recommends the name alone, but a writer may give the whole URI, quoted."""
    vector, name = inline([1]), "0 1.parquet"
    adds = [{"path": "a.parquet", "deletionVector": vector}, {"path": "b.parquet", "deletionVector": None}]
    folder = table / "_delta_log" / "_sidecars"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"add": adds}), folder / name)
    top = folder.parent / f"{0:020}.checkpoint.3fb1a7c8-de68-484a-b29c-e5a076f26f92.json"
    top.write_text(json.dumps({"sidecar": {"path": prefix + quote(name)}}) + "\n")
    log = LogFiles(Storage(), str(folder.parent))
    assert dict(deletion_vectors(log, 0, "the table")) == {"a.parquet": vector}


def test_a_checkpoint_that_lacks_a_page_is_damaged(table: Path) -> None:
    """The vectors on the page would be missing, and deleted rows would be read."""
    name = f"{0:020}.checkpoint.parquet"
    path = table / "_delta_log" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"add": [{"path": "a.parquet", "deletionVector": {"storageType": "i"}}]}), path)
    for column in ("add.path", "add.deletionVector.storageType"):
        hide_page(path, group=0, column=column)
    log = LogFiles(Storage(), str(path.parent))
    with pytest.raises(ConnectorError, match=rf"{name} of the table does not decode: .* its footer says 1"):
        deletion_vectors(log, 0, "the table")


def test_a_vector_of_no_file_is_an_error(table: Path) -> None:
    """The vectors that the log has and the files that delta-rs lists must be of the same version."""
    actions = pa.table({"path": ["a"], "size_bytes": [1], "modification_time": [1]})
    with pytest.raises(ConnectorError, match="deletion vector of the file b"):
        data_files(actions, None, lambda *_: None, {"b": None}, None, None)  # type: ignore[arg-type, dict-item]


def test_event_times_are_those_of_rows_that_are_left(table: Path) -> None:
    """I1: event times are those of rows that are left. A row group that is deleted as a whole holds back no split,
    also where event time is found by reading.
    """
    commit(
        table, 1, add(table, rows(range(40)), inline(range(10)), row_group_size=10, write_statistics=False)
    )
    commit(table, 2, add(table, rows(range(40, 60)), row_group_size=10))
    reading = query(table, drift="5 s", maxRowsPerTrigger="10")
    seen = []
    while reading.step() is not None:
        seen.append(len(reading.rows))
    assert reading.ids() == dict.fromkeys(range(10, 60), 1)
    assert [row["id"] for row in reading.rows] == list(range(10, 60))


def single_rows(count: int) -> FileUnits:
    """Returns the units of a file with a unit for each row."""
    ones = np.ones(count, np.int64)
    return FileUnits(np.arange(count + 1), ones, ones, ones, ones, ones > 0, divisible=True)


@given(st.data())
def test_limits_count_the_rows_that_are_left(data: st.DataObject) -> None:
    """I2: a batch has as many rows as are left, up to the limit. A deleted row does not count."""
    length = data.draw(st.integers(1, 40))
    gone = np.array(sorted(data.draw(st.sets(st.integers(0, length - 1)))), np.int64)
    count = np.zeros(1, np.int64)
    whole = FileUnits(
        np.array([0, length], np.int64), np.array([length], np.int64), count + length, count, count + 9,
        np.ones(1, bool), divisible=True,
    )  # fmt: skip
    units = whole.without(gone)
    assert units.rows is not None
    assert units.rows[0] == length - len(gone)
    assert (units.least[0] == NEVER) == (len(gone) == length)
    position, read = data.draw(st.integers(0, length - 1)), 0
    left = np.setdiff1d(np.arange(position, length), gone)
    limit = data.draw(st.integers(1, 10))
    while position < length:
        budget = Budget(rows=limit)
        end = budget.end(units, position)
        assert position < end <= length
        here = int(((left >= position) & (left < end)).sum())
        assert here == min(limit, len(left) - read)
        other = 0 if budget.spent else budget.end(single_rows(9), 0)
        assert here + other <= limit
        read += here
        position = end
    assert read == len(left)


def test_a_checkpoint_from_before_deletion_vectors_is_read(table: Path) -> None:
    """A checkpoint of an earlier release has splits without a descriptor and a state without columns.
    Both are still read.
    """
    commit(table, 1, add(table, rows(range(40)), row_group_size=10))
    reading = query(table, maxRowsPerTrigger="15")
    reading.step()
    assert (reading.offset["enumerator"][0], reading.offset["split_version"]) == (3, 2)
    assert [len(split[-1]) for split in reading.offset["splits"].values()] == [2]
    reading.offset = {**reading.offset, "enumerator": [2, reading.state[1]], "split_version": 1}
    reading.restart()
    reading.run()
    assert reading.ids() == dict.fromkeys(range(40), 1)
