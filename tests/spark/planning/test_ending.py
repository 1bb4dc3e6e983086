"""A planning process that ends. Without a JVM: a process takes its place, and signals come from the test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flip27_stream.testing import wait_until
from tests.spark.support.processes import alive
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

PLANNER = """
import os, signal, sys
from pathlib import Path
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.spark.support.driven_query import Query
from tests.spark.support.memory_source import World

reader = Flip27StreamReader(Query(World({"0": [1]}), Path(sys.argv[1])).spec)
reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
"""

STOPPED = f"""{PLANNER}
try:
    raise EOFError
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    reader.stop()
"""

ORPHAN = f"""{PLANNER}
print(os.getpid(), flush=True)
sys.stdin.read()
reader.stop()
"""

SPARK = """
import os, subprocess, sys
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
planner = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], **pipes)
print(planner.stdout.readline().decode(), flush=True)
os._exit(0)
"""


def last_entry(table: Path) -> Entry:
    return GroupLog(SplitWatermarkTable(str(table), {}), "g", horizon_ms=60_000).news()[-1][1]


def test_a_signal_just_before_stop_does_not_keep_the_source_in_its_group(tmp_path: Path) -> None:
    """Fact 2: Spark closes the socket, which ends its loop in the process, and sends SIGTERM at about that time."""
    ended = subprocess.run([sys.executable, "-c", STOPPED, str(tmp_path)], timeout=60, capture_output=True)
    assert ended.returncode >= 0, ended.stderr.decode()
    assert last_entry(tmp_path).left


def test_a_source_whose_spark_has_died_does_not_leave_its_group(tmp_path: Path) -> None:
    """AL-20: it was not stopped, so the others wait for its restart as long as after any other death."""
    command = [sys.executable, "-c", SPARK, ORPHAN, str(tmp_path)]
    planner = int(subprocess.run(command, timeout=60, stdout=subprocess.PIPE, check=True).stdout)
    wait_until(lambda: not alive(planner), "the end of the planning process", 60)
    assert not last_entry(tmp_path).left
