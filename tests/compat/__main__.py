"""Runs the compatibility tests on each pair of Spark and Python, and prints a table of the results.

``python -m tests.compat [SPARK/PYTHON ...]`` takes pairs such as ``4.3.0/3.13``, by default all pairs. Each pair has
an environment in ``.compat``, which is made if it is missing, with the packages of ``requirements.lock``. The
interpreters are ``python3.10`` and so on in ``PATH``; Java is that of ``JAVA_HOME`` or ``PATH``. The exit code is 1
if a test failed or a pair could not be run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from flip27_stream.testing.java import java
from tests.compat.pairs import HEAD, PAIRS, TESTS, Pair, results, table

ROOT = Path(__file__).parents[2]
_ENVIRONMENTS = ROOT / ".compat"
_OF_SPARK = re.compile(r"(pyspark|delta-spark)\b")


def main(wanted: list[str]) -> int:
    unknown = set(wanted) - {str(pair) for pair in PAIRS}
    if unknown:
        print(
            f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(map(str, PAIRS))}", file=sys.stderr
        )
        return 2
    rows = [_row(pair) for pair in PAIRS if not wanted or str(pair) in wanted]
    print("\n".join(table(rows)))
    return int(any(not row[column].endswith("passed") for row in rows for column in TESTS))


def _row(pair: Pair) -> dict[str, str]:
    row = dict.fromkeys(HEAD, "not run") | {
        "Spark": pair.spark,
        "Python": pair.python,
        "Java": _java_version(),
    }
    try:
        return row | _run(_environment(pair))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{pair}: {error}", file=sys.stderr)
        return row


def _run(python: Path) -> dict[str, str]:
    """Runs the tests with a Python interpreter and returns the cell of each column.

    Pytest's output goes to the standard error.
    """
    tests = [test for names in TESTS.values() for test in names]
    with tempfile.TemporaryDirectory(dir=_ENVIRONMENTS) as folder:
        report = Path(folder, "report.xml")
        command = [
            str(python),
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junit-xml={report}",
            *tests,
        ]
        settings = {"FLIP27_JARS": str(ROOT / ".jars")}
        done = subprocess.run(command, cwd=ROOT, env=os.environ | settings, stdout=sys.stderr)
        if not report.is_file():
            raise OSError(f"pytest ended with {done.returncode} and without a report")
        return results(report.read_text())


def _environment(pair: Pair) -> Path:
    """Returns the Python interpreter of a pair's virtual environment, which is made first if it is not complete."""
    home = _ENVIRONMENTS / f"spark-{pair.spark}-python-{pair.python}"
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        found = shutil.which(f"python{pair.python}")
        if found is None:
            raise OSError(f"python{pair.python} is not in PATH")
        subprocess.run([found, "-m", "venv", "--clear", str(home)], check=True)
        _install(python, home / "requirements.txt", pair)
        ready.touch()
    return python


def _install(python: Path, requirements: Path, pair: Pair) -> None:
    locked = (ROOT / "requirements.lock").read_text().splitlines(keepends=True)
    lines = [line for line in locked if not _OF_SPARK.match(line)]
    requirements.write_text("".join([*lines, f"pyspark=={pair.spark}\n"]))
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for arguments in (
        ["-r", str(requirements)],
        ["--no-build-isolation", "--no-deps", "--editable", str(ROOT)],
    ):
        subprocess.run([*pip, *arguments], check=True, stdout=sys.stderr)


def _java_version() -> str:
    said = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', said)
    return version[1] if version else "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
