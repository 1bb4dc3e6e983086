"""The supported pairs of Spark and Python, the tests that each must pass, and the table that is made of the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree


@dataclass(frozen=True, order=True)
class Pair:
    """A release of Spark, and a version of Python without its patch number."""

    spark: str
    python: str

    def __str__(self) -> str:
        return f"{self.spark}/{self.python}"


PAIRS: Final = tuple(
    Pair(spark, python)
    for spark, pythons in {
        "4.2.0": ("3.10", "3.11"),
        "4.2.1": ("3.12", "3.13"),
        "4.3.0": ("3.11", "3.13"),
    }.items()
    for python in pythons
)

_ANY_SPARK = "tests/spark/queries/test_any_spark.py"

TESTS: Final[Mapping[str, tuple[str, ...]]] = {
    "facts": ("tests/spark/session/test_facts_planning.py", "tests/spark/session/test_facts_reading.py"),
    "Kafka": (f"{_ANY_SPARK}::test_a_batch_read_of_kafka",),
    "files": (f"{_ANY_SPARK}::test_files_are_read_once",),
    "killed planner": (f"{_ANY_SPARK}::test_a_killed_planner_neither_loses_nor_doubles",),
    "AvailableNow": (f"{_ANY_SPARK}::test_available_now_goes_on_where_it_was",),
    "alignment": (f"{_ANY_SPARK}::test_alignment_keeps_partitions_together",),
    "Connect": ("tests/spark/session/test_other_sessions.py",),
}
"""The tests of each column of the table, as arguments of pytest."""

HEAD: Final = ("Spark", "Python", "Java", *TESTS)


def results(junit: str) -> dict[str, str]:
    """Returns the text of each column's cell, taken from pytest's JUnit report of one pair."""
    cases = list(ElementTree.fromstring(junit).iter("testcase"))
    return {column: _cell([case for case in cases if _is_of(case, names)]) for column, names in TESTS.items()}


def table(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """Returns the lines of a Markdown table. Each row has a cell for each column of :data:`HEAD`."""
    lines = [_line(HEAD), "|---" * len(HEAD) + "|"]
    return lines + [_line(tuple(row[column] for column in HEAD)) for row in rows]


def _is_of(case: ElementTree.Element, names: tuple[str, ...]) -> bool:
    module = case.get("classname", "").replace(".", "/") + ".py"
    function = case.get("name", "").partition("[")[0]
    return module in names or f"{module}::{function}" in names


def _cell(cases: list[ElementTree.Element]) -> str:
    failed = [case for case in cases if any(case.find(kind) is not None for kind in ("failure", "error"))]
    passed = [case for case in cases if case not in failed and case.find("skipped") is None]
    if failed:
        return f"{len(failed)} of {len(cases)} failed"
    if not passed:
        return "not run"
    return f"{len(passed)} passed"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
