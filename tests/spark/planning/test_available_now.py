"""With ``Trigger.AvailableNow`` the coordinator reads the rows that existed when the run began. No JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flip27_stream.api import ReadLimits
from flip27_stream.errors import ConnectorError, DataLossError
from flip27_stream.spark.planning import stall_detector
from tests.spark.support.driven_query import DrivenQuery


def test_available_now_reads_all_that_was_there_and_no_more(make: Callable[..., DrivenQuery]) -> None:
    """AO-06, AO-07, PY-06, I11: an AvailableNow run reads the rows that existed at its beginning, and no later ones.
    A split at its end is finished, so that it holds no other split back.
    """
    query = make({"a": [1, 2, 3], "b": [1, 900]})
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.logs["a"].append(4)
    while query.step(limit=2) is not None:
        pass
    assert sorted(row for batch in query.batches for row in batch) == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("b", 900),
    ]
    with_the_first = 1 + len(query.batches)
    assert len(query.rows()) == 2 * with_the_first, "the table is flushed before the run ends"


@pytest.mark.parametrize("aligned", [True, False])
def test_a_split_found_during_an_available_now_run_is_read_by_the_next(
    make: Callable[..., DrivenQuery], aligned: bool
) -> None:
    query = make({"a": [1, 2, 3]}, aligned)
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.logs["b"] = [1, 2]
    query.discover()
    while query.step(limit=2) is not None:
        pass
    assert {split for batch in query.batches for split, _ in batch} == {"a"}
    query.restart()
    query.coordinator.prepare_available_now()
    while query.step() is not None:
        pass
    assert sorted(row for batch in query.batches for row in batch) == [
        ("a", 1),
        ("a", 2),
        ("a", 3),
        ("b", 1),
        ("b", 2),
    ]


def finish(query: DrivenQuery) -> None:
    while query.step(limit=2) is not None:
        pass


@pytest.mark.parametrize("aligned", [True, False])
def test_available_now_fails_when_a_log_loses_its_tail(
    make: Callable[..., DrivenQuery], aligned: bool
) -> None:
    """I11: an AvailableNow run fails when a log loses its tail, and does not end as if all had been read. After
    the next run all existing rows have been read.
    """
    query = make({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4, 5, 6, 7, 8]}, aligned)
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    del query.world.logs["a"][3:]
    with pytest.raises(
        DataLossError, match=r"available offset which is less .* split a ends at 3 now, .* up to 4"
    ):
        finish(query)
    query.restart()
    query.coordinator.prepare_available_now()
    finish(query)
    assert len({row for batch in query.batches for row in batch}) == 3 + 8


def test_available_now_treats_an_end_that_falls_back_as_spark_does(
    make: Callable[..., DrivenQuery],
) -> None:
    """An AvailableNow run waits when the end of a log falls back for a moment, since a new leader may not have caught
    up when it answers first. Meanwhile the split is neither read nor finished.
    """
    query = make({"a": [1, 2, 30, 40]}, max_drift="10 ms")
    query.coordinator.prepare_available_now()
    assert query.step(limit=2) == [("a", 1), ("a", 2)]
    tail, query.world.logs["a"][3:] = query.world.logs["a"][3:], []
    looks = query.world.calls.count("split_ranges")
    split_ranges = query.coordinator._enumerator.split_ranges  # type: ignore[union-attr]

    def recovering(positions: Any) -> Any:
        if query.world.calls.count("split_ranges") == looks + 2:
            query.world.logs["a"] += tail
        return split_ranges(positions)

    query.coordinator._enumerator.split_ranges = recovering  # type: ignore[union-attr, method-assign]
    assert query.step(limit=2) == [("a", 30), ("a", 40)]
    assert query.world.calls.count("split_ranges") > looks + 2
    assert query.step(limit=2) is None


@pytest.mark.parametrize("reached", [True, False])
def test_rows_that_are_lost_after_the_frozen_end_do_not_fail_the_run(
    make: Callable[..., DrivenQuery], reached: bool
) -> None:
    """An AvailableNow run does not fail when a log loses rows that came after the run began. The run has reached its
    frozen end by then, or not.
    """
    query = make({"a": [1, 2, 3, 4]})
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.logs["a"] += [5, 6, 7]
    if reached:
        query.step(limit=2)
    else:
        query.coordinator.latest_offset(query.offset, 2)
    del query.world.logs["a"][4:]
    finish(query)
    assert sum(map(len, query.batches)) == 4


def test_available_now_gives_up_on_a_leader_that_never_answers(
    make: Callable[..., DrivenQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = make({"a": [1, 2], "b": [1, 2]})
    query.coordinator.prepare_available_now()
    query.step(limit=2)
    query.world.mute.add("b")
    monkeypatch.setattr(stall_detector, "TIMEOUT_S", 0.2)
    query.step()
    with pytest.raises(ConnectorError, match=r"No answer about 1 splits \(b\)"):
        query.step()


def test_available_now_hold_leaves_held_rows_to_the_next_run(
    make: Callable[..., DrivenQuery], tmp_path: Path
) -> None:
    query = make({"a": [1, 2, 3], "b": [1, 900]}, **{"scan.watermark.alignment.available_now": "hold"})
    query.coordinator.prepare_available_now()
    while query.step() is not None:
        pass
    assert ("b", 900) not in {row for batch in query.batches for row in batch}


@pytest.mark.parametrize("aligned", [True, False])
def test_available_now_waits_for_no_least_rows(make: Callable[..., DrivenQuery], aligned: bool) -> None:
    """I11: an AvailableNow run reaches its end, although its last batch has fewer rows than
    ``minOffsetsPerTrigger``.
    """
    query = make({"a": [1, 2, 3, 4, 5]}, aligned, ReadLimits(max_rows=3, min_rows=3))
    query.coordinator.prepare_available_now()
    while query.step(limit=3) is not None:
        pass
    assert [len(batch) for batch in query.batches] == [3, 2]


def test_available_now_freezes_after_the_first_look(make: Callable[..., DrivenQuery]) -> None:
    """SK-02: an AvailableNow run calls ``freeze`` of the enumerator once, after its first look at the splits. From
    then on no split may vanish. Other triggers do not call it.
    """
    query = make({"a": [1, 2]})
    query.step()
    assert "freeze" not in query.world.calls
    query.restart()
    query.world.calls.clear()
    query.coordinator.prepare_available_now()
    query.step()
    query.step()
    assert query.world.calls.count("freeze") == 1
    assert query.world.calls.index("freeze") > query.world.calls.index("split_ranges")
