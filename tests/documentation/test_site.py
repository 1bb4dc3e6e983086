"""The documentation site builds without warnings, and its reference has every public name."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flip27_stream.connectors

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
CONNECTORS = sorted(
    info.name for info in pkgutil.iter_modules(flip27_stream.connectors.__path__) if info.ispkg
)
MODULES = (
    "flip27_stream.api",
    *(f"flip27_stream.connectors.{connector}" for connector in CONNECTORS),
    "flip27_stream.reader",
    "flip27_stream.testing",
    "offsets",
    "watermark_alignment",
)


@pytest.mark.docs
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [*sphinx, "-d", str(tmp_path / "doctrees"), "docs", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert built.stderr == ""
    assert built.returncode == 0
    reference = {page.name: page.read_text() for page in (tmp_path / "site" / "reference").glob("*.html")}
    assert 'id="flip27_stream.api.SplitEnumerator"' in reference["api.html"]
    # In the text of "Returns:", or the first line of a property, Sphinx takes what is before a colon for a type.
    assert [name for name, page in reference.items() if re.search(">(Return type|Type)<", page)] == []


def documented() -> dict[str, list[str]]:
    """Returns the names that the pages of the reference have, by module."""
    names: dict[str, list[str]] = {}
    for page in sorted(REFERENCE.glob("*.rst")):
        module = ""
        for directive, name in re.findall(r"^\.\. ([a-z:]+):: (\S+)$", page.read_text(), re.MULTILINE):
            if directive in ("automodule", "module"):
                module = name
                names[module] = []
            elif directive.startswith(("auto", "py:")):
                names[module].append(name)
    return names


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_exported_name_once(module: str) -> None:
    assert sorted(documented()[module]) == sorted(importlib.import_module(module).__all__)


def test_the_reference_has_the_entry_points_and_the_errors() -> None:
    """A name of the package has an entry on its page, or is named there and has one on another page."""
    pages = documented()
    here = [name for name in pages.pop("flip27_stream") if "." not in name]
    elsewhere = set(flip27_stream.__all__) & {name for names in pages.values() for name in names}
    assert sorted([*here, *elsewhere]) == sorted(flip27_stream.__all__)
    page = (REFERENCE / "flip27_stream.rst").read_text()
    assert [name for name in elsewhere if f"``{name}``" not in page] == []
    assert "flip27_stream.errors" in pages
