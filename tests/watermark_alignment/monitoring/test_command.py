"""Tests of ``python -m watermark_alignment``: exit codes, errors about bad input, ``--watch`` and pictures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.module_time import replace_time
from tests.watermark_alignment.support.command import Run, fill
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.table.split_rows import as_table
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

SECRET = "s3cr3t-of-nobody"


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", "RUNNING"),
        ("status", None),
        ("group", None),
        ("split", None),
        ("batch", None),
        ("batch", -5),
        ("rows", None),
        ("recorded_at", None),
    ],
)
def test_a_malformed_row_of_another_writer_is_an_error(
    table: SplitWatermarkTable, run: Run, tmp_path: Path, field: str, value: object
) -> None:
    rows = as_table(split_rows(1)[:1])
    at, of_field = rows.schema.get_field_index(field), rows.schema.field(field)
    write_deltalake(table.uri, rows.set_column(at, of_field, pa.array([value], of_field.type)), mode="append")
    for command in (("status", table.uri), ("plot", table.uri, "-o", f"{tmp_path}/x.png")):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        assert "has a row that no source of this release writes: " in err
        assert f"{field} {value!r}" in err
        assert "delete the row" in err


def test_a_missing_table_is_named(run: Run, tmp_path: Path) -> None:
    for command in (("status", f"{tmp_path}/none"), ("plot", f"{tmp_path}/none", "-o", f"{tmp_path}/x.png")):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        assert "none' cannot be read: there is no Delta table" in err
        assert "Check that option scan.watermark.alignment.table has this path" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["none", "./none", "~/none", ""])
def test_a_relative_path_is_named_with_the_folder_to_which_it_leads(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("status", path), ("plot", path, "-o", "x.png")):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        looked_in = tmp_path / path
        assert f"table at '{path}' cannot be read: there is no Delta table in '{looked_in}', to which" in err


def test_a_file_in_place_of_a_table_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = run("status", f"{tmp_path}/file")
    assert (code, out) == (1, "")
    assert f"'{tmp_path}/file' is a file. Give the path of a folder" in err


def test_an_empty_table_is_named(table: SplitWatermarkTable, run: Run) -> None:
    table.open()
    for command in (("status", table.uri), ("plot", table.uri, "-o", "x.png")):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert f"The split-watermark table at '{table.uri}' is empty." in err


def test_an_unknown_group_is_named(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1))
    code, out, err = run("status", table.uri, "--group", "Web")
    assert (code, out) == (3, "")
    assert "has no rows of group 'Web' in its last day; --all shows what is older. Its groups: 'web'." in err


def test_an_unknown_source_is_named(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1))
    code, _, err = run("plot", table.uri, "-o", "x.png", "--source", "views", "--group", "web")
    assert code == 3
    assert "has no rows of source 'views' in group 'web'. Its groups: 'web'. Its sources: 'clicks'." in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("status",), "TABLE"),
        (("status", "t", "--watch", "-1"), "expected a number of seconds > 0"),
        (("status", "t", "--watch", "7200"), "expected a number of seconds > 0, at most 3600, not '7200'"),
        (("status", "t", "--storage-option", SECRET), "expected KEY=VALUE"),
        (("plot", "t"), "-o/--output"),
        (
            ("plot", "t", "-o", "folder"),
            "expected a file name that ends with .png, .svg or .pdf, not 'folder'",
        ),
        (
            ("plot", "t", "-o", "/nowhere/p.png"),
            "folder '/nowhere' does not exist: create it, or name another folder",
        ),
        (("plot", "t", "-o", "p.png", "--batches", "0"), "expected a whole number > 0"),
        (("draw", "t"), "invalid choice: 'draw'"),
    ],
)
def test_wrong_arguments_are_refused(run: Run, arguments: Sequence[str], why: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert why in err
    assert SECRET not in err


def test_storage_options_reach_the_table_and_no_message(run: Run) -> None:
    """Storage options reach the store, here a closed port of this machine. The error does not show their values."""
    options = ["aws_secret_access_key=" + SECRET, "aws_access_key_id=nobody", "aws_region=nowhere"]
    options += ["aws_endpoint=http://127.0.0.1:1", "aws_allow_http=true", "max_retries=0", "retry_timeout=1s"]
    arguments = [part for option in options for part in ("--storage-option", option)]
    code, _, err = run("status", "s3://bucket/table", *arguments)
    assert code == 1
    assert "The split-watermark table at 's3://bucket/table' cannot be read" in err
    assert "Connection refused" in err
    assert SECRET not in err


@pytest.mark.parametrize("is_terminal", [True, False])
def test_watching_goes_on_until_it_is_stopped(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """``--watch`` shows what a running query writes, until it is stopped. The table need not exist yet."""
    batches = iter([1, 5])

    def sleep(seconds: float) -> None:
        assert seconds == 0.5
        batch = next(batches, None)
        if batch is None:
            raise KeyboardInterrupt
        fill(table, split_rows(batch), batch=batch)

    replace_time(monkeypatch, "watermark_alignment.__main__", sleep=sleep)
    if is_terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    code, out, err = run("status", table.uri, "--watch", "0.5")
    assert (code, err) == (0, "")
    waits, first, second = (
        out.index(text) for text in ("Waiting for the first batch. The split-", "22:13:20", "22:13:24")
    )
    assert waits < first < second


def test_watching_in_json_is_a_line_each_time(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(table, split_rows(1))
    sleeps = iter([None, KeyboardInterrupt])

    def sleep(seconds: float) -> None:
        if (error := next(sleeps)) is not None:
            raise error

    replace_time(monkeypatch, "watermark_alignment.__main__", sleep=sleep)
    _, out, _ = run("status", table.uri, "--watch", "--json")
    assert [len(json.loads(line)) for line in out.splitlines()] == [4, 4]


def test_watching_in_json_outlasts_a_look_that_fails(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--watch --json`` goes on after a read that failed.

    It reports the failure on the standard error, which no program parses.
    """
    made = iter([True])

    def sleep(seconds: float) -> None:
        if not next(made, False):
            raise KeyboardInterrupt
        fill(table, split_rows(1))

    replace_time(monkeypatch, "watermark_alignment.__main__", sleep=sleep)
    code, out, err = run("status", table.uri, "--watch", "--json")
    assert code == 0
    assert [len(json.loads(line)) for line in out.splitlines()] == [4]
    why = f"The split-watermark table at '{table.uri}' cannot be read: there is no Delta table. "
    assert err.startswith(f"Waiting for the first batch. {why}")
    assert err.count("\n") == 1


