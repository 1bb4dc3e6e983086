"""``python -m watermark_alignment``: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.module_time import replace_time
from watermark_alignment.__main__ import main
from watermark_alignment.batch_note import KEY, BatchNote
from watermark_alignment.group_log import KEY as MEMBER
from watermark_alignment.planner import GROUP
from watermark_alignment.table import SplitRow, SplitWatermarkTable

from .group_entries import entry
from .table_rows import START_MS, split_rows

SECRET = "s3cr3t-of-nobody"
MINUTE = 60_000
FOR_EVER = 10**15

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command, the clock being a minute after ``START_MS``; exit code, output and errors."""
    monkeypatch.setattr("watermark_alignment.__main__._now", lambda: START_MS + MINUTE)

    def command(*arguments: str) -> tuple[int, str, str]:
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        return code, *capsys.readouterr()

    return command


def fill(
    table: SplitWatermarkTable, rows: Sequence[SplitRow], *, batch: int = 1, unreported: int = 0
) -> None:
    """The rows as they were in batch 0, active, and then as they are."""
    first = rows[0]
    before = [
        replace(row, batch=batch - 1, status="ACTIVE", recorded_at=row.recorded_at - 1000) for row in rows
    ]
    table.append(first.source, batch - 1, before, {})
    note = BatchNote(first.group, first.source, "lineage", batch, 2500, unreported)
    table.append(first.source, batch, [replace(row, batch=batch) for row in rows], {KEY: note.to_text()})


def test_a_table_for_people(table: SplitWatermarkTable, run: Run) -> None:
    states = ("PAUSED", "PAUSED", "ACTIVE", "IDLE")
    fill(table, [replace(row, status=state) for row, state in zip(split_rows(1), states, strict=True)])
    code, out, _ = run("status", table.uri)
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[:2] == [
        ["group", "web"],
        ["source", "and", "split", "state", "watermark", "(UTC)", "drift", "lag", "rows/s", "batch", "ago"],
    ]
    assert lines[2] == ["clicks"]
    assert lines[3] == ["clicks-0", "PAUSED", "2023-11-14", "22:13:20", "3.0s", "59.0s", "10", "1", "59.0s"]
    assert "4 splits: 1 ACTIVE, 2 PAUSED, 1 IDLE." in out
    assert "planned" not in out


def test_names_are_shown_as_they_are(table: SplitWatermarkTable, run: Run) -> None:
    """Also where they look like the console's own marks."""
    names = ["[/x]", "part[1].parquet", ":smile:", "²"]
    rows = split_rows(1)
    fill(table, [replace(row, split=name, group="[/g]") for row, name in zip(rows, names, strict=True)])
    code, out, _ = run("status", table.uri)
    assert code == 0
    assert out.splitlines()[0].strip() == "group [/g]"
    assert {line.split()[0] for line in out.splitlines()[3:7]} == set(names)


@pytest.mark.parametrize(
    ("waiting", "held_by", "said"),
    [
        (2, "clicks-2", "2 splits of source clicks wait for clicks-2."),
        (1, GROUP, "1 split of source clicks waits for clicks-3 of source views."),
        (3, "group", "3 splits of source clicks wait for group."),
    ],
)
def test_who_waits_for_whom(
    table: SplitWatermarkTable, run: Run, waiting: int, held_by: str, said: str
) -> None:
    """As the source said after it last planned; of others the slowest that counts, of a source that is there."""
    fill(table, [*split_rows(1), replace(split_rows(1)[0], split="group")])
    for source in ("views", "gone"):
        slowest = [
            replace(r, status="IDLE") if r.split == "clicks-0" else r for r in split_rows(0, source=source)
        ]
        fill(table, slowest)
    there = entry("clicks", group="web", timeout_ms=FOR_EVER, waiting=waiting, held_by=held_by)
    for told in (
        there,
        replace(there, source="views", waiting=0, held_by=None),
        replace(there, source="gone", left=True),
    ):
        table.note({MEMBER: told.to_text()})
    assert said in run("status", table.uri)[1]
    splits = json.loads(run("status", table.uri, "--json", "--group", "web")[1])
    assert {(s["waiting"], s["held_by"]) for s in splits if s["source"] == "clicks"} == {(waiting, held_by)}
    table.note({MEMBER: there.leaving().to_text()})
    assert "wait" not in run("status", table.uri)[1]


def test_colours_are_for_terminals(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(table, [replace(split_rows(1)[0], status="PAUSED", drift_ms=2501)])
    assert "\x1b" not in run("status", table.uri)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    out = run("status", table.uri)[1]
    assert "\x1b[33mPAUSED" in out
    assert re.search(r"\x1b\[1;31m +2\.5s", out), "above max-drift"


def test_watermarks_that_are_planned_are_said_to_be(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1), unreported=2)
    out = run("status", table.uri)[1]
    assert "Watermarks of source clicks are planned, not observed: 2 of the splits of its batch 1" in out


