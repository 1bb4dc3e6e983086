from __future__ import annotations

import pickle
import re
import shutil
import socket
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flip27_stream.errors import AlignmentError
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import PROPERTIES, SplitWatermarkTable


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "split watermarks")


@pytest.fixture
def table(uri: str) -> SplitWatermarkTable:
    table = SplitWatermarkTable(uri, {})
    table.open()
    return table


def batches(uri: str, **filters: str) -> list[int]:
    return sorted(set(SplitWatermarkTable(uri, {}).rows(**filters)["batch"].to_pylist()))


def test_the_constructor_does_no_io(uri: str) -> None:
    SplitWatermarkTable(uri, {})
    assert not Path(uri).exists()


def test_open_creates_a_table_of_the_documented_columns(table: SplitWatermarkTable) -> None:
    created = DeltaTable(table.uri)
    columns = {field.name: field.type.type for field in created.schema().fields}
    assert columns == {
        "group": "string",
        "source": "string",
        "split": "string",
        "batch": "long",
        "start_position": "string",
        "end_position": "string",
        "rows": "long",
        "watermark": "timestamp",
        "max_event_time": "timestamp",
        "status": "string",
        "drift_ms": "long",
        "recorded_at": "timestamp",
    }
    assert created.metadata().configuration == PROPERTIES


def test_open_keeps_an_existing_table(table: SplitWatermarkTable) -> None:
    table.append("clicks/1", 0, split_rows(0), {})
    table.open()
    SplitWatermarkTable(table.uri, {}).open()
    assert table.rows().num_rows == 4


def test_two_creators_may_open_a_table_at_once(uri: str) -> None:
    def create(index: int) -> bool:
        table = SplitWatermarkTable(uri, {})
        table.open()
        return table.append(f"source-{index}", 0, split_rows(0, source=f"source-{index}"), {})

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(create, range(8)))
    assert SplitWatermarkTable(uri, {}).rows().num_rows == 8 * 4


def test_rows_read_back_as_written_in_utc(table: SplitWatermarkTable) -> None:
    """Rows are read back as they were written, in UTC.

    They publish the position of every split relative to its group (AO-13).
    """
    table.append("clicks/1", 7, split_rows(7), {})
    found = table.rows()
    assert found.schema == SCHEMA
    at = datetime.fromtimestamp(START_MS / 1000 + 7, tz=timezone.utc)
    assert found.to_pylist()[1] == {
        "group": "web",
        "source": "clicks",
        "split": "clicks-1",
        "batch": 7,
        "start_position": "70",
        "end_position": "80",
        "rows": 10,
        "watermark": at - timedelta(milliseconds=1001),
        "max_event_time": at - timedelta(seconds=1),
        "status": "ACTIVE",
        "drift_ms": 2000,
        "recorded_at": at,
    }


def test_unknown_times_are_null(table: SplitWatermarkTable) -> None:
    """An unknown time is null, and so is a time that no timestamp can hold (I10)."""
    row = split_rows(0)[0]
    unknown = replace(row, watermark=None, max_event_time=None, drift_ms=None)
    out_of_range = replace(row, watermark=-(2**62), max_event_time=2**62)
    before_1970 = replace(row, watermark=-1, max_event_time=0)
    table.append("clicks/1", 0, [unknown, out_of_range, before_1970], {})
    found = table.rows()
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert sorted(found["watermark"].to_pylist(), key=str) == [epoch - timedelta(milliseconds=1), None, None]
    assert sorted(found["max_event_time"].to_pylist(), key=str) == [epoch, None, None]
    assert found["drift_ms"].null_count == 1


def test_filters_take_names_literally(table: SplitWatermarkTable) -> None:
    odd = "o'clock\" -- x"
    table.append("a", 0, split_rows(0, source=odd, group="g'1"), {})
    table.append("b", 0, split_rows(0, source="other"), {})
    assert set(table.rows(source=odd)["source"].to_pylist()) == {odd}
    assert set(table.rows(group="g'1")["source"].to_pylist()) == {odd}
    assert table.rows(group="web", source=odd).num_rows == 0
    assert table.rows().num_rows == 8


