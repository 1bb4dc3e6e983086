"""The packages run in a Python whose OpenSSL allows only what FIPS 140 approves of, such as that of Red Hat."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APPROVED = {"sha224", "sha256", "sha384", "sha512"}
DIGESTS = {*APPROVED, "blake2b", "blake2s", "md5", "sha1", "new"}
FIXED_BY_THE_FORMAT = {"flip27_stream/connectors/kafka/tls/jks_store.py"}
"""Modules that need another digest: a Java key store is checked by SHA-1, whatever reads it."""


def digests(path: Path) -> Iterator[tuple[str, bool]]:
    """Yields the digests that a module makes, and whether it says that they are not used for security."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            owner = getattr(getattr(node.func, "value", None), "id", "hashlib")
            if name in DIGESTS and owner == "hashlib":
                said = [k.value for k in node.keywords if k.arg == "usedforsecurity"]
                yield name, bool(said) and isinstance(said[0], ast.Constant) and said[0].value is False


def modules() -> Iterator[Path]:
    """Yields the modules of the packages."""
    for package in ("flip27_stream", "offsets", "watermark_alignment"):
        yield from (ROOT / package).rglob("*.py")


def has_handshake(source: str) -> bool:
    """Returns whether a module uses a part of ``multiprocessing`` that makes the handshake between processes."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            words.update(*(name.split(".") for name in names))
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
    return "multiprocessing" in words and bool(words & {"connection", "managers", "Manager"})


def test_digests_are_approved_or_marked_as_not_for_security() -> None:
    """Digests are approved by FIPS 140 or marked with ``usedforsecurity=False``, since a host in FIPS mode refuses
    others. Ids and marks of files need no security.
    """
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in modules()
        for name, harmless in digests(path)
        if name not in APPROVED and not harmless
    }
    assert {path for path, _ in found} <= FIXED_BY_THE_FORMAT


def test_no_module_uses_the_handshake_of_multiprocessing() -> None:
    """No module uses ``multiprocessing.connection``, whose handshake is made of MD5 up to Python 3.11, or a manager,
    which uses it.
    """
    users = [str(path.relative_to(ROOT)) for path in modules() if has_handshake(path.read_text())]
    assert users == []


@pytest.mark.parametrize(
    "source",
    [
        "import multiprocessing.connection",
        "from multiprocessing.connection import Listener",
        "from multiprocessing import connection",
        "from multiprocessing import Manager",
        "import multiprocessing.managers as m",
        "import multiprocessing\nmultiprocessing.Manager()",
        "import multiprocessing as m\nm.get_context('spawn').Manager()",
    ],
)
def test_each_way_to_the_handshake_is_found(source: str) -> None:
    assert has_handshake(source)