def test_output_that_cannot_be_written_is_an_error(table: SplitWatermarkTable) -> None:
    """Characters that the terminal's encoding lacks are written as escapes, and a full disk is an error."""
    fill(table, [replace(split_rows(1)[0], watermark=None)])
    command = [sys.executable, "-m", "watermark_alignment", "status", table.uri]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ascii_only)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\\u2013" in shown.stdout
    with open("/dev/full", "w") as full:
        lost = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert lost.returncode == 1
    assert lost.stderr == "The output cannot be written: [Errno 28] No space left on device.\n"


def test_the_command_ends_when_its_reader_closes_the_pipe(table: SplitWatermarkTable) -> None:
    """The command ends without an error when the reader of its output closes the pipe, as ``head`` does."""
    fill(table, split_rows(1))
    command = [sys.executable, "-m", "watermark_alignment", "status", table.uri, "--watch", "0.01", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        watching.stdout.readline()
        watching.stdout.close()
        assert watching.stderr.read() == b""
    assert watching.returncode == 0


def test_splits_furthest_behind_are_shown_if_the_screen_is_too_small(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the terminal has too few lines for all splits, the splits that are furthest behind are shown."""
    fill(table, split_rows(1, splits=200))

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    replace_time(monkeypatch, "watermark_alignment.__main__", sleep=stop)
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("LINES", "24"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    out = run("status", table.uri, "--watch")[1]
    assert len(out.rpartition("group web")[2].splitlines()) <= 24
    assert "clicks-199 " in out
    assert "clicks-0 " not in out
    assert "200 splits: 200 ACTIVE. 18 are shown: those furthest behind or waited for." in out


def test_long_ids_hide_no_warning_and_no_split_that_others_wait_for(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id of a file would fold into many lines, and the end of the view would be below the terminal."""
    folder = "/Volumes/main/streaming/landing/year=2026"
    ids = [
        f"{folder}/part-{i:05}-1f0c{'4a3b' * 7}.c000.snappy.parquet@17958080{i:05}+1048576" for i in range(40)
    ]
    rows = split_rows(1, splits=40)
    fill(table, [replace(row, split=split) for row, split in zip(rows, ids, strict=True)], unreported=2)
    told = entry("clicks", group="web", timeout_ms=10**15, waiting=39, held_by=ids[0])
    table.note({MEMBER: told.to_text()})

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    replace_time(monkeypatch, "watermark_alignment.__main__", sleep=stop)
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "80"), ("LINES", "24"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    lines = run("status", table.uri, "--watch")[1].rpartition("group web")[2].splitlines()
    assert len(lines) <= 24
    assert len([line for line in lines if line.startswith("  part-")]) >= 12
    assert any(line.startswith("  part-00039-") for line in lines), "the slowest"
    assert any(line.startswith("  part-00000-") for line in lines), "the one that others wait for"
    text = "".join(re.sub(r"\x1b\[[\d;?]*\w", "", "".join(lines)).split())
    assert f"39splitsofsourceclickswaitfor{ids[0]}." in text
    assert "2ofthesplitsofitsbatch1werenotreported." in text
    assert ids[0] in run("status", table.uri, "--json")[1]


def test_a_picture_is_written(table: SplitWatermarkTable, run: Run, tmp_path: Path) -> None:
    fill(table, split_rows(1))
    for name, begin in (("picture.png", b"\x89PNG"), ("picture.svg", b"<?xml")):
        assert run("plot", table.uri, "-o", str(tmp_path / name))[0] == 0
        assert (tmp_path / name).read_bytes().startswith(begin)


def test_a_picture_is_drawn_of_any_values(table: SplitWatermarkTable, run: Run, tmp_path: Path) -> None:
    """A picture is drawn of a name with characters that no font has, of the last moment of the calendar, and with a
    huge drift.
    """
    last = 253_402_300_799_999
    fill(table, [replace(split_rows(1)[0], split="😀\n\x1b", watermark=last)])
    picture = tmp_path / "picture.png"
    assert run("plot", table.uri, "-o", str(picture), "--max-drift", "9999999999 days") == (
        0,
        f"Wrote {picture}: clicks.\n",
        "",
    )
    assert picture.is_file()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("-o", "x.doc"), "Format 'doc' is not supported"),
        (
            ("-o", "/proc/x.png"),
            "'--output': '/proc/x.png'. It cannot be written: No such file or directory. Name",
        ),
        (("-o", "x.png", "--max-drift", "5"), "'--max-drift': '5'. Expected a duration"),
    ],
)
def test_a_picture_that_cannot_be_written_is_an_error(
    table: SplitWatermarkTable, run: Run, more: Sequence[str], why: str
) -> None:
    fill(table, split_rows(1))
    code, _, err = run("plot", table.uri, *more)
    assert code == 2
    assert why in err


def test_the_module_runs_as_a_command(table: SplitWatermarkTable) -> None:
    fill(table, split_rows(1))
    command = [sys.executable, "-m", "watermark_alignment", "status", table.uri, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(json.loads(done.stdout)) == 4


def test_the_message_about_a_store_comes_first() -> None:
    """delta-rs logs pages of its own about a store without credentials. The first line is what to do."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and k != "RUST_LOG"}
    environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1"
    command = [sys.executable, "-m", "watermark_alignment", "status", "s3://bucket/table"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "The split-watermark table at 's3://bucket/table' cannot be read. The store"
    )
