"""The borders between the packages hold: the contracts of setup.cfg, and what an import pulls in."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("flip27_stream", "offsets", "watermark_alignment")
HEAVY = ("pyspark", "kafka", "deltalake", "matplotlib", "pandas")


def test_the_import_contracts_are_kept() -> None:
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Inside a package either; imports inside functions count, those for types alone do not."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while done := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in done:
            del left[module]
    assert left == {}


def pulled_in(modules: str) -> set[str]:
    """Which of the heavy ones come with these; each query waits for them in each of its processes."""
    probe = f"import sys, {modules}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["flip27_stream", "flip27_stream.api", "offsets", "watermark_alignment"])
def test_an_import_pulls_in_no_spark_and_no_client(package: str) -> None:
    assert pulled_in(package) == set()


def test_what_tells_the_schema_pulls_in_neither_client_nor_table() -> None:
    assert pulled_in("flip27_stream.spark.data_source, flip27_stream.connectors.kafka") == {"pyspark"}


def test_what_plans_without_alignment_pulls_in_the_client_alone() -> None:
    assert pulled_in(
        "flip27_stream.spark.planning.coordinator, flip27_stream.connectors.kafka.planning.enumerator"
    ) == {"kafka"}


def test_what_plans_with_alignment_pulls_in_no_pandas() -> None:
    """See ``tests/spark/planning/test_planning_imports.py`` for when pandas is imported, which PyArrow needs."""
    assert pulled_in(
        "flip27_stream.spark.planning.group.group_planner, flip27_stream.spark.reporting.recorder"
    ) == {"deltalake"}


def test_no_test_replaces_the_time_of_the_whole_process() -> None:
    """Threads of other libraries live by it, py4j's to begin with: tests use :func:`tests.module_time.replace_time`."""
    for_all = re.compile(r"""setattr\(\s*(time,|["'][\w.]*\btime\.\w+["'])""")
    found = [str(path) for path in (ROOT / "tests").rglob("*.py") if for_all.search(path.read_text())]
    assert found == []
