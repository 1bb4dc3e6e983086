"""Tests of plots of sources that are alive and record no batch: stalls, quiet times, and the remark on gone sources."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deltalake import DeltaTable
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure

from flip27_stream.wall_clock import now_ms
from tests.watermark_alignment.support.past_table import MAX_DRIFT_MS, PastTable, alive, note, waiting
from tests.watermark_alignment.support.plots import drawn, legend, millis, titles
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.group.group_view import Entry
from watermark_alignment.monitoring.findings import findings
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.monitoring.status import StatusReader
from watermark_alignment.monitoring.status_view import to_json
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.batch_note import KEY as NOTE

MINUTE = 60_000
ACTIVE = list(SplitStatus).index(SplitStatus.ACTIVE)
ALIVE = len(SplitStatus)
Strip = list[tuple[int, int, int | None]]


@pytest.fixture
def table(tmp_path: Path) -> PastTable:
    return PastTable(tmp_path / "table")


@pytest.fixture
def now() -> int:
    return now_ms()


def strip(figure: Figure, split: int) -> Strip:
    """Returns the cells of a split's strip: begin, end (ms), and the state, with equal neighbours as one cell."""
    [mesh] = [part for part in figure.axes[1].collections if isinstance(part, QuadMesh)]
    shown: np.ma.MaskedArray[Any, Any] = np.ma.asarray(mesh.get_array()).reshape(4, -1)
    edges = millis(np.asarray(mesh.get_coordinates(), dtype=np.float64)[0, :, 0])
    found: Strip = []
    for n, state in enumerate(shown[split].tolist()):
        begin = found.pop()[0] if found and found[-1][2] == state else edges[n]
        found.append((begin, edges[n + 1], state))
    return found


def paused(figure: Figure) -> set[tuple[int, int, int]]:
    """Returns the parts of strips that are drawn as paused: split, begin and end (ms)."""
    found = set()
    for bar in figure.axes[1].collections:
        if isinstance(bar, PolyCollection):
            corners = np.asarray(bar.get_paths()[0].vertices)
            begin, end = millis(np.array([corners[:, 0].min(), corners[:, 0].max()]))
            found.add((round(float(corners[:, 1].mean())), begin, end))
    return found


def remarks(figure: Figure) -> list[str]:
    return [line for text in figure.axes[0].texts for line in text.get_text().split("\n")]


def has_gap(figure: Figure) -> bool:
    return bool(np.isnan(drawn(figure.axes[0].lines[0])).any())


def stalled_group(table: PastTable, now: int, told: Entry) -> int:
    """Fills the table with a stall of 50 minutes of one of six members, which all renew their entries.

    The note is repeated as often as members do. Returns the time (ms) of the newest batch, when the stall begins.
    """
    begin = table.batches(now - 60 * MINUTE, range(40), 15_000, told)
    stalled = (
        waiting(told, begin)
        if told.max_drift_ms is not None
        else replace(waiting(told, 1), waiting_since=None)
    )
    for beat, at in enumerate(range(begin + 200, now, MINUTE)):
        is_noted = beat % 5 == 4 and told.max_drift_ms is not None
        table.tell(at, stalled, {NOTE: note(39).to_text()} if is_noted else None)
        for n in range(5):
            table.tell(at + n, replace(alive(told.began), source=f"views{n}", lineage=f"views{n}"))
        if beat == 30:
            table.checkpoint()
    table.tell(now - 1000, stalled)
    table.date()
    table.clean_up()
    oldest = min(commit["timestamp"] for commit in DeltaTable(table.table.uri).history())
    assert oldest > begin + 10 * MINUTE, "the log is shorter than the stall"
    return begin


def test_a_stall_of_a_group_is_drawn_from_its_beginning(table: PastTable, now: int) -> None:
    """A stall that is longer than the log of the table is drawn whole, with the allowed drift."""
    begin = stalled_group(table, now, replace(alive(now - 60 * MINUTE), max_drift_ms=MAX_DRIFT_MS))
    figure = plot(table.table, sources=["clicks"])
    shown = paused(figure)
    assert {split for split, _, _ in shown} == {0, 1, 3}
    assert all(begin <= since <= begin + 1 and until >= now - 1000 for _, since, until in shown)
    assert [state for _, _, state in strip(figure, 2)] == [ACTIVE, ALIVE]
    line = drawn(figure.axes[0].lines[0])
    assert not has_gap(figure)
    assert millis(line[-1:, 0])[0] >= now - 1000
    assert legend(figure)[-4:] == ["active", "paused", "no new batch", "allowed drift"]
    assert remarks(figure) == ["at the end, 3 splits wait for clicks-2", "allowed drift: 5m"]
    [band] = figure.axes[0].collections
    assert millis(np.asarray(band.get_paths()[0].vertices)[:, 0].max(keepdims=True))[0] >= now - 1000


