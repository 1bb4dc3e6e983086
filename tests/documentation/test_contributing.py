"""The map of ``CONTRIBUTING.md`` has all packages and tests, and its lists of places have all places."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PRODUCT = ("flip27_stream", "offsets", "watermark_alignment")


def test_the_map_has_every_package_and_its_tests() -> None:
    """The map has every package, tests for each of its rows, and every folder with tests."""
    packages = {
        init.parent.relative_to(ROOT).as_posix()
        for package in PRODUCT
        for init in (ROOT / package).rglob("__init__.py")
    }
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    missing = [name for name in sorted(packages | folders - {"tests"}) if f"`{name}`" not in CONTRIBUTING]
    assert missing == []
    rows = re.findall(r"^\| `([\w/]+)`.* \| ([^|]*) \|$", CONTRIBUTING, re.MULTILINE)
    assert len(rows) > 50
    assert [name for name, tests in rows if not re.fullmatch(r"(`tests/[^`]+`(, )?)+", tests)] == []


def test_the_tests_of_a_package_use_it() -> None:
    """Of the tests that the map names for a package, some use it, or import from the package that has it."""
    rows = re.findall(r"^\| `([\w/]+)`.* \| ([^|]*) \|$", CONTRIBUTING, re.MULTILINE)
    unused = []
    for package, named in rows:
        paths = [ROOT / path for path in re.findall(r"`(tests/[^`]+)`", named)]
        modules = [module for path in paths for module in ([path] if path.is_file() else path.rglob("*.py"))]
        name = package.replace("/", ".")
        use = re.compile(rf"{name}\b|from {name.rpartition('.')[0]} import")
        if not any(use.search(module.read_text()) for module in modules):
            unused.append(package)
    assert unused == []


def test_the_places_of_a_state_of_a_split_are_complete() -> None:
    """The list has each module of the product that names the class of the states."""
    places = CONTRIBUTING.partition("**A state of a split** has these places:")[2].partition("\n**")[0]
    named = tuple(re.findall(r"`([\w/]+\.py)`", places))
    modules = [path for package in PRODUCT for path in (ROOT / package).rglob("*.py")]
    using = [f"/{path.relative_to(ROOT)}" for path in modules if "SplitStatus" in path.read_text()]
    assert len(using) > 10
    assert [path for path in using if not path.endswith(tuple(f"/{name}" for name in named))] == []