def test_one_batch_is_one_commit_with_its_metadata(table: SplitWatermarkTable) -> None:
    before = table.delta.version()
    table.append("clicks/1", 0, split_rows(0), {"flip27.watermark": "1700000000000"})
    table.append("clicks/1", 1, [], {"flip27.watermark": "1700000001000"})
    newest, older = DeltaTable(table.uri).history(2)
    assert table.delta.version() == before + 2
    assert (older["flip27.watermark"], newest["flip27.watermark"]) == ("1700000000000", "1700000001000")
    assert batches(table.uri) == [0]


def test_a_replayed_batch_is_written_once(table: SplitWatermarkTable) -> None:
    """A replayed batch is written once, whether the process that wrote it replays it or its successor."""
    assert table.append("clicks/1", 0, split_rows(0), {})
    assert table.append("clicks/1", 1, split_rows(1), {})
    successor = SplitWatermarkTable(table.uri, {})
    for holder in (table, successor):
        assert not holder.append("clicks/1", 1, split_rows(1), {})
        assert not holder.append("clicks/1", 0, split_rows(0), {})
    assert successor.append("clicks/1", 2, split_rows(2), {})
    assert successor.append("clicks/2", 0, split_rows(0, source="again"), {}), "another lineage"
    assert table.rows(source="clicks").num_rows == 3 * 4