def test_the_status_of_a_long_stall_has_what_the_newest_note_says(table: PastTable, now: int) -> None:
    """``status`` and the warnings know the note of a batch that is no longer in the log."""
    stalled_group(table, now, replace(alive(now - 60 * MINUTE), max_drift_ms=MAX_DRIFT_MS))
    status = StatusReader(table.table).read(now)
    splits = json.loads(to_json(status, now))
    names = "max_drift_ms", "unreported", "maxOffsetsBehindLatest", "estimatedTotalBytesBehindLatest"
    assert {tuple(split[name] for name in names) for split in splits} == {(MAX_DRIFT_MS, 1, 900, 100_000)}
    assert {finding.about[0] for finding in findings(status, ["lineage"], now)} >= {"unreported", "untimed"}


def test_a_stall_that_an_older_release_tells_is_no_outage(table: PastTable, now: int) -> None:
    """Entries of older releases do not say since when splits wait. They say when their run began."""
    begin = stalled_group(table, now, alive(now - 60 * MINUTE))
    figure = plot(table.table, sources=["clicks"])
    assert not has_gap(figure)
    assert [state for _, _, state in strip(figure, 0)] == [ACTIVE, ALIVE]
    assert min(since for _, since, _ in paused(figure)) > begin + 10 * MINUTE
    assert "nothing recorded" not in legend(figure)


def test_a_stalled_source_is_drawn_beside_one_that_goes_on(table: PastTable, now: int) -> None:
    """A source that was alive while the newest one ran has a panel, also if it recorded no batch then."""
    told = alive(now - 20 * MINUTE)
    end = table.batches(now - 20 * MINUTE, range(5), 1000, told)
    table.beats(end, now - 1000, MINUTE, waiting(told, end))
    table.date()
    for batch in range(9):
        rows = [
            replace(row, recorded_at=now - 9000 + batch * 1000) for row in split_rows(batch, source="views")
        ]
        table.table.append("views/1", batch, rows, {})
    assert titles(plot(table.table)) == ["clicks", "views"]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_quiet_query_does_not_look_like_a_killed_one(table: PastTable, now: int, is_known: bool) -> None:
    """While entries prove that a source was alive, lines continue and strips have a state of their own."""
    told = alive(now - 5 * MINUTE)
    quiet = table.batches(now - 5 * MINUTE, range(20), 1000, told)
    again = quiet + 2 * MINUTE
    if is_known:
        table.beats(quiet + 15_000, again - 1, 15_000, told)
    else:
        told = alive(again, run="2")
    end = table.batches(again, range(20, 40), 1000, told)
    table.tell(end + 1000, told.leaving())
    table.date()
    figure = plot(table.table)
    assert has_gap(figure) is not is_known
    gap = ALIVE if is_known else None
    for split in range(4):
        cells = [(begin, until, state) for begin, until, state in strip(figure, split) if until <= end]
        assert [state for _, _, state in cells] == [ACTIVE, gap, ACTIVE]
        assert cells[1][:2] == (quiet, again)
    assert ("no new batch" in legend(figure), "nothing recorded" in legend(figure)) == (is_known, True)


def test_a_quiet_query_is_drawn_until_now(table: PastTable, now: int) -> None:
    """It is drawn as alive, however short the run was before, and however long ago."""
    told = alive(now - 11 * MINUTE)
    quiet = table.batches(now - 11 * MINUTE, range(20), 1000, told)
    table.beats(quiet, now - 5000, 15_000, told)
    table.date()
    figure = plot(table.table)
    assert millis(drawn(figure.axes[0].lines[0])[-1:, 0])[0] >= now
    [_, (begin, end, state)] = strip(figure, 0)
    assert (begin, state) == (quiet, ALIVE)
    assert end >= now
    assert legend(figure)[4:] == ["active", "no new batch", "allowed drift"]
    assert remarks(figure) == ["allowed drift: 5m"]


def test_a_usual_time_without_a_batch_is_no_quiet_time(table: PastTable, now: int) -> None:
    """Between two batches a source is as it was in the last one."""
    told = alive(now - 11 * MINUTE)
    table.batches(now - 11 * MINUTE, range(11), MINUTE - 4000, told)
    table.tell(now - 1000, told)
    table.date()
    assert legend(plot(table.table))[4:] == ["active", "allowed drift"]


def test_splits_that_wait_while_a_batch_runs_are_no_pause(table: PastTable, now: int) -> None:
    """A plan with a batch, in which some splits wait, is not drawn before the batch is recorded."""
    told = alive(now - 2 * MINUTE)
    end = table.batches(now - 2 * MINUTE, range(11), 10_000, told)
    table.tell(end + 20, replace(waiting(told, end - 60_000), progress=11))
    table.date()
    figure = plot(table.table)
    assert legend(figure)[4:] == ["active", "allowed drift"]
    assert remarks(figure) == ["allowed drift: 5m"]


