"""Tests of the demos' display: no table wraps at 80 columns, and lines are printed without a terminal."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from flip27_stream.demo.comparison import ALIGNED, BUILT_IN
from flip27_stream.demo.display import Screen
from flip27_stream.demo.event_time import HOUR
from flip27_stream.demo.hybrid import display as hybrid
from flip27_stream.demo.hybrid import query as hybrid_query
from flip27_stream.demo.hybrid.clicks import Clicks
from flip27_stream.demo.join import display as join
from flip27_stream.demo.join import query as join_query
from flip27_stream.demo.join.shop import Shop
from flip27_stream.demo.skew import display as skew
from flip27_stream.demo.skew import query as skew_query
from flip27_stream.demo.skew.backlog import SkewedTopic

NOW = 1_700_000_000_000
MANY = 1_234_567


def skewed() -> list[RenderableType]:
    backlog = SkewedTopic.skewed("clicks", MANY, NOW)
    batch = skew_query.SkewBatch(MANY, dict.fromkeys(backlog.splits, 200000), MANY, NOW)
    runs = [
        skew_query.SkewRun(name, [batch] * 123, started=1.0, seconds=1234.5) for name in (BUILT_IN, ALIGNED)
    ]
    return [skew.live(backlog, runs), skew.result(backlog, runs)]


def joined() -> list[RenderableType]:
    shop = Shop.skewed(3_900, 78, NOW)
    positions = {split: len(records.times) for split, records in shop.records.items()}
    batch = join_query.JoinBatch(positions, NOW, 98_765, 98_765, MANY, 1_234_567_890, 12_345)
    runs = [
        join_query.JoinRun(name, [batch] * 123, started=1.0, seconds=1234.5) for name in (BUILT_IN, ALIGNED)
    ]
    return [join.live(shop, runs), join.result(shop, runs)]


def history_and_topic() -> list[RenderableType]:
    clicks = Clicks.make("clicks", Path("history"), 4_800, NOW)
    done = [hybrid_query.HybridBatch(index, MANY, 0, NOW, NOW, {}, NOW - HOUR) for index in (0, 1)]
    return [hybrid.live(clicks, done, NOW), hybrid.result(clicks, done, clicks.counts())]


def lines(shown: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(shown)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("demo", [skewed, joined, history_and_topic])
def test_no_line_wraps_at_80_columns(demo: Callable[[], list[RenderableType]]) -> None:
    for shown in demo():
        assert "…" not in "".join(lines(shown, 80))
        assert len(lines(shown, 80)) == len(lines(shown, 200))


def test_the_last_line_is_printed_however_early_it_comes() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with Screen(console, lambda: 0.0) as screen:
        screen.update("table", "1 row")
        screen.update("table", "2 rows")
        screen.update("table", "2 rows, done", is_last=True)
    assert console.file.getvalue() == "1 row\n2 rows, done\n"  # type: ignore[attr-defined]


def test_without_a_terminal_no_line_comes_twice() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    clock = itertools.count(0.0, 10.0)
    with Screen(console, lambda: next(clock)) as screen:
        for _ in range(3):
            screen.update("table", "0 rows")
        screen.update("table", "0 rows, done in 20 s", is_last=True)
    assert console.file.getvalue() == "0 rows\n0 rows, done in 20 s\n"  # type: ignore[attr-defined]


def test_without_a_terminal_there_is_a_line_every_few_seconds() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    now = 0.0
    with Screen(console, lambda: now) as screen:
        for second in range(10):
            now = second
            screen.update("table", f"{second} rows [of] 10")
    assert console.file.getvalue() == "".join(f"{s} rows [of] 10\n" for s in (0, 3, 6, 9))  # type: ignore[attr-defined]
