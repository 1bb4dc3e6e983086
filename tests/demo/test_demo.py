"""A small run of the whole demo, as a user starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.jvm
def test_the_demo_shows_that_only_the_aligned_source_keeps_every_row(tmp_path: Path) -> None:
    leftover = tmp_path / "demo-output" / "leftover"
    leftover.parent.mkdir()
    leftover.touch()
    command = [sys.executable, "-m", "flip27_stream.demo", "--records", "24000", "--rows-per-batch", "6000"]
    command += ["--picture", "copy.png"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}

    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    shown = done.stdout
    assert done.returncode == 0, shown + done.stderr
    assert done.stderr == ""
    assert not re.search(r"Traceback|WARN|Exception|[Ww]arning", shown)
    built_in, aligned = row(shown, "rows lost")
    assert built_in > 0
    assert aligned == 0
    assert row(shown, "rows written") == [24_000, 24_000]
    assert row(shown, "rows counted") == [24_000 - built_in, 24_000]
    assert not leftover.exists()
    assert (tmp_path / "copy.png").read_bytes().startswith(PNG)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.png", "demo-output"]


def row(shown: str, name: str) -> list[int]:
    """The two numbers in a row of the table."""
    cells = re.search(rf"│ {name} +│ +([\d,]+) │ +([\d,]+) │", shown)
    assert cells, shown
    return [int(cell.replace(",", "")) for cell in cells.groups()]
