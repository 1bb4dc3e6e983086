"""AvailableNow runs of members of a group (rule 8). No JVM."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flip27_stream.api import ReadLimits
from tests.spark.members import TIMEOUT, Make, beat, group_at, step


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with group_at(tmp_path / "table") as members:
        yield members


def test_two_sources_of_one_query_reach_their_ends_together(make: Make) -> None:
    """I3, I11: Spark asks one after the other, so none waits in its answer for one that is asked after it."""
    hours = [*range(0, 400, 7)]
    early, late = make({"a": [t + 1 for t in hours]}), make({"b": [t + 201 for t in hours]})
    for query in (early, late):
        query.coordinator.prepare_available_now()
    ahead = []
    while (batches := [step(early), step(late)]) != [None, None]:
        if early.batches[-1] and late.batches[-1]:
            ahead.append(max(t or 0 for _, t in late.batches[-1]) - max(t or 0 for _, t in early.batches[-1]))
        assert len(early.batches) < 500, batches
    assert [sorted(t or 0 for b in q.batches for _, t in b) for q in (early, late)] == [
        [t + 1 for t in hours],
        [t + 201 for t in hours],
    ]
    first_of_late = next(i for i, batch in enumerate(late.batches) if batch)
    read_before = [t for batch in early.batches[:first_of_late] for _, t in batch]
    assert max(t or 0 for t in read_before) >= 201 - 10 - 7, "the early one came up to it first"


def test_a_run_held_by_others_alone_goes_on_after_the_timeout(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Rule 8: at its boundary, with a warning that names who held it, and not before; meanwhile it does not end."""
    slow, run = make({"a": [100]}, source_id="lame"), make({"b": [100, 500]}, update_interval="10 ms")
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run), step(run)] == [[], [100], [], []]
    run.clock.advance(TIMEOUT)
    beat(slow)
    assert step(run) == []
    with caplog.at_level(logging.WARNING, logger="flip27_stream.spark.group_planner"):
        run.clock.advance(1)
        assert step(run) == [500]
    assert "goes on without it: source 'lame'" in caplog.text
    assert step(run) is None


def test_who_was_given_up_counts_again_once_it_has_moved(make: Make) -> None:
    slow, run = make({"a": [100, 120]}), make({"b": [150, 155, 500]}, ReadLimits(max_rows=1))
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run)] == [[], []]
    run.clock.advance(TIMEOUT)
    beat(slow)
    assert step(run) == []
    run.clock.advance(1)
    assert step(run) == [150]
    assert [step(slow), step(slow)] == [[100, 120], None]
    run.clock.advance(1001)
    assert step(run) == [], "155 is above 120 + 10"


def test_who_is_not_stuck_still_counts(make: Make) -> None:
    """I3: the run goes on without a member that is stuck, and with the others."""
    stuck, live, run = make({"a": [100]}), make({"b": [105]}), make({"c": [106, 115, 116, 500]})
    for query in (stuck, live):
        assert step(query) == []
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run)] == [[], [106], []]
    run.clock.advance(TIMEOUT)
    for query in (stuck, live):
        beat(query)
    assert step(run) == []
    run.clock.advance(1)
    assert step(run) == [115]
    assert step(run) == [], "116 is above 105 + 10"


def test_hold_leaves_what_others_hold_to_the_next_run(make: Make) -> None:
    """Rule 8."""
    slow, run = make({"a": [100]}), make({"b": [100, 500]}, available_now="hold")
    step(slow)
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run)] == [[], [100], None]
    run.restart()
    slow.coordinator.close()
    run.coordinator.prepare_available_now()
    assert [step(run), step(run), step(run)] == [[], [500], None]


def test_the_plan_that_ends_a_run_frees_the_others(make: Make) -> None:
    """Rule 8: at its frozen end a source is finished for this run, though its process may be there for a while."""
    run, other = make({"a": [100]}), make({"b": [100, 500]})
    run.coordinator.prepare_available_now()
    assert [step(run), step(other), step(run), step(other)] == [[], [], [100], [100]]
    assert step(run) is None
    assert step(other) == [500]