@pytest.mark.parametrize(
    ("field", "value"), [("group", ["web"]), ("max_drift_ms", "long"), ("unreported", "some")]
)
def test_what_others_write_as_a_note_is_left_alone(
    table: SplitWatermarkTable, run: Run, field: str, value: object
) -> None:
    told = asdict(BatchNote("web", "clicks", "lineage", 1, 2500, 0)) | {field: value}
    table.append("clicks", 1, split_rows(1), {KEY: json.dumps(told)})
    assert run("status", table.uri)[0] == 0


def test_json_has_the_names_of_flinks_metrics(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1)[:1])
    code, out, _ = run("status", table.uri, "--json")
    assert code == 0
    assert out.count("\n") == 1
    assert json.loads(out) == [
        {
            "group": "web",
            "source": "clicks",
            "split": "clicks-0",
            "status": "ACTIVE",
            "batch": 1,
            "recorded_at": START_MS + 1000,
            "currentWatermark": START_MS + 999,
            "watermarkLag": MINUTE - 999,
            "watermarkAlignmentDrift": 3000,
            "numRecordsInPerSecond": 10.0,
            "activeTimeMsPerSecond": 1000,
            "pausedTimeMsPerSecond": 0,
            "idleTimeMsPerSecond": 0,
            "max_drift_ms": 2500,
            "unreported": 0,
            "waiting": None,
            "held_by": None,
            "is_there": None,
        }
    ]


def test_one_group(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1))
    fill(table, split_rows(1, source="views", group="mobile"))
    code, out, _ = run("status", table.uri, "--group", "mobile", "--json")
    assert code == 0
    assert {split["source"] for split in json.loads(out)} == {"views"}


def test_sources_that_were_silent_for_a_day_are_left_out(table: SplitWatermarkTable, run: Run) -> None:
    day = 24 * 60 * MINUTE
    fill(table, split_rows(1))
    fill(table, [replace(r, source="old", recorded_at=r.recorded_at - day - 1) for r in split_rows(1)])
    for arguments, shown in (((), {"clicks"}), (("--all",), {"clicks", "old"})):
        out = run("status", table.uri, "--json", *arguments)[1]
        assert {split["source"] for split in json.loads(out)} == shown


def test_signs_that_do_not_show_are_written_out(table: SplitWatermarkTable, run: Run) -> None:
    """Or a name could break lines, or give commands to the terminal."""
    fill(table, [replace(split_rows(1)[0], group="a\nb", split="\x1b[2J\r", source="\u202ec")], unreported=1)
    code, out, _ = run("status", table.uri)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["\\u202ec", "\\x1b[2J\\r"]
    assert "group a\\nb " in out
    assert "Watermarks of source \\u202ec are" in out


