"""A Python whose encoding for names of files is not UTF-8, as a locale can demand. Arrow takes UTF-8 for them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from flip27_stream import FileSource
from flip27_stream.testing.source_query import SourceQuery

ROOT = Path(__file__).parents[4]
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

READ = """
import sys

from flip27_stream import FileSource
from flip27_stream.errors import ConnectorError
from flip27_stream.testing.source_query import SourceQuery

path = bytes.fromhex(sys.argv[1]).decode()
with SourceQuery(FileSource({"path": path, "files.format": "text"})) as query:
    try:
        print(sorted(row["value"] for row in query.run(1)))
    except ConnectorError as error:
        print(ascii(str(error)))
"""

READ_TASK = """
import pickle
import sys
from pathlib import Path

from flip27_stream.reader.drive import read_ranges
from flip27_stream.spark.execution.task import TaskContext
from flip27_stream.testing.task_rows import TaskRows

source, task = pickle.loads(Path(sys.argv[1]).read_bytes())
output = TaskRows(source.schema, task)
for _ in read_ranges(source, TaskContext(0), task, output):
    pass
print([row["value"] for row in output.rows])
"""


def printed(program: str, argument: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", program, argument]
    run = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def read(path: Path, environment: dict[str, str]) -> str:
    return printed(READ, str(path).encode().hex(), environment)


def folder(tmp_path: Path) -> Path:
    made = tmp_path / "logs"
    made.mkdir()
    (made / "straße.txt").write_text("one")
    (made / "plain.txt").write_text("two")
    return made


@pytest.mark.parametrize("name", ["", "straß*"])
def test_a_path_that_this_python_cannot_use_is_an_error_with_the_remedy(tmp_path: Path, name: str) -> None:
    """A folder that has such a file, and a glob that is such a path."""
    path = folder(tmp_path) / name
    message = read(path, ASCII)
    assert "is not ASCII, and this Python has the encoding 'ascii' for names of files." in message
    assert "PYTHONUTF8=1" in message
    assert "'one'" in read(path, ASCII | {"PYTHONUTF8": "1"})


def test_files_that_are_not_wanted_can_have_any_name(tmp_path: Path) -> None:
    assert read(folder(tmp_path) / "p*", ASCII) == "['two']"


def test_a_task_reads_the_file_whatever_the_encoding_of_its_python(tmp_path: Path) -> None:
    """The executors can have another locale than the driver."""
    source = FileSource({"path": str(folder(tmp_path) / "straße.txt"), "files.format": "text"})
    assert source.schema.names == ["value"]  # Found on the driver, it goes to the executors with the source.
    with SourceQuery(source) as query:
        (task,) = query.tasks(*query.wait_for_batch())
    (tmp_path / "task").write_bytes(pickle.dumps((source, task)))
    assert printed(READ_TASK, str(tmp_path / "task"), ASCII) == "['one']"
