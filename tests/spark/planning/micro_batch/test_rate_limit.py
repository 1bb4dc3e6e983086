"""The least number of rows of a micro-batch, and how long a batch waits for it. No JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flip27_stream.api import ReadLimits
from tests.spark.support.driven_query import DrivenQuery


@pytest.mark.parametrize("aligned", [True, False])
def test_sk_06_a_batch_waits_for_its_least_rows(make: Callable[..., DrivenQuery], aligned: bool) -> None:
    """SK-06, SK-08: the first batch always runs. Each further one needs 15 rows, or 5 s since the last batch."""
    limits = ReadLimits(min_rows=15, max_trigger_delay_ms=5000)
    query = make({"a": [1] * 10, "b": [1] * 5, "c": [1]}, aligned, limits)
    some = 2**63 - 1
    assert len(query.step(some) or ()) == 16
    query.world.logs["a"] += [1] * 6
    assert query.step(some) is None
    query.world.logs["b"] += [1] * 12
    assert len(query.step(some) or ()) == 18
    query.world.logs["c"] += [1] * 10
    query.clock.advance(4999)
    assert query.step(some) is None
    query.clock.advance(1)
    assert len(query.step(some) or ()) == 10
    query.world.logs["a"].append(1)
    assert query.step(some) is None
    query.restart()
    assert len(query.step(some) or ()) == 1, "the time is kept in memory only"


@pytest.mark.parametrize("aligned", [True, False])
def test_sk_05_trigger_once_ignores_the_least_rows(make: Callable[..., DrivenQuery], aligned: bool) -> None:
    """SK-05: with Trigger.Once there is no limit, and the batch does not wait for rows."""
    query = make({"a": [1] * 10}, aligned, ReadLimits(max_rows=4, min_rows=15))
    query.step()
    query.world.logs["a"].append(1)
    assert len(query.step() or ()) == 1


def test_rows_that_are_held_back_do_not_count_for_the_minimum(make: Callable[..., DrivenQuery]) -> None:
    """SK-06 with alignment: rows that another split holds back do not count for the minimum."""
    query = make({"slow": [100], "fast": [100, 500, 600, 700]}, True, ReadLimits(min_rows=3))
    assert query.step(10) == [("fast", 100), ("slow", 100)]
    query.world.logs["slow"].append(101)
    assert query.step(10) is None
    query.world.logs["slow"] += [102, 103]
    assert len(query.step(10) or ()) == 3


@pytest.mark.parametrize("aligned", [True, False])
def test_the_last_rows_of_a_bounded_source_do_not_wait_for_others(
    make: Callable[..., DrivenQuery], aligned: bool
) -> None:
    """SK-06, KR-08: no row comes after the final ends, so the last batch would only wait for maxTriggerDelay."""
    query = make({"a": [1] * 10}, aligned, ReadLimits(max_rows=4, min_rows=4))
    query.world.finished.add("a")
    assert [len(query.step(4) or ()) for _ in range(3)] == [4, 4, 2]
