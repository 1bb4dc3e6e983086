"""A planning process that is ended by Spark. No JVM: its signal, from itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

PLANNER = """
import os, signal, sys
from pathlib import Path
from flip27_stream.spark.planning.stream_reader import Flip27StreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows
from tests.spark.support.driven_query import Query
from tests.spark.support.memory_source import World

reader = Flip27StreamReader(Query(World({"0": [1]}), Path(sys.argv[1])).spec)
try:
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    raise EOFError
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    reader.stop()
"""


def test_a_signal_just_before_stop_does_not_keep_the_source_in_its_group(tmp_path: Path) -> None:
    """Fact 2: Spark closes the socket, which ends its loop in the process, and sends SIGTERM at about that time."""
    ended = subprocess.run([sys.executable, "-c", PLANNER, str(tmp_path)], timeout=60, capture_output=True)
    assert ended.returncode >= 0, ended.stderr.decode()
    told = GroupLog(SplitWatermarkTable(str(tmp_path), {}), "g", horizon_ms=60_000).news()
    assert told[-1][1].left, told
