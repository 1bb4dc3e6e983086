"""The enumerator of files under a coordinator: admission, limits, event-time order, restarts and bounds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.api import TimestampAssigner
from flip27_stream.connectors.files.formats.file_units import FileUnits
from flip27_stream.connectors.files.formats.parquet import ParquetFormat
from flip27_stream.connectors.files.formats.statistics import EventTimeOrder
from flip27_stream.errors import Flip27Error, OptionError
from flip27_stream.testing import wait_until
from tests.connectors.files.support.file_query import SECOND, UNLIMITED, FileQuery, Piece, write
from tests.connectors.files.support.reading import units_of

DAY = 86_400 * SECOND


def test_files_are_read_in_the_order_of_modification_times(folder: Path) -> None:
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "4"})
    names = [[name for name, _, _ in pieces] for pieces in query.run()]
    by_time = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    expected = [path.name for path in by_time]
    assert names == [sorted(expected[:4]), sorted(expected[4:8]), sorted(expected[8:])]
    assert query.ids() == dict.fromkeys(range(1000), 1)


def test_only_files_of_the_batch_are_in_the_offset(folder: Path) -> None:
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "2"})
    most = 0
    while query.step() is not None:
        most = max(most, len(query.splits))
    assert most == 2


@pytest.mark.parametrize("knows_strategy", [True, False])
def test_with_alignment_files_are_read_in_event_time_order(folder: Path, knows_strategy: bool) -> None:
    """I3: after every batch all unread rows are newer than the greatest event time read minus the drift."""
    query = FileQuery(
        {"path": str(folder), "maxFilesPerTrigger": "3"}, max_drift="20 s", knows_strategy=knows_strategy
    )
    read_max, last = 0, 0
    while query.step() is not None:
        new = [row["ts"].timestamp() for row in query.rows[last:]]
        last = len(query.rows)
        if new and read_max:
            assert min(new) > read_max - 20 - 30  # the drift, and what a row group spans
        read_max = max([read_max, *new])
    assert query.ids() == dict.fromkeys(range(1000), 1)


@pytest.mark.parametrize("statistics", [True, False])
def test_files_are_cut_between_row_groups_at_the_horizon(tmp_path: Path, statistics: bool) -> None:
    """A file that goes far ahead of the next one is cut at a row group, and waits. Without statistics the event times
    are read from the column.
    """
    write(tmp_path / "long.parquet", 1, rows=300, statistics=statistics)
    write(tmp_path / "next.parquet", 50 * SECOND, rows=10, ids=300, statistics=statistics)
    query = FileQuery({"path": str(tmp_path), "maxFilesPerTrigger": "1"}, max_drift="20 s")
    first = query.run()[0]
    assert first == [("long.parquet", 0, 90)]  # 50 s + 20 s lie in the third group
    assert query.ids() == dict.fromkeys(range(310), 1)


def test_the_rest_of_a_file_after_a_jump_waits_behind_another_file(tmp_path: Path) -> None:
    """I4: the limit of files goes to another file after a jump in the first one, and the first file's
    rest waits behind it.
    """
    write(tmp_path / "jumps.parquet", 1, rows=2, step_ms=1000 * SECOND, group=1)
    write(tmp_path / "between.parquet", 500 * SECOND, rows=3, ids=2)
    query = FileQuery({"path": str(tmp_path), "maxFilesPerTrigger": "1"}, max_drift="20 s")
    assert query.run() == [
        [("jumps.parquet", 0, 1)],
        [("between.parquet", 0, 3)],
        [("jumps.parquet", 1, 2)],
    ]


def test_rows_of_a_batch_are_limited(folder: Path) -> None:
    """I2: a batch ends between row groups if a whole row group fits the limit, and otherwise inside a row group."""
    query = FileQuery({"path": str(folder), "maxRowsPerTrigger": "70"})
    sizes = [sum(b - a for _, a, b in pieces) for pieces in query.run()]
    assert max(sizes) <= 70
    query = FileQuery({"path": str(folder), "maxRowsPerTrigger": "7"})
    assert sum(b - a for _, a, b in query.step() or []) == 7


def test_bytes_of_a_batch_are_limited(folder: Path) -> None:
    """I2: a batch has as many row groups as the limit has room for."""
    units = {path.name: units_of(ParquetFormat(), path) for path in folder.iterdir()}
    groups = {
        name: dict(zip(u.borders.tolist(), u.sizes.tolist(), strict=False)) for name, u in units.items()
    }

    def bytes_of(pieces: list[Piece]) -> int:
        return sum(size for name, a, b in pieces for at, size in groups[name].items() if a <= at < b)

    limit = next(folder.iterdir()).stat().st_size * 3 // 2
    query = FileQuery({"path": str(folder), "maxBytesPerTrigger": str(limit)})
    sizes = [bytes_of(pieces) for pieces in query.run()]
    largest = max(size for of_file in groups.values() for size in of_file.values())
    assert max(sizes) <= limit
    assert min(sizes[:-1]) > limit - largest, "no further row group fits"
    assert query.ids() == dict.fromkeys(range(1000), 1)


def test_at_least_one_unit_is_read_however_small_the_limit(folder: Path) -> None:
    query = FileQuery({"path": str(folder), "maxBytesPerTrigger": "1"})
    assert [b - a for _, a, b in query.step() or []] == [30]


def test_trigger_once_has_no_limits(folder: Path) -> None:
    query = FileQuery(
        {"path": str(folder), "maxFilesPerTrigger": "1", "maxRowsPerTrigger": "5"}, available_now=False
    )
    assert sum(b - a for _, a, b in query.step(limit=None) or []) == 1000


@settings(max_examples=10)
@given(st.data())
def test_restarts_at_any_batch_read_every_row_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """FI-17, SX: every row comes once with limits of any kind, aligned or not, with a restart before any batch."""
    folder = tmp_path_factory.mktemp("files")
    for number in range(data.draw(st.integers(1, 6))):
        write(folder / f"{number}.parquet", number * 7 % 5 * 50 * SECOND + 1, rows=60, ids=number * 60)
    files = len(list(folder.iterdir()))
    limits = data.draw(
        st.sampled_from(
            [{"maxFilesPerTrigger": "2"}, {"maxRowsPerTrigger": "45"}, {"maxBytesPerTrigger": "900"}, {}]
        )
    )
    drift = data.draw(st.sampled_from([None, "10 s", "1 h"]))
    query = FileQuery({"path": str(folder), **limits}, max_drift=drift)
    while query.step() is not None:
        if data.draw(st.booleans()):
            query.restart()
    assert query.ids() == dict.fromkeys(range(60 * files), 1)


def test_new_files_are_found_and_available_now_leaves_them_to_the_next_run(folder: Path) -> None:
    """FI-02: ``Trigger.AvailableNow`` reads what its first look found. The next run reads new files."""
    query = FileQuery({"path": str(folder), "maxFilesPerTrigger": "4"})
    assert query.step()
    write(folder / "sub" / "new.parquet", 1, ids=1000)
    query.run()
    assert len(query.rows) == 1000
    query.restart()
    query.run()
    assert query.ids() == dict.fromkeys(range(1100), 1)


def test_a_running_query_finds_new_files(folder: Path) -> None:
    query = FileQuery({"path": str(folder), "source.monitor-interval": "10 ms"}, available_now=False)
    assert query.step()
    write(folder / "new.parquet", 1, ids=1000)
    wait_until(lambda: query.step() and len(query.rows) == 1100, "the new file")
    assert query.ids() == dict.fromkeys(range(1100), 1)


def test_planning_with_nothing_new_returns_the_start(folder: Path) -> None:
    """I8: a plan with nothing new returns the start offset, also after the last batch. Files that
    retire are no batch.
    """
    query = FileQuery({"path": str(folder)}, available_now=False)
    assert query.step()
    assert query.coordinator.latest_offset(query.offset, None) is query.offset


def test_a_processed_file_may_be_gone_after_a_restart(folder: Path) -> None:
    query = FileQuery({"path": str(folder)})
    query.run()
    for path in folder.iterdir():
        path.unlink()
    write(folder / "new.parquet", 1, ids=1000)
    query.restart()
    query.run()
    assert query.ids() == dict.fromkeys(range(1100), 1)


def test_empty_files_are_no_splits(tmp_path: Path) -> None:
    write(tmp_path / "empty.parquet", 1, rows=0)
    write(tmp_path / "full.parquet", 1, rows=5)
    query = FileQuery({"path": str(tmp_path)})
    assert query.run() == [[("full.parquet", 0, 5)]]


def test_a_bounded_source_reads_the_files_that_existed_at_its_start(folder: Path) -> None:
    """FI-05: a bounded source reads the files that were there when it began, also after a restart."""
    options = {"path": str(folder), "source.monitor-interval": "0", "maxFilesPerTrigger": "4"}
    query = FileQuery(options, available_now=False)
    assert query.step()
    write(folder / "new.parquet", 1, ids=1000)
    query.restart()
    while query.step():
        pass
    assert query.ids() == dict.fromkeys(range(1000), 1)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Flip27Error, match=r"Path .*nowhere.* does not exist"):
        FileQuery({"path": str(tmp_path / "nowhere")})


@pytest.mark.parametrize("max_drift", ["10 s", None])
def test_without_a_strategy_of_its_own_a_source_is_read_once_too(folder: Path, max_drift: str | None) -> None:
    """Each run of ``Trigger.Once`` plans a single batch. It has all files that there are, in the first run
    and after a restart.
    """
    options = {"path": str(folder), "maxFilesPerTrigger": "3"}
    query = FileQuery(options, max_drift=max_drift, knows_strategy=False, available_now=False)
    query.step(limit=None)
    write(folder / "new.parquet", 2000 * SECOND, ids=1000)
    query.restart()
    query.step(limit=None)
    assert query.ids() == dict.fromkeys(range(1100), 1)


def test_an_aligned_query_whose_files_are_all_read_waits_for_more(folder: Path) -> None:
    """I8: when all files are read, plans assign nothing and return the start. A new file is read though it is
    older than all others.
    """
    options = {"path": str(folder), "source.monitor-interval": "10 ms"}
    query = FileQuery(options, max_drift="10 s", available_now=False)
    while len(query.rows) < 1000:
        query.step()
    assert query.coordinator.latest_offset(query.offset, UNLIMITED) is query.offset
    query.restart()
    assert query.coordinator.latest_offset(query.offset, UNLIMITED) is query.offset
    write(folder / "new.parquet", 1, ids=1000)
    wait_until(lambda: query.step() is None and len(query.rows) == 1100, "the new file")
    assert query.ids() == dict.fromkeys(range(1100), 1)


class PlainAssigner(TimestampAssigner):
    """An assigner without a column, and without a ``__repr__`` of its own."""

    def __init__(self, scale: object = 1) -> None:
        self.scale = scale

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        return records.column("id")


def test_an_order_has_the_same_name_in_every_process() -> None:
    """The checkpoint says in which order files are read, so the name of an order may not hold an
    address in memory.
    """
    assert EventTimeOrder.of(PlainAssigner()).name == EventTimeOrder.of(PlainAssigner()).name
    assert EventTimeOrder.of(PlainAssigner(1)).name != EventTimeOrder.of(PlainAssigner(2)).name
    with pytest.raises(OptionError, match=r"has another name in every process.*__repr__"):
        EventTimeOrder.of(PlainAssigner(object()))


LINES: list[tuple[str, Callable[[int], str], dict[str, str]]] = [
    (
        "json",
        '{{"id": {}, "ts": "2026-01-01T00:00:00Z", "other": "a value of some length"}}'.format,
        {"maxRowsPerTrigger": "25000"},
    ),
    ("csv", "{},2026-01-01T00:00:00Z,another value of some length".format, {"maxBytesPerTrigger": "1m"}),
]


@pytest.mark.parametrize(("format_", "line", "limit"), LINES, ids=["json", "csv"])
def test_big_files_of_lines_are_read_in_parts(
    tmp_path: Path, format_: str, line: Callable[[int], str], limit: dict[str, str]
) -> None:
    """FI-17: a big file is read in several batches, with a restart in between, and each line comes once."""
    rows = 40_000
    (tmp_path / f"lines.{format_}").write_text("\n".join(map(line, range(rows))) + "\n")
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("other", pa.string())])
    query = FileQuery({"path": str(tmp_path), "files.format": format_, **limit}, schema=schema)
    assert query.step()
    assert 0 < len(query.rows) < rows
    query.restart()
    query.run()
    assert query.ids() == dict.fromkeys(range(rows), 1)


def test_a_store_that_answers_slowly_is_asked_for_many_footers_at_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Footers are read by several threads. A plan of a thousand files would otherwise take half a minute."""
    asking: set[int] = set()
    at_once = [0]
    units = ParquetFormat.units

    def slowly(self: ParquetFormat, *arguments: Any, **options: Any) -> FileUnits:
        asking.add(threading.get_ident())
        at_once[0] = max(at_once[0], len(asking))
        time.sleep(0.2)
        asking.discard(threading.get_ident())
        return units(self, *arguments, **options)

    monkeypatch.setattr(ParquetFormat, "units", slowly)
    query = FileQuery({"path": str(folder)})
    assert len(query.step() or []) == 10
    assert at_once[0] > 1
