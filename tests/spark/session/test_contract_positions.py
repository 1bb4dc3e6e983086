"""Mistakes in the positions by event time of an enumerator raise errors that name them. No JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from flip27_stream.api import EventTimes, PositioningRequest
from flip27_stream.errors import ContractError
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import (
    MemoryEnumerator,
    MemoryPositions,
    MemorySource,
    MemoryWorld,
)


class CarelessPositions(MemoryPositions):
    answers: ClassVar[Mapping[str, object]] = {}

    def event_times(self) -> Any:
        return self.answers["event_times"] if "event_times" in self.answers else super().event_times()

    def first_at_or_after(self, event_time: int) -> Any:
        found = super().first_at_or_after(event_time)
        return self.answers.get("first_at_or_after", found)

    def least_to_come(self) -> Any:
        return self.answers.get("least_to_come")


class Aligned(MemoryEnumerator):
    def event_time_positions(self, request: PositioningRequest) -> Any:
        return self.positions(self.world, request)

    def pending(self) -> int:
        return 1

    positions: Callable[..., Any]


@pytest.mark.parametrize(
    ("method", "answer", "why"),
    [
        ("event_times", None, "returned None; it must return an object of Mapping"),
        ("event_times", {"b": EventTimes(1, 1)}, "returned an entry for 'b', which is not in the request"),
        ("event_times", {"a": (1, 3)}, r"returned \(1, 3\) for split 'a'; it must be EventTimes"),
        ("event_times", {"a": EventTimes(1.5, 3)}, "it must be EventTimes of milliseconds as int"),  # type: ignore[arg-type]
        ("event_times", {"a": EventTimes(1, np.int64(3))}, "it must be EventTimes of milliseconds as int"),
        ("event_times", {"a": EventTimes(3, 2**63)}, f"returned the event time {2**63}; it must fit 64 bits"),
        ("event_times", {"a": EventTimes(-(2**63) - 1, 3)}, f"the event time {-(2**63) - 1}; it must fit"),
        ("first_at_or_after", None, "returned None; it must return an object of Mapping"),
        ("first_at_or_after", {}, "left out split 'a', which event_times.. returned"),
        (
            "first_at_or_after",
            {"a": 1},
            "returned 1 for split 'a'; it must be a position and a number of rows",
        ),
        ("first_at_or_after", {"a": (np.int64(1), 1)}, "both of type int"),
        ("first_at_or_after", {"a": (4, 4)}, "the position must be from 0 up to 3"),
        ("first_at_or_after", {"a": (1, -1)}, "the rows not negative"),
        ("least_to_come", "soon", "returned 'soon'; it must return milliseconds as int, or None"),
    ],
)
def test_impossible_positions_by_event_time_are_refused(
    tmp_path: Path, method: str, answer: object, why: str
) -> None:
    careless = type("Positions", (CarelessPositions,), {"answers": {method: answer}})
    made = type("Careless", (Aligned,), {"positions": staticmethod(careless)})
    world = MemoryWorld({"a": [1, 2, 3]})
    with pytest.raises(ContractError, match=rf"Positions.{method}\(.*\) .*{why}"):
        DrivenQuery(world, tmp_path / "table", source=MemorySource(world, enumerator=made)).step()


def test_an_enumerator_without_a_result_of_positions_is_refused(tmp_path: Path) -> None:
    made = type("Careless", (Aligned,), {"positions": staticmethod(lambda *_: None)})
    world = MemoryWorld({"a": [1]})
    with pytest.raises(
        ContractError, match=r"Careless.event_time_positions\(\) returned None.*EventTimePositions"
    ):
        DrivenQuery(world, tmp_path / "table", source=MemorySource(world, enumerator=made)).step()
