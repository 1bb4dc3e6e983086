"""The commands on ``docs/performance.md`` give Spark's archive of Python code the byte code that it lacks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """A home of Spark with an archive of one package that has only source code, as in Spark's releases."""
    lib = tmp_path / "python" / "lib"
    lib.mkdir(parents=True)
    with zipfile.ZipFile(lib / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "print(__file__)\n")
        archive.writestr("pyspark/sql/__init__.py", "print(__file__)\n")
    return tmp_path


def _imported(spark_home: Path) -> list[str]:
    """Imports ``pyspark.sql`` from the archive, and returns the files in the archive that Python loaded for it."""
    archive = spark_home / "python" / "lib" / "pyspark.zip"
    done = subprocess.run(
        [sys.executable, "-c", "import pyspark.sql"],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(line).relative_to(archive).as_posix() for line in done.stdout.splitlines()]


def test_the_commands_add_byte_code_to_the_archive_of_spark(spark_home: Path) -> None:
    (commands,) = re.findall(r"```sh\n(cd [^`]*compileall[^`]*)```", PAGE)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "SPARK_HOME": str(spark_home), "PATH": path}
    assert _imported(spark_home) == ["pyspark/__init__.py", "pyspark/sql/__init__.py"]

    subprocess.run(["sh", "-e", "-c", commands], env=environment, check=True, stdout=subprocess.DEVNULL)

    assert _imported(spark_home) == ["pyspark/__init__.pyc", "pyspark/sql/__init__.pyc"]
    assert [entry.name for entry in (spark_home / "python" / "lib").iterdir()] == ["pyspark.zip"]


def test_byte_code_of_another_python_is_passed_over(spark_home: Path) -> None:
    archive = spark_home / "python" / "lib" / "pyspark.zip"
    with zipfile.ZipFile(archive, "a") as added:
        added.writestr("pyspark/__init__.pyc", b"\0\0\r\n" + bytes(40))
        added.writestr("pyspark/sql/__init__.pyc", b"\0\0\r\n" + bytes(40))
    assert _imported(spark_home) == ["pyspark/__init__.py", "pyspark/sql/__init__.py"]