def test_a_wait_ends_with_its_run(table: PastTable, now: int) -> None:
    """A query that was killed while splits waited, and started again, is blank between."""
    told = alive(now - 10 * MINUTE)
    end = table.batches(now - 10 * MINUTE, range(20), 1000, told)
    killed, again = end + 2 * MINUTE, end + 5 * MINUTE
    table.beats(end, killed, 15_000, waiting(told, end))
    table.batches(again, range(20, 40), 1000, alive(again, run="2"))
    table.date()
    figure = plot(table.table)
    assert paused(figure) == {(split, end, killed) for split in (0, 1, 3)}
    for split in range(4):
        cells = strip(figure, split)[:4]
        assert [state for _, _, state in cells] == [ACTIVE, ALIVE, None, ACTIVE]
        assert cells[2][:2] == (killed, again)
    line = drawn(figure.axes[0].lines[0])
    [gap] = np.flatnonzero(np.isnan(line[:, 1]))
    assert millis(line[[gap], 0]) == [killed]


@pytest.mark.parametrize("definition", ["1", "2"])
def test_a_run_ends_where_another_one_begins(table: PastTable, now: int, definition: str) -> None:
    """A query that was killed, and started again before its time-out, is blank between; also the same DataFrame."""
    told = alive(now - 5 * MINUTE)
    killed = table.batches(now - 5 * MINUTE, range(53), 5000, told)
    again = killed + 20_000
    table.batches(again, range(53, 58), 1000, replace(alive(again, run="2"), definition=definition))
    table.date()
    assert now - killed < told.timeout_ms
    assert strip(plot(table.table), 0)[1] == (killed, again, None)


def test_the_two_runs_of_a_self_join_wait_at_once(table: PastTable, now: int) -> None:
    """They have one source, and publish in turn. Each of them goes on."""
    told = alive(now - 10 * MINUTE)
    end = table.batches(now - 10 * MINUTE, range(20), 1000, told)
    for at in range(end, now, 15_000):
        table.tell(at, waiting(told, end))
        table.tell(at + 5000, replace(waiting(told, end), run="2", lineage="other"))
    table.date()
    figure = plot(table.table)
    assert min(begin for _, begin, _ in paused(figure)) == end
    assert max(until for _, _, until in paused(figure)) >= now
    assert [state for _, _, state in strip(figure, 0)] == [ACTIVE, ALIVE]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ("left", "gone; the last batch was 11m"),
        ("silent", "gone; the last batch was 11m"),
        ("unknown", "the last batch was 11m"),
        ("alive", None),
    ],
)
def test_the_picture_of_a_gone_query_says_so(table: PastTable, now: int, ends: str, said: str | None) -> None:
    """The time since a run that was shorter than that time is not drawn. So a remark says how long it is."""
    told = alive(now - 12 * MINUTE)
    end = table.batches(now - 12 * MINUTE, range(30), 1000, None if ends == "unknown" else told)
    if ends == "left":
        table.tell(end + 1000, told.leaving())
    if ends == "alive":
        table.beats(end, now - 1000, 15_000, told)
    table.date()
    *found, drift = remarks(plot(table.table))
    assert drift == "allowed drift: 5m"
    assert len(found) == (said is not None)
    assert all(remark.startswith(str(said)) and remark.endswith(" ago") for remark in found)
    assert remarks(plot(table.table, over="batch")) == ["allowed drift: 5m"], "it has no axis of time"


def test_a_gone_query_says_so_beside_a_blank_time(table: PastTable, now: int) -> None:
    """The remark is there also if the time since the newest batch is drawn."""
    told = alive(now - 12 * MINUTE)
    end = table.batches(now - 12 * MINUTE, range(20), 30_000, told)
    table.date()
    figure = plot(table.table)
    assert strip(figure, 0)[-1][::2] == (end, None)
    assert remarks(figure)[0].startswith("gone; the last batch was 2m")


def test_a_picture_over_batches_lists_only_what_it_shows(table: PastTable, now: int) -> None:
    """Times without a batch are not drawn over batches, so the legend does not list them, nor pauses in them."""
    told = alive(now - 10 * MINUTE)
    end = table.batches(now - 10 * MINUTE, range(20), 1000, told)
    table.tell(end + 1000, told.leaving())
    again = alive(end + 5 * MINUTE, run="2")
    end = table.batches(again.began, range(20, 40), 1000, again)
    table.beats(end, now - 1000, 15_000, waiting(again, end))
    table.date()
    listed = ["active", "paused", "no new batch", "nothing recorded", "allowed drift"]
    assert legend(plot(table.table))[4:] == listed
    assert legend(plot(table.table, over="batch"))[4:] == ["active", "allowed drift"]
