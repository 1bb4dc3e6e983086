"""SX-08 on a real Spark: a worker and an executor are killed (SIGKILL) in the middle of a task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.support.kafka_queries import committed_files
from tests.spark.support.processes import quick_start
from tests.spark.support.programs.killed_reader import EXECUTOR, WORKER

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000
EACH = 500


def test_other_processes_read_the_very_same_rows(tmp_path: Path) -> None:
    """Spark runs the task of a killed process again in another process. Each row comes exactly once, and the query
    does not fail.

    The reader of one file loses its worker. The reader of the other file loses its executor and the worker in it.
    """
    (tmp_path / "logs").mkdir()
    for victim in (EXECUTOR, WORKER):
        (tmp_path / "logs" / f"{victim}.log").write_text("".join(f"{NOON + n} text\n" for n in range(EACH)))
    command = [sys.executable, "-m", "tests.spark.support.programs.killed_reader", str(tmp_path)]
    environment = os.environ | quick_start() | {"SPARK_SCALA_VERSION": "2.13"}
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.run(command, stdout=log, stderr=log, env=environment, timeout=300)
    assert run.returncode == 0, (tmp_path / "log").read_text()[-4000:]
    assert {path.name for path in tmp_path.glob("* killed")} == {f"{EXECUTOR} killed", f"{WORKER} killed"}
    rows = [
        row
        for path in committed_files(tmp_path / "output")
        for row in pq.ParquetFile(path).read().to_pylist()
    ]
    assert sorted((row["file"], row["number"]) for row in rows) == [
        (f"{victim}.log", n) for victim in (EXECUTOR, WORKER) for n in range(EACH)
    ]
