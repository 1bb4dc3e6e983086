"""Every rule, invariant, fact and scenario that code, tests or docs cite is defined in ``docs/design``. Tests cite
every scenario that has a counterpart here, but for a list of those that no test cites yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design"
FOLDERS = (
    "flip27_stream",
    "offsets",
    "watermark_alignment",
    "tests",
    "benchmarks",
    "examples",
    "notebooks",
    "docs",
)
SPACE = r"(?: |\n[ #>]*)"
"""A space, or the end of a line of text or of a comment."""
NUMBERS = rf"(\d+(?:(?:,|{SPACE}and|{SPACE}to){SPACE}\d+)*)"
CITED = {
    "rule": re.compile(rf"\b[Rr]ules?{SPACE}{NUMBERS}"),
    "fact": re.compile(rf"\b[Ff]acts?{SPACE}{NUMBERS}"),
    "invariant": re.compile(rf"\bI(\d+)(?:{SPACE}to{SPACE}I(\d+))?\b"),
    "scenario": re.compile(r"\b([A-Z]{2}-\d\d)\b"),
}
SPAN = re.compile(r"\b([A-Z]{2})-(\d\d) to \1-(\d\d)\b")
NOT_CITED = re.findall(
    r"\S+",
    """
    CO-01 CO-03 CO-15 CO-19 CO-23 FI-03 HY-13 HY-19 KE-02 KE-03 KE-10 OP-01 OP-02 PY-01 PY-02 PY-03 PY-04 PY-08 PY-10
    PY-11 PY-13 PY-15 PY-16 PY-17 PY-18 SK-36 SR-08 TR-02
    """,
)
"""Scenarios that no test cites yet."""
HEAD = re.compile(r'"""(?=[A-Z]{1,2}-?\d|[Rr]ule|[Ff]act)([^:"]*):')
"""Matches what a docstring cites before its first sentence."""
ID = re.compile(r"\b[A-Z]{1,2}-?\d+\b")
ELSEWHERE = re.compile(r"\bDESIGN\b|(?<!design/)spark-facts|\.\./shared")


def defined() -> dict[str, set[str]]:
    """Returns the names that the pages of ``docs/design`` define, by kind."""
    rules, facts, scenarios = (
        (DESIGN / f"{page}.md").read_text() for page in ("rules", "spark-facts", "scenarios")
    )
    return {
        "rule": set(re.findall(r"^\*\*Rule (\d+),", rules, re.MULTILINE)),
        "fact": set(re.findall(r"^(\d+)\. ", facts, re.MULTILINE)),
        "invariant": set(re.findall(r"^\| I(\d+) \|", rules, re.MULTILINE)),
        "scenario": set(re.findall(r"^\| ([A-Z]{2}-\d\d) \|", scenarios, re.MULTILINE)),
    }


def files() -> Iterator[Path]:
    """Yields the files that may cite rules, invariants, facts and scenarios."""
    yield from (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".rst", ".svg") and path != Path(__file__):
                yield path


def citations(kind: str, text: str) -> Iterator[str]:
    for match in CITED[kind].finditer(text):
        if kind == "scenario":
            yield match[1]
        else:
            numbers = [int(n) for n in re.findall(r"\d+", match[0])]
            span = "to" in match[0].split() and len(numbers) == 2
            yield from map(str, range(numbers[0], numbers[1] + 1) if span else numbers)


@pytest.mark.parametrize("kind", CITED)
def test_every_citation_leads_to_a_definition(kind: str) -> None:
    known = defined()[kind]
    dangling = [
        f"{path.relative_to(ROOT)}: {kind} {name}"
        for path in files()
        for name in citations(kind, path.read_text())
        if name not in known
    ]
    assert known
    assert dangling == []


def scenarios_in(text: str) -> Iterator[str]:
    """Yields the scenarios that a text cites, also those within ``SX-01 to SX-08``."""
    yield from citations("scenario", text)
    for area, first, last in SPAN.findall(text):
        yield from (f"{area}-{number:02d}" for number in range(int(first), int(last) + 1))


def test_every_scenario_is_cited_by_a_test() -> None:
    """The last column of a scenario that has no counterpart begins with "no"."""
    rows = re.findall(
        r"^\| ([A-Z]{2}-\d\d) \|.*\| (?!no\b)[^|]*\|$", (DESIGN / "scenarios.md").read_text(), re.MULTILINE
    )
    tests = [path for path in files() if {"tests", "conformance"} & set(path.relative_to(ROOT).parts)]
    cited = {name for path in tests for name in scenarios_in(path.read_text())}
    assert len(rows) > 200
    assert sorted(set(rows) - cited) == sorted(NOT_CITED)


def test_scenarios_of_a_span_are_cited() -> None:
    assert set(scenarios_in("SX-01 to SX-03, PU-02")) == {"SX-01", "SX-02", "SX-03", "PU-02"}


def test_a_citation_that_leads_nowhere_is_found() -> None:
    """The patterns find the numbers in each form in which texts cite them."""
    assert list(citations("rule", "rules 7 and 99")) == ["7", "99"]
    assert list(citations("fact", "Facts 4, 5, 10")) == ["4", "5", "10"]
    assert list(citations("fact", "fact\n    4,\n    5 and\n    # 10")) == ["4", "5", "10"]
    assert list(citations("invariant", "I1 to I3, I12")) == ["1", "2", "3", "12"]
    assert list(citations("invariant", "I1\n    to I3")) == ["1", "2", "3"]
    assert list(citations("scenario", "AL-19, SK-99 and XX-01")) == ["AL-19", "SK-99", "XX-01"]


def unknown_ids(text: str) -> list[str]:
    """Returns the ids before the first sentences of docstrings that have the form of no kind."""
    ids = [name for head in HEAD.findall(text) for name in ID.findall(head)]
    return [
        name for name in ids if not any(CITED[kind].fullmatch(name) for kind in ("invariant", "scenario"))
    ]


def test_docstrings_begin_with_no_id_of_another_form() -> None:
    found = {str(path.relative_to(ROOT)): unknown_ids(path.read_text()) for path in files()}
    assert {path: ids for path, ids in found.items() if ids} == {}


def test_an_id_of_another_form_is_found() -> None:
    assert unknown_ids('"""C8, I9, rule 3: text."""') == ["C8"]
    assert unknown_ids('"""I1, WM-04,\n    D-3: text."""') == ["D-3"]
    assert unknown_ids('"""S3 is a store."""') == []


def test_no_text_cites_a_missing_page() -> None:
    """No text cites rules or facts by the name of a document outside the repository. They are in ``docs/design``."""
    citing = [path for path in files() if DESIGN not in path.parents]
    assert [str(path) for path in citing if ELSEWHERE.search(path.read_text())] == []


@pytest.mark.parametrize(
    "text", ["see DESIGN.md", "spark-facts 14", "see spark-facts.md", "../shared/rules.md"]
)
def test_the_name_of_a_missing_page_is_found(text: str) -> None:
    assert ELSEWHERE.search(text)
