"""How a planning process ends, and whether its source leaves the group. Python processes stand for Spark's. No
JVM.
"""

from __future__ import annotations

import signal
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
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import MemoryWorld

reader = Flip27StreamReader(DrivenQuery(MemoryWorld({"0": [1]}), Path(sys.argv[1])).spec)
reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
"""

STOPPED = f"""{PLANNER}
from watermark_alignment.group.membership import Membership

Membership.leave.__defaults__ = (60.0,)  # a commit may take long on a busy machine
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

HANGING = f"""{PLANNER}
import threading
from flip27_stream.spark.planning import stream_reader

stream_reader._END_S = 1
reader._coordinator.close = threading.Event().wait
os.kill(os.getpid(), signal.SIGTERM)
"""

SWALLOWED = f"""{PLANNER}
from flip27_stream.connectors.kafka.kafka_python.event_loop import NetworkSelector

def plan(start, limit):
    loop = NetworkSelector()
    loop.call_soon_with_future(lambda: os.kill(os.getpid(), signal.SIGTERM))
    loop.poll(timeout_ms=100)
    print("the plan goes on", flush=True)
    return start

reader._coordinator.latest_offset = plan
reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
print("Spark gets the plan", flush=True)
"""

TWO_SIGNALS = """
import os, signal, sys
from flip27_stream.spark.planning import stream_reader

def interrupted(frame, event, argument):
    global left
    if event == "line":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
    return interrupted

def first_signal():
    signal.alarm(10)
    signal.signal(signal.SIGTERM, stream_reader._stop_once)
    sys.settrace(interrupted)
    os.kill(os.getpid(), signal.SIGTERM)

line = 0
while True:
    left = line = line + 1
    child = os.fork()
    if child == 0:
        try:
            first_signal()
        except SystemExit:
            sys.settrace(None)
            os._exit(100 if left > 0 else 0)
        os._exit(1)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if ended == 100:
        break
    assert ended == 0, (line, ended)
print(line)
"""


def last_entry(table: Path) -> Entry:
    return GroupLog(SplitWatermarkTable(str(table), {}), "g", horizon_ms=60_000).new_entries()[-1][1]


def test_a_signal_just_before_stop_does_not_keep_the_source_in_its_group(tmp_path: Path) -> None:
    """Fact 2: a source leaves its group although SIGTERM comes just before ``stop()``. Spark closes the socket, which
    ends its loop in the process, and sends SIGTERM at about that time.
    """
    ended = subprocess.run([sys.executable, "-c", STOPPED, str(tmp_path)], timeout=150, capture_output=True)
    assert ended.returncode >= 0, ended.stderr.decode()
    assert last_entry(tmp_path).left


def test_a_signal_while_the_event_loop_of_kafka_runs_ends_the_process(tmp_path: Path) -> None:
    """Fact 2: kafka-python keeps all exceptions of its tasks, also that of the signal. The plan ends the process, and
    the source leaves its group.
    """
    ended = subprocess.run([sys.executable, "-c", SWALLOWED, str(tmp_path)], timeout=150, capture_output=True)
    assert (ended.returncode, ended.stdout) == (0, b"the plan goes on\n"), ended.stderr.decode()
    assert last_entry(tmp_path).left


def test_a_second_signal_does_not_interrupt_the_handling_of_the_first() -> None:
    """Fact 2: a second SIGTERM at any line of the handler of the first one does not prevent the normal end of the
    process. Spark sends SIGTERM twice. SIGALRM, which is exit code -14, ends a process that waits for a lock of its
    own.
    """
    ended = subprocess.run([sys.executable, "-c", TWO_SIGNALS], timeout=120, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()
    assert int(ended.stdout) > 3


def test_a_process_that_was_told_to_end_and_cannot_close_its_source_is_ended(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING, str(tmp_path)], timeout=150, capture_output=True)
    assert ended.returncode == -signal.SIGALRM, ended.stderr.decode()


def test_a_source_whose_spark_has_died_does_not_leave_its_group(tmp_path: Path) -> None:
    """AL-20: a source whose Spark process has died does not leave its group. It was not stopped, so the others wait
    for its restart as long as after any other death.
    """
    command = [sys.executable, "-c", SPARK, ORPHAN, str(tmp_path)]
    planner = int(subprocess.run(command, timeout=100, stdout=subprocess.PIPE, check=True).stdout)
    wait_until(lambda: not alive(planner), "the end of the planning process", 60)
    assert not last_entry(tmp_path).left
