"""Runs a demo at a small size, as a user starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.spark.support.processes import quick_start

ROOT = Path(__file__).parents[3]
PNG = b"\x89PNG\r\n\x1a\n"


def shown_by(module: str, folder: Path, *, records: int, rows_per_batch: int) -> str:
    """Returns what a demo prints.

    It must exit with 0, print no warning, and leave only its picture and its output folder.
    """
    command = [sys.executable, "-m", module, "--records", str(records)]
    command += ["--rows-per-batch", str(rows_per_batch), "--picture", "copy.png"]
    environment = {**os.environ, **quick_start(), "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert not re.search(r"Traceback|WARN|Exception|[Ww]arning", done.stdout)
    assert (folder / "copy.png").read_bytes().startswith(PNG)
    assert sorted(path.name for path in folder.iterdir()) == ["copy.png", "demo-output"]
    return done.stdout
