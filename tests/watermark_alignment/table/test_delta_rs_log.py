"""delta-rs writes no warnings of its own before the error of this package, which has the remedy."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("flip27_stream", "offsets", "watermark_alignment")


def run(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in a new process, in whose environment nothing says what Rust logs."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and k != "RUST_LOG"}
    kept |= {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1", **environment}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=kept, timeout=120)


PLOT = """
from watermark_alignment import plot
from flip27_stream.errors import AlignmentError
try:
    plot("s3://bucket/table")
except AlignmentError as error:
    print(error)
"""
LISTENER = """
from watermark_alignment import StatusListener
from flip27_stream.errors import AlignmentError
try:
    StatusListener("s3://bucket/table")._reader.table.load()
except AlignmentError as error:
    print(error)
"""


@pytest.mark.parametrize("script", [PLOT, LISTENER], ids=["plot", "listener"])
def test_only_our_error_is_shown(script: str) -> None:
    done = run(script)
    assert done.stdout.startswith(
        "The split-watermark table at 's3://bucket/table' cannot be read. The store was not"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_user_can_have_the_warnings() -> None:
    """The store would log warnings: the test above is not silent for another reason."""
    assert "WARN aws_config" in run(PLOT, RUST_LOG="warn").stderr.replace("  ", " ")


def importers() -> list[str]:
    """Returns the modules of the packages that import delta-rs."""
    found = []
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        if any(name.partition(".")[0] == "deltalake" for name in names):
            found.append(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return found


IMPORT = """
import importlib, os, sys
seen = []
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "deltalake":
            seen.append(os.environ.get("RUST_LOG"))
sys.meta_path.insert(0, Finder())
importlib.import_module(sys.argv[1])
print(seen)
"""


@pytest.mark.parametrize("module", importers())
def test_what_rust_logs_is_set_before_delta_rs_is_imported(module: str) -> None:
    done = run(IMPORT.replace("sys.argv[1]", repr(module)))
    assert done.stdout == "['error']\n", done.stderr


def test_the_modules_that_import_delta_rs_are_found() -> None:
    assert {"watermark_alignment.table.recordings", "flip27_stream.connectors.files.delta.delta_log"} <= {
        *importers()
    }
