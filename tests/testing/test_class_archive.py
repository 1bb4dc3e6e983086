"""Tests of archives of Java's classes, with a real Java."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from flip27_stream.testing.class_archive import ClassArchive
from flip27_stream.testing.java import java

pytestmark = pytest.mark.jvm

LOADED = ("-Xlog:class+load", "-version")


def test_a_later_java_takes_classes_from_the_archive(tmp_path: Path) -> None:
    archive = ClassArchive.beside([tmp_path / "any.jar"])
    assert archive.options == []
    archive.make(lambda options: subprocess.run([java(), *options, "-version"], check=True))
    done = subprocess.run(
        [java(), *archive.options, "-Xshare:on", *LOADED], check=True, capture_output=True, text=True
    )
    assert "shared objects file (top)" in done.stdout
    archive.make(lambda _: pytest.fail("the archive exists"))


def test_a_damaged_archive_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "classes.jsa"
    path.write_bytes(b"no archive")
    done = subprocess.run([java(), *ClassArchive(path).options, "-version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_an_archive_that_was_not_written_does_not_appear(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "classes.jsa")

    def fail(options: Sequence[str]) -> None:
        Path(options[0].partition("=")[2]).write_bytes(b"a part")
        raise ZeroDivisionError

    archive.make(lambda options: None)
    with pytest.raises(ZeroDivisionError):
        archive.make(fail)
    assert list(tmp_path.iterdir()) == []
