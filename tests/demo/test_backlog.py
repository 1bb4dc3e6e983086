"""Tests of the backlog of the demo about skewed partitions, and of the table and the verdict that it prints."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pytest
from rich.console import Console

from flip27_stream.demo.comparison import ALIGNED, BUILT_IN
from flip27_stream.demo.event_time import HOUR, MINUTE
from flip27_stream.demo.skew.backlog import SkewedTopic
from flip27_stream.demo.skew.demo import verdict
from flip27_stream.demo.skew.display import result
from flip27_stream.demo.skew.query import SkewRun
from flip27_stream.demo.windowed_count import WINDOW

NOW = 1_700_000_000_000


@pytest.fixture
def backlog() -> SkewedTopic:
    return SkewedTopic.skewed("clicks", 1200, NOW)


def text_of(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_one_partition_begins_hours_before_the_others(backlog: SkewedTopic) -> None:
    begins = [int(times[0]) for times in backlog.event_times]
    assert [begin - backlog.begin for begin in begins] == [5 * HOUR, 5 * HOUR, 5 * HOUR, 0]
    assert backlog.laggard == 3
    assert len({len(times) for times in backlog.event_times}) == 1
    assert all((np.diff(times) > 0).all() for times in backlog.event_times)
    assert all(times[-1] < backlog.end <= NOW for times in backlog.event_times)


def test_no_fewer_records_than_asked_for() -> None:
    assert SkewedTopic.skewed("clicks", 1_000_001, NOW).rows == 1_000_004


def test_the_right_counts_are_those_of_the_event_times(backlog: SkewedTopic) -> None:
    one_by_one = Counter(
        (partition, int(time) // WINDOW * WINDOW)
        for partition, times in enumerate(backlog.event_times)
        for time in times
    )
    assert backlog.counts() == one_by_one
    assert backlog.counts().total() == backlog.rows


def test_event_times_around_a_position_are_known(backlog: SkewedTopic) -> None:
    times = backlog.event_times[0]
    assert backlog.last_event_time(0, 0) is None
    assert backlog.last_event_time(0, 1) == backlog.next_event_time(0, 0) == times[0]
    assert backlog.next_event_time(0, len(times)) == backlog.closing_time > backlog.end + 10 * MINUTE


def test_lost_rows_and_wrong_results_show_in_the_table(backlog: SkewedTopic) -> None:
    right = backlog.counts()
    less = right.copy()
    (key, rows), *_ = right.items()
    less[key] -= 3
    shown = text_of(result(backlog, [SkewRun(BUILT_IN, counts=less), SkewRun(ALIGNED, counts=right)]))
    lines = {
        cells[1].strip(): [c.strip() for c in cells[2:4]]
        for cells in map(_cells, shown.splitlines())
        if len(cells) > 3
    }
    assert rows > 3
    assert lines["rows lost"] == ["3", "0"]
    assert lines[f"wrong results of {len(right)}"] == ["1", "0"]
    assert lines["rows counted"] == ["1,197", "1,200"]


def _cells(line: str) -> list[str]:
    return line.split("│")


def test_the_verdict_compares_every_count(backlog: SkewedTopic) -> None:
    """Two wrong counts that cancel each other out do not pass."""
    console = Console(file=io.StringIO())
    wrong = backlog.counts()
    first, second, *_ = wrong
    wrong[first] += 1
    wrong[second] -= 1
    assert verdict(console, backlog, SkewRun(ALIGNED, counts=backlog.counts()))
    assert not verdict(console, backlog, SkewRun(ALIGNED, counts=wrong))
    assert "flip27_kafka" in console.file.getvalue()  # type: ignore[attr-defined]
