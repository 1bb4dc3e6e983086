"""Tests of the soak: it ends all processes that it started, and it finds lost and doubled rows, drift and growth."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from benchmarks.soak.driver import DriverProgram, session
from benchmarks.soak.load import AHEAD_MS, DISORDER_MS, IDLE_TIMEOUT_S, SHORT_SILENCE_S, Feed
from benchmarks.soak.run import SoakSettings
from benchmarks.soak.sink import Delivery, Sink
from benchmarks.soak.verdict import drifts
from benchmarks.soak.watch import CollectedRows, PublishedWatermark, Series
from benchmarks.support.results import at_most
from flip27_stream.testing import wait_until
from tests.watermark_alignment.support.table_rows import split_rows
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

T0 = 1_700_000_000_000
TICK, MINUTE = 200, 60_000
_MARK = "FLIP27_SOAK_TEST"


def arrivals(seed: int, minutes: int) -> list[tuple[int, int]]:
    """Returns pairs of a time (ms) and the event time of a record that a partition gets at that time."""
    feed = Feed(random.Random(seed), T0)
    ticks = range(T0, T0 + minutes * MINUTE, TICK)
    return [(now, time) for now in ticks for time in feed.due(now)]


@pytest.mark.parametrize("seed", range(5))
def test_a_partition_that_was_idle_comes_back_ahead_of_the_clock(seed: int) -> None:
    """A partition that was idle comes back with an event time ahead of the clock.

    The check of drift relies on this.
    """
    found = arrivals(seed, 30)
    newest, idle = T0, 0
    for (before, _), (now, time) in itertools.pairwise(found):
        assert newest - DISORDER_MS <= time <= max(newest, now + AHEAD_MS + DISORDER_MS)
        if now - before > SHORT_SILENCE_S[1] * 1000 + 2000:
            idle += 1
            assert now - before > IDLE_TIMEOUT_S * 1000
            assert time >= now + AHEAD_MS - TICK
        newest = max(newest, time)
    assert idle > 3


def test_rows_that_the_table_has_deleted_still_count(tmp_path: Path) -> None:
    table = SplitWatermarkTable(str(tmp_path / "table"), {})
    rows = CollectedRows(table)
    for batch in range(3):
        assert table.append("s/1", batch, split_rows(batch, splits=1), {})
        rows.look()
        if batch == 1:
            table.delta.delete()
    assert sorted(rows.seen()["batch"].to_pylist()) == [0, 1, 2]


def test_partitions_are_skewed_by_more_than_the_drift() -> None:
    behind = [now - time for now, time in arrivals(1, 30)]
    assert max(behind) > 25_000
    assert min(behind) < 0


@pytest.mark.parametrize(("seconds", "kills"), [(60, 2), (61, 3), (20, 0), (1800, 14)])
def test_no_process_is_killed_at_the_end(seconds: float, kills: int) -> None:
    assert SoakSettings(seconds, 120 if seconds == 1800 else 20, 1).kills == kills


def test_lost_doubled_and_foreign_rows_are_found(tmp_path: Path) -> None:
    places = [(0, 0), (0, 1), (1, 0), (1, 0), (1, 0), (1, 7), (2, 0), (1, -1), (0, None)]
    columns = {"partition": pa.array([p for p, _ in places], pa.int32()), "number": [n for _, n in places]}
    write_deltalake(str(tmp_path), pa.table(columns))
    sink = Sink(tmp_path)
    sink.look()
    assert sink.delivery({0: 3, 1: 1}) == Delivery(produced=4, lost=1, doubled=2, foreign=4)
    assert sink.delivery({0: 3, 1: 1}, goes_on=True) == Delivery(4, lost=1, doubled=2, foreign=3)
    write_deltalake(str(tmp_path), pa.table({**columns, "number": [2] * len(places)}), mode="append")
    sink.look()
    assert sink.delivery({0: 3, 1: 1, 2: 0}, goes_on=True).lost == 0
    assert sink.rows == 2 * len(places)


def test_drift_is_found_within_a_query_and_between_them() -> None:
    """Drift (I3) is found within a query and between two.

    Query "a" has read up to 1500 when "b" has published a watermark that stands for a front of 800. Later entries do
    not count, and neither do rows from before ``since``.
    """
    rows = pa.Table.from_pylist(
        [row("a", 1, 1400, 100, 0), row("a", 2, 1500, 200, 300), row("b", 1, 900, 150, 0)], SCHEMA
    )
    published = {
        "a": [PublishedWatermark(90, 2000)],
        "b": [
            PublishedWatermark(50, 500),
            PublishedWatermark(200, 800 - 1 - 10),
            PublishedWatermark(201, 1400),
        ],
    }
    within, between = drifts(rows, published, since=120, max_drift_ms=699, disorder_ms=10)
    assert (within.figure, within.met) == (300, True)
    assert (between.figure, between.met) == (700, False)


def test_drift_counts_from_the_greatest_watermark_although_a_run_that_begins_again_says_less() -> None:
    rows = pa.Table.from_pylist([row("a", 1, 1400, 100, 5300), row("b", 1, 900, 150, 200)], SCHEMA)
    published = {
        "a": [PublishedWatermark(90, 2000)],
        "b": [PublishedWatermark(50, 1200), PublishedWatermark(99, 1200, fell_back=5000)],
    }
    within, _ = drifts(rows, published, since=0, max_drift_ms=699, disorder_ms=10)
    assert within.figure == 300


def row(source: str, batch: int, read_up_to: int, recorded_at: int, drift: int) -> dict[str, object]:
    times = {"max_event_time": read_up_to * 1000, "recorded_at": recorded_at * 1000}
    return {"source": source, "split": "0", "batch": batch, "rows": 1, "drift_ms": drift} | times


def test_growth_is_from_the_second_quarter_to_the_last() -> None:
    series = Series()
    for at in range(100):
        series.add(at, 1 if at < 25 else 10 if at < 75 else 12)
    assert series.growth() == pytest.approx(1.2)
    assert not at_most(1).met_by(Series().growth())
    assert Series([(0, 0), (1, 0), (2, 1)]).growth() == math.inf


def test_a_driver_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """A killed driver takes all its processes with it, also one in another process group that has lost its parent."""
    grandchild = "import os, time; os.setpgid(0, 0); time.sleep(60)"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {grandchild!r}])"
    left = tmp_path / "left"
    program = (
        f"import pathlib, subprocess, sys, time; subprocess.run([sys.executable, '-c', {child!r}]); "
        f"pathlib.Path({str(left)!r}).touch(); time.sleep(60)"
    )
    driver = DriverProgram(["-c", program], tmp_path / "log", tmp_path / "scratch")
    with marked() as mark:
        driver.start()
        try:
            wait_until(left.exists, "the grandchild to be left")
            found = processes(mark)
            assert len(found) == 2
            assert sorted(session(min(found))) == sorted(found)
        finally:
            driver.kill()
        assert not driver.running
        assert not processes(mark)


def test_a_process_that_computes_is_told_from_those_that_wait(tmp_path: Path) -> None:
    driver = DriverProgram(["-c", "while True: pass"], tmp_path / "log", tmp_path / "scratch")
    waiting = DriverProgram(["-c", "import time; time.sleep(60)"], tmp_path / "log", tmp_path / "scratch")
    try:
        driver.start()
        waiting.start()
        assert driver.busy("all", 10) in driver.pids()
        wait_until(lambda: waiting.busy("all", 0.3) is None, "the other to sleep")
    finally:
        driver.kill()
        waiting.kill()


@contextmanager
def marked() -> Iterator[str]:
    """Yields a mark in the environment, by which processes that start meanwhile can be recognised."""
    mark = os.environ[_MARK] = uuid.uuid4().hex
    try:
        yield mark
    finally:
        del os.environ[_MARK]


def processes(mark: str, word: str = "") -> list[int]:
    """Returns the ids of the living processes with ``mark``, but for the shells that watch over them and end with
    them.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment, command = (folder / "environ").read_bytes(), (folder / "cmdline").read_text()
        except OSError:
            continue
        if f"{_MARK}={mark}".encode() in environment.split(b"\0") and command and word in command:
            found += [int(folder.name)] if not command.startswith("/bin/sh\0-c\0read") else []
    return found


@contextmanager
def soak(log: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with marked() as mark, log.open("wb") as output:
        command = [sys.executable, "-m", "benchmarks.soak", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield process, mark
        finally:
            process.kill()
            process.wait()
            wait_until(lambda: not processes(mark), "the end of all that the soak started")


@pytest.mark.jvm
def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    with soak(tmp_path / "log") as (process, mark):
        wait_until(lambda: len(processes(mark, "java")) >= 3, "a broker and two drivers", 120)
        process.terminate()
        assert process.wait(30) != 0
        assert not processes(mark)
