"""The borders between packages hold: import-linter's contracts are kept, and no heavy package is imported early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("flip27_stream", "offsets", "watermark_alignment")
FOR_ALL = re.compile(r"""\b(?:setattr|patch(?:\.object)?)\(\s*(?:[\w.]*\btime,|["'][\w.]*\btime\.\w+["'])""")
"""Matches what replaces a function of ``time`` in the whole process."""
PURE = (
    "flip27_stream/api",
    "flip27_stream/errors.py",
    "flip27_stream/connectors/kinesis/planning/known_records.py",
    "offsets",
    "watermark_alignment/event_time_checks.py",
    "watermark_alignment/group/group_reads.py",
    "watermark_alignment/group/group_view.py",
    "watermark_alignment/options.py",
    "watermark_alignment/pausing.py",
    "watermark_alignment/planner.py",
    "watermark_alignment/split_columns.py",
    "watermark_alignment/states.py",
    "watermark_alignment/table_location.py",
)
EFFECTS = {
    "asyncio",
    "datetime",
    "http",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
}
EFFECTS |= {"socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
HEAVY = ("pyspark", "kafka", "deltalake", "matplotlib", "pandas")


def test_the_import_contracts_are_kept() -> None:
    lint = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(lint, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_modules_import_each_other_in_a_circle() -> None:
    """No modules import each other in a circle, not even within a package.

    Imports inside functions count; imports for types alone do not.
    """
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True)
    left = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    while done := [module for module, imported in left.items() if not imported & left.keys()]:
        for module in done:
            del left[module]
    assert left == {}


def test_no_package_is_deeper_than_three_levels_and_no_folder_has_many_modules() -> None:
    """No package is more than three levels below the top, and no folder has more than 15 modules."""
    paths = [path for top in (*PACKAGES, "benchmarks", "tests") for path in (ROOT / top).rglob("*.py")]
    modules = Counter(path.parent.relative_to(ROOT) for path in paths if path.name != "__init__.py")
    assert [str(folder) for folder in modules if len(folder.parts) > 4] == []
    assert [str(folder) for folder, count in modules.items() if count > 15] == []


def imports_of_tests(source: str) -> list[str]:
    """Returns the test modules that a source imports, each with the name that it takes out of the module."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module or ''}.{alias.name}" for alias in node.names]
    return [name for name in names if any(part.startswith("test_") for part in name.split("."))]


def test_no_test_module_is_imported_by_another() -> None:
    """What several test modules need is in a folder ``support``, or is a fixture of a ``conftest.py``."""
    imported = {str(path): imports_of_tests(path.read_text()) for path in (ROOT / "tests").rglob("*.py")}
    assert {path: found for path, found in imported.items() if found} == {}


@pytest.mark.parametrize(
    "line",
    [
        "from tests.reader.test_progress import numbers",
        "from tests.reader import kit, test_progress",
        "from . import test_progress",
        "import tests.reader.test_progress",
        "def late():\n    from tests.reader.test_progress import numbers",
    ],
)
def test_an_import_of_a_test_module_is_found(line: str) -> None:
    assert len(imports_of_tests(line)) == 1


def test_an_import_of_a_support_module_is_allowed() -> None:
    assert imports_of_tests("import pytest\nfrom tests.reader.support.kit import Numbers") == []


def effects_imported(source: str) -> list[str]:
    """Returns the modules that a source imports and that reach beyond it: clocks, chance, threads, files, networks."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(str(node.module))
    return [name for name in names if name.partition(".")[0] in EFFECTS]


@pytest.mark.parametrize("place", PURE)
def test_pure_modules_have_no_clock_no_chance_and_no_io(place: str) -> None:
    """import-linter holds no borders to modules of Python itself."""
    path = ROOT / place
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert paths
    assert {str(path): found for path in paths if (found := effects_imported(path.read_text()))} == {}


def test_an_import_of_a_clock_is_found() -> None:
    assert effects_imported("import time, json\nfrom os.path import join") == ["time", "os.path"]
    assert effects_imported("def now():\n    from datetime import datetime") == ["datetime"]


def pulled_in(modules: str) -> set[str]:
    """Returns the heavy packages that come with these modules. Each query waits for them in each of its processes."""
    probe = f"import sys, {modules}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["flip27_stream", "flip27_stream.api", "offsets", "watermark_alignment"])
def test_importing_the_package_imports_neither_spark_nor_a_client(package: str) -> None:
    assert pulled_in(package) == set()


def test_reading_the_schema_imports_neither_client_nor_table() -> None:
    assert pulled_in("flip27_stream.spark.data_source, flip27_stream.connectors.kafka") == {"pyspark"}


def test_planning_without_alignment_imports_only_the_client() -> None:
    assert pulled_in(
        "flip27_stream.spark.planning.coordinator, flip27_stream.connectors.kafka.planning.enumerator"
    ) == {"kafka"}


def test_planning_with_alignment_imports_no_pandas() -> None:
    """Planning with alignment loads deltalake and no pandas.

    ``tests/spark/planning/test_planning_imports.py`` shows when pandas, which PyArrow needs, is loaded.
    """
    assert pulled_in(
        "flip27_stream.spark.planning.group.group_planner, flip27_stream.spark.reporting.recorder"
    ) == {"deltalake"}


def test_no_test_replaces_the_time_of_the_whole_process() -> None:
    """Tests use :func:`tests.support.module_time.replace_time` for one module.

    Threads of other libraries, such as py4j's, depend on the time of the whole process.
    """
    found = [
        str(path)
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and FOR_ALL.search(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "call",
    [
        'setattr(time, "sleep", None)',
        'setattr("time.sleep", None)',
        'setattr(\n    "package.module.time.sleep", None\n)',
        'setattr(module.time, "sleep", None)',
        'patch("module.time.sleep")',
        'patch.object(time, "sleep")',
        'patch.object(module.time, "sleep")',
    ],
)
def test_each_way_to_replace_the_time_is_found(call: str) -> None:
    assert FOR_ALL.search(call)
