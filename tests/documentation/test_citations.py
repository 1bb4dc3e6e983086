"""Every rule, invariant, fact and scenario that code, tests or docs cite is defined in ``docs/design``."""

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
NUMBERS = r"(\d+(?:(?:, | and | to )\d+)*)"
CITED = {
    "rule": re.compile(rf"\b[Rr]ules? {NUMBERS}"),
    "fact": re.compile(rf"\b[Ff]acts? {NUMBERS}"),
    "invariant": re.compile(r"\bI(\d+)(?: to I(\d+))?\b"),
    "scenario": re.compile(r"\b((?:AL|AO|AS|WM|OP|CO|TR|SR|HY|FI|KE|KR|KO|KS|KB|KI|SX|KN|PU|SK|PY)-\d\d)\b"),
}


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
    yield ROOT / "README.md"
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and DESIGN not in path.parents and path != Path(__file__):
                yield path


def citations(kind: str, text: str) -> Iterator[str]:
    for match in CITED[kind].finditer(text):
        if kind == "scenario":
            yield match[1]
        else:
            numbers = [int(n) for n in re.findall(r"\d+", match[0])]
            span = " to " in match[0] and len(numbers) == 2
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


def test_a_citation_that_leads_nowhere_is_found() -> None:
    """The patterns find the numbers in each form in which texts cite them."""
    assert list(citations("rule", "rules 7 and 99")) == ["7", "99"]
    assert list(citations("fact", "Facts 4, 5, 10")) == ["4", "5", "10"]
    assert list(citations("invariant", "I1 to I3, I12")) == ["1", "2", "3", "12"]
    assert list(citations("scenario", "AL-19 and SK-99")) == ["AL-19", "SK-99"]


def test_no_text_leans_on_a_page_that_is_not_here() -> None:
    """No text cites rules or facts by the name of a document outside the repository. They are in ``docs/design``."""
    elsewhere = re.compile(r"\bDESIGN\b|spark-facts (?!\.md)|\.\./shared")
    assert [str(path) for path in files() if elsewhere.search(path.read_text())] == []