def test_a_narrow_terminal_shows_names_and_states(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And of the rest what there is room for."""
    fill(table, split_rows(1))
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    for width, words in ((40, 2), (60, 6), (100, 9)):
        monkeypatch.setenv("COLUMNS", str(width))
        out = re.sub(r"\x1b\[\d*m", "", run("status", table.uri)[1])
        [line] = [line for line in out.splitlines() if "clicks-0" in line]
        assert (line.split()[:2], len(line.split())) == (["clicks-0", "ACTIVE"], words)


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "a%b"])
def test_any_path_will_do(run: Run, tmp_path: Path, name: str) -> None:
    """Of some, delta-rs tells no commits."""
    table = SplitWatermarkTable(str(tmp_path / name), {})
    fill(table, split_rows(1))
    code, out, _ = run("status", table.uri, "--json")
    assert (code, len(json.loads(out))) == (0, 4)
    assert run("plot", table.uri, "-o", f"{tmp_path}/x.png")[0] == 0


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
def test_a_row_that_somebody_else_wrote(
    table: SplitWatermarkTable, run: Run, tmp_path: Path, field: str, value: object
) -> None:
    odd = replace(split_rows(1)[0], **{field: value})  # type: ignore[arg-type]
    table.append("other", 1, [odd], {})
    for command in (("status", table.uri), ("plot", table.uri, "-o", f"{tmp_path}/x.png")):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        assert "has a row that no source of this release writes: " in err
        assert f"{field} {value!r}" in err
        assert "delete the row" in err


def test_no_such_table(run: Run, tmp_path: Path) -> None:
    for command in (("status", f"{tmp_path}/none"), ("plot", f"{tmp_path}/none", "-o", f"{tmp_path}/x.png")):
        code, out, err = run(*command)
        assert (code, out) == (1, "")
        assert "none' cannot be read: there is no Delta table" in err
    assert list(tmp_path.iterdir()) == []


def test_an_empty_table(table: SplitWatermarkTable, run: Run) -> None:
    table.open()
    for command in (("status", table.uri), ("plot", table.uri, "-o", "x.png")):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert f"The split-watermark table at '{table.uri}' is empty." in err


def test_an_unknown_group(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1))
    code, out, err = run("status", table.uri, "--group", "Web")
    assert (code, out) == (3, "")
    assert "has no rows of group 'Web' in its last day; --all shows what is older. Its groups: 'web'." in err


def test_an_unknown_source(table: SplitWatermarkTable, run: Run) -> None:
    fill(table, split_rows(1))
    code, _, err = run("plot", table.uri, "-o", "x.png", "--source", "views", "--group", "web")
    assert code == 3
    assert "has no rows of source 'views' in group 'web'. Its groups: 'web'. Its sources: 'clicks'." in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("status",), "TABLE"),
        (("status", "t", "--watch", "-1"), "expected a number of seconds > 0"),
        (("status", "t", "--storage-option", SECRET), "expected KEY=VALUE"),
        (("plot", "t"), "-o/--output"),
        (
            ("plot", "t", "-o", "folder"),
            "expected a file name that ends with .png, .svg or .pdf, not 'folder'",
        ),
        (("plot", "t", "-o", "p.png", "--batches", "0"), "expected a whole number > 0"),
        (("draw", "t"), "invalid choice: 'draw'"),
    ],
)
def test_wrong_usage(run: Run, arguments: Sequence[str], why: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert why in err
    assert SECRET not in err


def test_storage_options_reach_the_table_and_no_message(run: Run) -> None:
    """A closed port of this machine."""
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
    """What a running query writes shows; the table need not be there yet."""
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
    waits, first, second = (out.index(text) for text in ("no Delta table", "22:13:20", "22:13:24"))
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
    """It says so where no program reads."""
    made = iter([True])

    def sleep(seconds: float) -> None:
        if not next(made, False):
            raise KeyboardInterrupt
        fill(table, split_rows(1))

    monkeypatch.setattr("watermark_alignment.__main__.time.sleep", sleep)
    code, out, err = run("status", table.uri, "--watch", "--json")
    assert code == 0
    assert [len(json.loads(line)) for line in out.splitlines()] == [4]
    assert err == f"The split-watermark table at '{table.uri}' cannot be read: there is no Delta table\n"


def test_an_answer_that_cannot_be_written(table: SplitWatermarkTable) -> None:
    """A full disk, and a terminal that has not all signs."""
    fill(table, [replace(split_rows(1)[0], watermark=None)])
    command = [sys.executable, "-m", "watermark_alignment", "status", table.uri]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, env=ascii_only)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\\u2013" in shown.stdout
    with open("/dev/full", "w") as full:
        lost = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert lost.returncode == 1
    assert lost.stderr == "The answer cannot be written: [Errno 28] No space left on device.\n"


def test_nobody_reads_on(table: SplitWatermarkTable) -> None:
    """As with `head`."""
    fill(table, split_rows(1))
    command = [sys.executable, "-m", "watermark_alignment", "status", table.uri, "--watch", "0.01", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        watching.stdout.readline()
        watching.stdout.close()
        assert watching.stderr.read() == b""
    assert watching.returncode == 0


def test_more_splits_than_a_screen_has_lines(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those furthest behind are shown."""
    fill(table, split_rows(1, splits=200))

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    replace_time(monkeypatch, "watermark_alignment.__main__", sleep=stop)
    for name, value in (("FORCE_COLOR", "1"), ("COLUMNS", "100"), ("LINES", "24"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    out = run("status", table.uri, "--watch")[1]
    assert len(out.rpartition("group web")[2].splitlines()) < 24
    assert "clicks-199 " in out
    assert "clicks-0 " not in out
    assert "200 splits: 200 ACTIVE. 184 more than fit here, none further behind." in out


def test_a_picture(table: SplitWatermarkTable, run: Run, tmp_path: Path) -> None:
    fill(table, split_rows(1))
    for name, begin in (("picture.png", b"\x89PNG"), ("picture.svg", b"<?xml")):
        assert run("plot", table.uri, "-o", str(tmp_path / name))[0] == 0
        assert (tmp_path / name).read_bytes().startswith(begin)


def test_a_picture_of_anything(table: SplitWatermarkTable, run: Run, tmp_path: Path) -> None:
    """Signs that no font has, the last moment that a calendar has, a drift of ages."""
    last = 253_402_300_799_999
    fill(table, [replace(split_rows(1)[0], split="😀\n\x1b", watermark=last)])
    picture = tmp_path / "picture.png"
    assert run("plot", table.uri, "-o", str(picture), "--max-drift", "9999999999 days") == (0, "", "")
    assert picture.is_file()


@pytest.mark.parametrize(
    ("more", "why"),
    [(("-o", "x.doc"), "Format 'doc' is not supported"), (("-o", "x.png", "--max-drift", "5"), "a duration")],
)
def test_a_picture_that_cannot_be_made(
    table: SplitWatermarkTable, run: Run, more: Sequence[str], why: str
) -> None:
    fill(table, split_rows(1))
    code, _, err = run("plot", table.uri, *more)
    assert code == 2
    assert why in err


def test_as_a_command(table: SplitWatermarkTable) -> None:
    fill(table, split_rows(1))
    command = [sys.executable, "-m", "watermark_alignment", "status", table.uri, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert len(json.loads(done.stdout)) == 4