def test_two_holders_of_one_id_write_each_batch_once(table: SplitWatermarkTable) -> None:
    def write(holder: SplitWatermarkTable) -> list[bool]:
        return [holder.append("clicks/1", batch, split_rows(batch), {}) for batch in range(30)]

    holders = [SplitWatermarkTable(table.uri, {}) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        written = list(pool.map(write, holders))
    assert sum(map(sum, written)) <= 30, "a later batch may overtake an earlier one, none is there twice"
    found = table.rows()
    assert found.num_rows == 4 * sum(map(sum, written))
    assert found.group_by(["batch", "split"]).aggregate([]).num_rows == found.num_rows
    assert batches(table.uri)[-1] == 29


def test_an_idle_writer_finds_its_place_after_the_log_was_cleaned_up(tmp_path: Path) -> None:
    """A writer whose next version was removed from the log does not write that version again."""
    uri = str(tmp_path / "table")
    DeltaTable.create(uri, SCHEMA, configuration={"delta.logRetentionDuration": "interval 0 seconds"})
    idle, busy = SplitWatermarkTable(uri, {}), SplitWatermarkTable(uri, {})
    idle.append("idle", 0, split_rows(0, source="idle"), {})
    for batch in range(5):
        busy.append("busy", batch, split_rows(batch, source="busy"), {})
    busy.delta.create_checkpoint()
    busy.delta.cleanup_metadata()
    busy.append("busy", 5, split_rows(5, source="busy"), {})
    assert not (Path(uri) / "_delta_log" / f"{idle.delta.version() + 1:020}.json").exists()
    assert idle.append("idle", 1, split_rows(1, source="idle"), {})
    assert batches(uri, source="busy") == [0, 1, 2, 3, 4, 5]
    assert batches(uri, source="idle") == [0, 1]


def test_a_writer_that_begins_after_the_log_was_cleaned_up(tmp_path: Path) -> None:
    """A writer that opened the table writes its first batch after the version that it opened was removed from the
    log.
    """
    uri = str(tmp_path / "table")
    DeltaTable.create(uri, SCHEMA, configuration={"delta.logRetentionDuration": "interval 0 seconds"})
    late, busy = SplitWatermarkTable(uri, {}), SplitWatermarkTable(uri, {})
    late.open()
    for batch in range(5):
        busy.append("busy", batch, split_rows(batch, source="busy"), {})
    busy.delta.create_checkpoint()
    busy.delta.cleanup_metadata()
    assert not (Path(uri) / "_delta_log" / f"{0:020}.json").exists()
    assert late.append("late", 0, split_rows(0, source="late"), {})
    assert batches(uri, source="late") == [0]


def test_a_table_that_is_deleted_under_its_writer_is_made_anew(table: SplitWatermarkTable) -> None:
    """A table that is deleted under its writer is made anew.

    The commit that fails leaves its data file behind, which does not count as another use of the path.
    """
    table.append("clicks/1", 0, split_rows(0), {})
    shutil.rmtree(table.uri)
    assert table.append("clicks/1", 1, split_rows(1), {})
    assert batches(table.uri) == [1]


def test_nothing_is_written_to_a_table_of_others_that_took_the_place(table: SplitWatermarkTable) -> None:
    """Another project creates a table at the path while a query runs. Its log has the next version already, so that
    delta-rs would append to it.
    """
    for batch in range(3):
        table.append("clicks/1", batch, split_rows(batch), {})
    shutil.rmtree(table.uri)
    for number in range(10):
        write_deltalake(table.uri, pa.table({"customer": ["a"], "number": [number]}), mode="append")
    before = DeltaTable(table.uri)
    writes: list[Callable[[], object]] = [
        lambda: table.append("clicks/1", 3, split_rows(3), {}),
        lambda: table.note({"flip27.member": "{}"}),
    ]
    for write in writes:
        with pytest.raises(AlignmentError, match="has no column 'group': give the path of another table"):
            write()
    assert DeltaTable(table.uri).version() == before.version()
    assert DeltaTable(table.uri).to_pyarrow_table().num_rows == 10


def other_files(path: Path) -> str:
    path.mkdir()
    (path / "orders.csv").write_text("1,2\n")
    return r"is not a Delta table, its path has 'orders\.csv'"


def a_file(path: Path) -> str:
    path.write_text("not a folder")
    return "cannot be opened"


def missing_column(path: Path) -> str:
    DeltaTable.create(str(path), pa.schema([f for f in SCHEMA if f.name != "drift_ms"]))
    return "has no column 'drift_ms'"


def wrong_type(path: Path) -> str:
    index = SCHEMA.get_field_index("watermark")
    DeltaTable.create(str(path), SCHEMA.set(index, pa.field("watermark", pa.int64())))
    return r"a column 'watermark' of type int64, not timestamp\[us, tz=UTC\]"


def additional_column(path: Path) -> str:
    DeltaTable.create(str(path), SCHEMA.append(pa.field("note", pa.string())))
    return "a column 'note' that does not belong there"


def partitioned(path: Path) -> str:
    DeltaTable.create(str(path), SCHEMA, partition_by=["group"])
    return "is partitioned by 'group'"


@pytest.mark.parametrize(
    "occupy", [other_files, a_file, missing_column, wrong_type, additional_column, partitioned]
)
def test_a_path_in_other_use_is_refused_and_left_alone(uri: str, occupy: Callable[[Path], str]) -> None:
    why = occupy(Path(uri))
    before = sorted(Path(uri).rglob("*"))
    with pytest.raises(AlignmentError, match=why) as caught:
        SplitWatermarkTable(uri, {}).open()
    assert uri in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert sorted(Path(uri).rglob("*")) == before


def test_columns_may_stand_in_another_order(uri: str) -> None:
    DeltaTable.create(uri, pa.schema(list(SCHEMA)[::-1]))
    table = SplitWatermarkTable(uri, {})
    table.append("clicks/1", 3, split_rows(3), {})
    assert table.rows()["split"].to_pylist() == [f"clicks-{i}" for i in range(4)]


def test_a_panic_of_delta_rs_is_an_error_like_any_other(uri: str) -> None:
    """A panic of delta-rs becomes an error of this project.

    It is not a subclass of ``Exception``, so it would silently end the threads that write and read.
    """
    table = SplitWatermarkTable(f"{uri}|", {})
    with pytest.raises(
        AlignmentError,
        match=re.escape(
            f"'{uri}|' did not take a commit. Check that the driver can read and write at this location"
        ),
    ):
        table.note({"by": "test"})


def test_reading_creates_nothing(uri: str) -> None:
    with pytest.raises(AlignmentError, match="there is no Delta table"):
        SplitWatermarkTable(uri, {}).rows()
    assert not Path(uri).exists()


def test_an_unreachable_store_is_named_without_its_credentials() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        options = {
            "aws_access_key_id": "AKIDSECRET",
            "aws_secret_access_key": "verysecret",
            "aws_endpoint": f"http://user:hunter22@127.0.0.1:{port}",
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "max_retries": "0",
            "retry_timeout": "1s",
        }
        table = SplitWatermarkTable("s3://bucket/watermarks", options)
        for ask in (table.open, table.rows, lambda: table.append("a", 0, split_rows(0), {})):
            with pytest.raises(AlignmentError, match="'s3://bucket/watermarks' cannot be") as caught:
                ask()
            told = repr(table) + "".join(traceback.format_exception(caught.value))
            assert not [secret for secret in ("AKIDSECRET", "verysecret", "hunter22") if secret in told]
            assert "\n" not in str(caught.value)
