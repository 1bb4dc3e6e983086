"""The borders between the packages hold: the contracts of setup.cfg, and what an import pulls in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("pyspark", "kafka", "deltalake", "matplotlib")


def test_the_import_contracts_are_kept() -> None:
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", ["flip27_stream", "flip27_stream.api", "offsets", "watermark_alignment"])
def test_an_import_pulls_in_no_spark_and_no_client(package: str) -> None:
    probe = f"import sys, {package}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
