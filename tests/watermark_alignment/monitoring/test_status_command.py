"""Tests of what ``python -m watermark_alignment status`` shows."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.watermark_alignment.support.command import MINUTE, Run, fill
from tests.watermark_alignment.support.group_entries import entry
from tests.watermark_alignment.support.table_rows import START_MS, split_rows
from watermark_alignment.group.group_log import KEY as MEMBER
from watermark_alignment.planner import GROUP
from watermark_alignment.table.batch_note import KEY, BatchNote
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

FOR_EVER = 10**15


@pytest.fixture
def table(tmp_path: Path) -> SplitWatermarkTable:
    return SplitWatermarkTable(str(tmp_path / "table"), {})


def test_the_command_prints_a_table(table: SplitWatermarkTable, run: Run) -> None:
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
    assert lines[3] == ["clicks-0", "PAUSED", "2023-11-14", "22:13:20", "3s", "59s", "10", "1", "59s"]
    assert "4 splits: 1 ACTIVE, 2 PAUSED, 1 IDLE." in out
    assert "planned" not in out


def test_names_are_shown_as_they_are(table: SplitWatermarkTable, run: Run) -> None:
    """Names are shown unchanged, also if they look like markup of the console."""
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
def test_the_command_shows_for_which_split_others_wait(
    table: SplitWatermarkTable, run: Run, waiting: int, held_by: str, said: str
) -> None:
    """The command shows for which split others wait, as the source published after its last plan.

    If the group holds them, it shows the slowest split that counts of a source that is still a member.
    """
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


def test_implausible_records_are_counted(table: SplitWatermarkTable, run: Run) -> None:
    counts = {f"clicks-{i}": 10_000 - i for i in range(7)}
    note = BatchNote("web", "clicks", "lineage", 1, 2500, 0, {}, counts)
    table.append("clicks", 1, split_rows(1), {KEY: note.to_text()})
    out = run("status", table.uri)[1]
    assert (
        "Since source clicks started, 69,979 of its records had an event time beyond max-future: clicks-0 (10,000), "
        "clicks-1 (9,999), clicks-2 (9,998), clicks-3 (9,997), clicks-4 (9,996) and 2 more."
        in out.replace("\n", " ")
    )
    splits = json.loads(run("status", table.uri, "--json")[1])
    assert [split["implausible"] for split in splits] == [counts[split["split"]] for split in splits]


def test_notes_of_versions_that_did_not_count_them_are_read(table: SplitWatermarkTable, run: Run) -> None:
    told = asdict(BatchNote("web", "clicks", "lineage", 1, 2500, 0))
    del told["implausible"], told["implausible_in_run"]
    table.append("clicks", 1, split_rows(1), {KEY: json.dumps(told)})
    assert {s["implausible"] for s in json.loads(run("status", table.uri, "--json")[1])} == {0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("group", ["web"]),
        ("max_drift_ms", "long"),
        ("unreported", "some"),
        ("implausible", 3),
        ("implausible_in_run", {"clicks-0": "many"}),
    ],
)
def test_foreign_commit_metadata_of_the_same_name_is_ignored(
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
            "implausible": 0,
            "metrics": {},
            "waiting": None,
            "held_by": None,
            "is_there": None,
            "name": "clicks",
            "avgOffsetsBehindLatest": None,
            "maxOffsetsBehindLatest": None,
            "minOffsetsBehindLatest": None,
            "estimatedTotalBytesBehindLatest": None,
        }
    ]


def test_the_command_selects_one_group(table: SplitWatermarkTable, run: Run) -> None:
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


def test_invisible_characters_are_escaped(table: SplitWatermarkTable, run: Run) -> None:
    """Control characters in names are written as escapes.

    Otherwise a name could break lines, or give commands to the terminal.
    """
    fill(table, [replace(split_rows(1)[0], group="a\nb", split="\x1b[2J\r", source="\u202ec")], unreported=1)
    code, out, _ = run("status", table.uri)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["\\u202ec", "\\x1b[2J\\r"]
    assert "group a\\nb " in out
    assert "Watermarks of source \\u202ec are" in out


def test_a_narrow_terminal_shows_names_and_states(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrow terminal shows names and states, and of the other columns those that fit."""
    fill(table, split_rows(1))
    for name, value in (("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)
    for width, words in ((40, 2), (60, 6), (100, 9)):
        monkeypatch.setenv("COLUMNS", str(width))
        out = re.sub(r"\x1b\[\d*m", "", run("status", table.uri)[1])
        [line] = [line for line in out.splitlines() if "clicks-0" in line]
        assert (line.split()[:2], len(line.split())) == (["clicks-0", "ACTIVE"], words)


def test_long_names_of_sources_are_cut_in_their_middle(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a source keeps its beginning, which can be all that differs."""
    fill(table, split_rows(1, source="team-a/orders-and-payments-of-all-shops-in-europe"))
    monkeypatch.setenv("COLUMNS", "80")
    [line] = [line for line in run("status", table.uri)[1].splitlines() if "europe" in line]
    assert line.startswith("team-a/orders-and")
    assert "…" in line


def test_a_pipe_is_as_wide_as_columns_says(
    table: SplitWatermarkTable, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output that goes to no terminal has the width of the variable COLUMNS; without it no column is left out."""
    fill(table, split_rows(1))
    for columns, words in (("70", 7), ("60", 6), ("", 9), ("none", 9), ("0", 9)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = run("status", table.uri)[1].splitlines()
        [line] = [line for line in lines if "clicks-0" in line]
        assert len(line.split()) == words
        if words < 9:
            assert max(map(len, lines)) <= int(columns)


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b", "a%b"])
def test_a_table_at_any_path_is_read(run: Run, tmp_path: Path, name: str) -> None:
    """A table at any path is read, also at paths for which delta-rs returns no commits."""
    table = SplitWatermarkTable(str(tmp_path / name), {})
    fill(table, split_rows(1))
    code, out, _ = run("status", table.uri, "--json")
    assert (code, len(json.loads(out))) == (0, 4)
    assert run("plot", table.uri, "-o", f"{tmp_path}/x.png")[0] == 0
