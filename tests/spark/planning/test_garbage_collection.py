"""Garbage collection while a plan is made. No JVM."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

from flip27_stream.spark.planning import garbage_collection as collection
from flip27_stream.spark.planning.garbage_collection import rare_collection
from tests.spark.support.driven_query import DrivenQuery


class Loop:
    """An object in a reference cycle, which only garbage collection frees."""

    def __init__(self) -> None:
        self.itself = self


def test_a_plan_that_waits_leaves_the_collection_of_garbage_on(make: Callable[..., DrivenQuery]) -> None:
    """Garbage of other threads is collected while a plan is made, because a plan may wait for a leader."""
    query = make({"a": [1]})
    query.step(10)
    query.world.logs["a"].append(2)
    enumerator = query.coordinator._enumerator
    assert enumerator is not None
    look, seen = enumerator.split_ranges, []

    def slow(positions: Any) -> Any:
        seen.append(gc.isenabled())
        left = weakref.ref(Loop())
        for _ in range(collection._OBJECTS * 2):
            Loop()
            if left() is None:
                break
        seen.append(left() is None)
        return look(positions)

    enumerator.split_ranges = slow  # type: ignore[method-assign]
    usual = gc.get_threshold()
    assert query.step(10) == [("a", 2)]
    assert set(seen) == {True}
    assert gc.get_threshold() == usual


def test_thresholds_of_the_process_are_kept() -> None:
    usual = gc.get_threshold()
    try:
        for threshold, meanwhile in ((0, 0), (700, collection._OBJECTS), (10**7, 10**7)):
            gc.set_threshold(threshold, 5, 6)
            with rare_collection():
                assert gc.get_threshold()[0] == meanwhile
            assert gc.get_threshold() == (threshold, 5, 6)
    finally:
        gc.set_threshold(*usual)


def test_objects_of_a_large_plan_are_rarely_searched_for_cycles() -> None:
    searched: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            searched.append(info["generation"])

    left: list[list[int]] = []
    searches = 0
    gc.callbacks.append(note)
    try:
        for _ in range(collection._BLOCKS):
            with rare_collection(splits=collection._MANY):
                left += [[n] for n in range(gc.get_threshold()[0] // 10)]
                searched.clear()
            assert searched in ([], [2])
            searches += len(searched)
            assert gc.get_count()[0] < 100
    finally:
        gc.callbacks.remove(note)
    assert searches == 1
    assert len(left) > 100_000
    assert gc.get_freeze_count() == 0
