"""A failing call of ``split_ranges`` is repeated for a limited time, and the offset does not move meanwhile. No
JVM.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import URLError

import pytest

from examples.log_folder import LogFile, LogFolder, LogFolderEnumerator
from flip27_stream.api import SplitRange, WatermarkStrategy
from flip27_stream.errors import DataLossError, UnreachableError
from flip27_stream.spark.planning import stall_detector
from flip27_stream.spark.planning.batch_reader import Flip27BatchReader
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.planning.offset.offset_log import Document
from flip27_stream.spark.source_spec import Driver, SourceSpec
from offsets import INITIAL

FAULTS: list[Exception] = []
"""The errors that the next calls of ``split_ranges`` raise."""


class Failing(LogFolderEnumerator):
    def split_ranges(self, positions: Mapping[LogFile, int | None]) -> Mapping[str, SplitRange]:
        if FAULTS:
            raise FAULTS[0] if str(FAULTS[0]) == "for ever" else FAULTS.pop(0)
        return super().split_ranges(positions)


@dataclass(frozen=True)
class FailingFolder(LogFolder):
    def create_enumerator(self, context: object) -> Failing:
        made = super().create_enumerator(context)  # type: ignore[arg-type]
        made.__class__ = Failing
        return made  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def _without_faults() -> None:
    FAULTS.clear()


@pytest.fixture
def coordinator(tmp_path: Path) -> Callable[[], SourceCoordinator]:
    (tmp_path / "a.log").write_text("0 a0\n1 a1\n")
    return lambda: SourceCoordinator(spec(tmp_path), greatest_pause_s=0)


def spec(folder: Path) -> SourceSpec:
    return SourceSpec(FailingFolder(str(folder)), WatermarkStrategy(), alignment=None, driver=Driver())


def planned(planning: SourceCoordinator, start: Document, end: Document) -> list[tuple[int, int]]:
    return [(piece.start, piece.end) for task in planning.tasks(start, end) for piece in task.ranges]


def test_the_first_plan_waits_for_a_look_that_succeeds(
    coordinator: Callable[[], SourceCoordinator], caplog: pytest.LogCaptureFixture
) -> None:
    FAULTS[:] = [TimeoutError("slow"), ConnectionResetError("gone"), URLError("down")]
    planning = coordinator()
    with caplog.at_level(logging.WARNING):
        end = planning.latest_offset(INITIAL, 1000)
    assert planned(planning, INITIAL, end) == [(0, 2)]
    planning.close()
    told = [line.getMessage() for line in caplog.records if line.name.endswith("planning.range_lookup")]
    assert told == ["Failing.split_ranges() failed. It is repeated for up to 60 s: TimeoutError: slow"]


def test_a_running_query_waits_while_looks_fail(
    coordinator: Callable[[], SourceCoordinator], tmp_path: Path
) -> None:
    """While ``split_ranges`` fails, a plan returns the start offset itself, so that Spark runs no batch. The next
    plan after that goes on from this offset.
    """
    planning = coordinator()
    first = planning.latest_offset(INITIAL, 1000)
    with open(tmp_path / "a.log", "a") as log:
        log.write("2 a2\n")
    FAULTS[:] = [OSError("a"), OSError("b")]
    assert planning.latest_offset(first, 1000) is first
    assert planning.latest_offset(first, 1000) is first
    second = planning.latest_offset(first, 1000)
    assert planned(planning, first, second) == [(2, 3)]
    planning.close()


@pytest.mark.parametrize("available_now", [False, True])
def test_looks_that_fail_for_ever_fail_the_query(
    coordinator: Callable[[], SourceCoordinator], monkeypatch: pytest.MonkeyPatch, available_now: bool
) -> None:
    monkeypatch.setattr(stall_detector, "TIMEOUT_S", 0.2)
    planning = coordinator()
    if available_now:
        planning.prepare_available_now()
    FAULTS[:] = [TimeoutError("for ever")]
    with pytest.raises(
        UnreachableError,
        match=r"Failing\.split_ranges\(\) has failed for .* times in a row.*TimeoutError: for ever",
    ):
        planning.latest_offset(INITIAL, 1000)
    FAULTS.clear()
    assert planned(planning, INITIAL, planning.latest_offset(INITIAL, 1000)) == [(0, 2)]
    planning.close()


@pytest.mark.parametrize(
    "error",
    [
        DataLossError("gone"),
        ValueError("a mistake"),
        FileNotFoundError("not there"),
        PermissionError("not yours"),
    ],
)
def test_another_error_fails_the_query_at_once(
    coordinator: Callable[[], SourceCoordinator], error: Exception
) -> None:
    FAULTS[:] = [error]
    planning = coordinator()
    with pytest.raises(type(error), match=str(error)):
        planning.latest_offset(INITIAL, 1000)
    planning.close()


def test_a_batch_read_looks_again(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("0 a0\n1 a1\n")
    FAULTS[:] = [TimeoutError("slow"), TimeoutError("slow")]
    (task,) = Flip27BatchReader(replace(spec(tmp_path))).partitions()
    assert [piece.size for piece in task.value.ranges] == [2]
