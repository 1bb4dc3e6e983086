"""Modules that a task imports. Spark starts a new Python process where no worker is idle, and a query waits for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.testing import KafkaBroker

_READ = """
import sys

from benchmarks.support.coordinators import kafka_spec
from flip27_stream.spark.execution.task import read_task
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from offsets import INITIAL

servers, topic, *table = sys.argv[1:]
spec = kafka_spec(servers, topic, table[0] if table else None)
coordinator = SourceCoordinator(spec)
start, read = dict(INITIAL), 0
while read < 6:
    end = coordinator.latest_offset(start, None)
    read += sum(batch.num_rows for task in coordinator.tasks(start, end) for batch in read_task(spec, task))
    start = end
coordinator.close()
print(read, "pandas" in sys.modules)
"""


@pytest.mark.jvm
@pytest.mark.parametrize("values", [[b"same"] * 6, [b"", None, b"a", b"bc", b"def", b"ghij"]])
@pytest.mark.parametrize("aligned", [True, False])
def test_a_task_that_reads_whole_rows_does_not_import_pandas(
    broker: KafkaBroker,
    topic: Callable[..., str],
    tmp_path: Path,
    values: list[bytes | None],
    aligned: bool,
) -> None:
    """PyArrow imports pandas when NumPy arrays become a column, which takes half a second of each process."""
    name = topic()
    broker.write(name, [(0, 1_700_000_000_000 + n, b"key", value) for n, value in enumerate(values)])
    table = [str(tmp_path / "table")] if aligned else []
    done = subprocess.run(
        [sys.executable, "-c", _READ, broker.bootstrap_servers, name, *table],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "6 False\n", done.stderr
