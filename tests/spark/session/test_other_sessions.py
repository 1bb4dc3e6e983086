"""The formats run through Spark Connect, and on executors that are separate processes. A stopped session is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flip27_stream.testing import KafkaBroker
from tests.spark.support.kafka_queries import MINUTE, T0, records
from tests.spark.support.processes import quick_start
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

pytestmark = pytest.mark.jvm

SEEN_BY_EXECUTORS = {"SPARK_SCALA_VERSION": "2.13", "PYTHONPATH": str(Path(__file__).parents[3])}

STOPPED = """
import flip27_stream
from flip27_stream.testing import local_session

former = local_session("former", delta=False)
former.stop()
for began_again in (False, True):
    if began_again:
        flip27_stream.register(local_session("next", delta=False))
    try:
        flip27_stream.register(former)
    except ValueError as error:
        print(error)
"""


@pytest.mark.parametrize("master", ["remote:local[2]", "local-cluster[2,1,1024]"])
def test_the_formats_register_and_run(
    broker: KafkaBroker, topic: Callable[..., str], tmp_path: Path, master: str
) -> None:
    name = topic(partitions=2)
    broker.write(
        name, [r for p in range(2) for r in records(p, [T0 + n * MINUTE for n in range(20 * (p + 1))])]
    )
    (tmp_path / "logs").mkdir()
    for file in ("a.log", "b.log"):
        (tmp_path / "logs" / file).write_text("".join(f"{T0 + n} text\n" for n in range(50)))

    arguments = [master, str(tmp_path), broker.bootstrap_servers, name]
    command = [sys.executable, "-m", "tests.spark.support.programs.other_session", *arguments]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.run(
            command, stdout=log, stderr=log, env=os.environ | quick_start() | SEEN_BY_EXECUTORS, timeout=300
        )

    assert run.returncode == 0, (tmp_path / "log").read_text()[-4000:]
    result = json.loads((tmp_path / "result").read_text())
    lines = result.pop("lines")
    assert result == {"flip27_kafka": 60, "flip27_files": 100, "log_folder": 100}
    assert any(f"{name}: 2 of 2 splits read" in line for line in lines), lines
    recorded = SplitWatermarkTable(str(tmp_path / "split_watermarks"), {}).rows()
    assert sum(recorded["rows"].to_pylist()) == 60


def test_a_stopped_session_is_refused_also_while_another_one_runs() -> None:
    """Its Spark was stopped, and then another one was started in the same process."""
    command = [sys.executable, "-c", STOPPED]
    environment = os.environ | quick_start() | SEEN_BY_EXECUTORS
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("The Spark session that register() was given is stopped.") for line in lines)
