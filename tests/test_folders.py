"""Tests write only into folders of pytest."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
OWN = re.compile(r"\b(mkdtemp|mkstemp|NamedTemporaryFile|TemporaryDirectory)\((?![^)\n]*\bdir=)")


def test_temporary_folders_of_tests_are_those_of_pytest() -> None:
    """No test makes a temporary folder outside those of pytest.

    A later run deletes these, however this one ends; others would stay for ever.
    """
    made = [str(path) for path in sorted(TESTS.rglob("*.py")) if OWN.search(path.read_text())]
    assert made == []
