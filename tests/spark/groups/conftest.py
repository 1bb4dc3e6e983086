"""The fixture that makes members of a group over logs in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.support.members import Make, group_at


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with group_at(tmp_path / "table") as members:
        yield members
