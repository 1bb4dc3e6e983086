"""Where tests put what they write."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
OWN = re.compile(r"\b(mkdtemp|mkstemp|NamedTemporaryFile|TemporaryDirectory)\((?![^)\n]*\bdir=)")


def test_a_run_that_is_killed_leaves_nothing_for_ever() -> None:
    """Folders of pytest's own go with a later run, however this one ends; others stay where nobody looks."""
    made = [str(path) for path in sorted(TESTS.rglob("*.py")) if OWN.search(path.read_text())]
    assert made == []
