"""Measures what very many tasks, members and splits cost one driver.

They are simulated on one machine without Spark and a broker.

Reports: 1,000 tasks in a process of their own report what they read of 10 splits each, within a second and all at
once. Members: 1,000 members publish into the log of a group, and one member reads them all. Table: 10,000 splits
write their rows batch after batch, with maintenance. Rows are recorded a minute apart by the simulated clock, so that
10,080 batches are a week. CPU and memory are those of this process.

``python -m benchmarks.planning.scale [--tasks 1000] [--members 1000] [--splits 10000] [--batches 10080]``
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.support.backlog import START_MS
from benchmarks.support.folders import temporary_folder
from flip27_stream.spark.reporting.report_channel import ReportAddress
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.maintenance import Maintenance
from watermark_alignment.table.split_rows import columns_of
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

_SPLITS_OF_A_TASK = 10
_MINUTE_MS = 60_000
_GROUP = "scale"
_SENDERS = 250  # threads; a task that is refused waits and tries again, so this many are connected at a time
_WAIT_S = 60.0


class Cost:
    """The CPU and wall time (s) of a block, and the growth (MB) of the peak of this process's memory in it."""

    def __enter__(self) -> Cost:
        self._began = time.perf_counter(), time.process_time(), _peak_mb()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu, peak = self._began
        self.wall, self.cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.grown = _peak_mb() - peak

    def __str__(self) -> str:
        return f"{self.wall:8.2f} s wall {self.cpu:8.2f} s CPU {self.grown:+7.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.planning.scale",
        description="Measures what very many tasks, members and splits cost one driver.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--tasks", type=int, default=1000, help="tasks that report on 10 splits each")
    parser.add_argument("--members", type=int, default=1000, help="members of a group that publish")
    parser.add_argument("--splits", type=int, default=10_000, help="splits that write rows into the table")
    parser.add_argument("--batches", type=int, default=10_080, help="batches of rows; the default is a week")
    asked = parser.parse_args()
    for within_s in (1.0, 0.0):
        print(reports(asked.tasks, within_s), flush=True)
    with temporary_folder() as folder:
        for line in members(Path(folder), asked.members):
            print(line, flush=True)
    with temporary_folder() as folder:
        for line in table(Path(folder), asked.splits, asked.batches):
            print(line, flush=True)


# ---- reports --------------------------------------------------------------------------------------------------------


def reports(tasks: int, within_s: float) -> str:
    """Returns the costs of receiving the reports of ``tasks`` tasks that end within ``within_s`` seconds."""
    listener = ReportListener("127.0.0.1", "127.0.0.1")
    spawn = multiprocessing.get_context("spawn")
    refused = spawn.Value("i", -1)
    sender = spawn.Process(target=_send, args=(listener.address, tasks, within_s, refused), daemon=True)
    sender.start()
    taken: set[int] = set()
    with Cost() as cost:
        sender.join(_WAIT_S)
        taken.update(report.task for report in listener.take())
    listener.close()
    how = f"within {within_s:g} s" if within_s else "at once"
    return f"{tasks:,} tasks report {how}: {len(taken):,} taken, {refused.value} undelivered {cost}"


def _send(address: ReportAddress, tasks: int, within_s: float, refused: object) -> None:
    start = threading.Event()

    def one(task: int) -> bool:
        start.wait(_WAIT_S)
        time.sleep(within_s * task / tasks)
        read = [
            SplitReport(f"topic-{_SPLITS_OF_A_TASK * task + n}", 0, 1000, 1000, START_MS + 1000)
            for n in range(_SPLITS_OF_A_TASK)
        ]
        return send_report(address, TaskReport(0, task, task, splits=read))

    with ThreadPoolExecutor(max(_SENDERS, 1)) as pool:
        sent = pool.map(one, range(tasks))
        start.set()
        refused.value = list(sent).count(False)  # type: ignore[attr-defined]


# ---- members --------------------------------------------------------------------------------------------------------


def members(folder: Path, count: int) -> list[str]:
    """Returns the costs of a round of entries of ``count`` members, for the writers and for a member that reads it."""
    SplitWatermarkTable(str(folder), {}).open()
    writer = GroupLog(SplitWatermarkTable(str(folder), {}), _GROUP, _MINUTE_MS)
    reader = GroupLog(SplitWatermarkTable(str(folder), {}), _GROUP, _MINUTE_MS)
    reader.new_entries()
    maintenance = Maintenance(SplitWatermarkTable(str(folder), {}))
    with Cost() as writing:
        for number in range(count):
            maintenance.committed(writer.publish(_entry(number)))
    with Cost() as reading:
        found = len(reader.new_entries())
    return [
        f"{count:,} members publish once, one after the other: {writing}",
        f"one member reads {found:,} entries: {reading}",
        f"so a log takes {count / writing.wall:.0f} commits a second here; members publish at least every 15 s",
    ]


def _entry(number: int) -> Entry:
    return Entry(
        group=_GROUP,
        source=f"source-{number}",
        lineage=str(number),
        run=str(number),
        began=0,
        definition=str(number),
        where=f"member {number}",
        timeout_ms=_MINUTE_MS,
        watermark=START_MS,
    )


# ---- the table ------------------------------------------------------------------------------------------------------


def table(folder: Path, splits: int, batches: int) -> list[str]:
    """Returns the costs of the rows of ``splits`` splits for the process that writes them, batch after batch."""
    clock = [START_MS]
    handle = SplitWatermarkTable(str(folder), {})
    maintenance = Maintenance(handle, clock=lambda: clock[0])
    handle.open()
    commits: list[float] = []
    rounds: list[float] = []
    with Cost() as cost:
        for batch in range(batches):
            clock[0] = START_MS + batch * _MINUTE_MS
            commits.append(_cpu(partial(_commit, handle, splits, batch, clock[0])))
            rounds.append(_cpu(partial(maintenance.committed, handle.delta.version())))
    due = [seconds for seconds in rounds if seconds > 0.001] or [0.0]
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    tenth = max(1, batches // 10)
    before, after = statistics.median(commits[:tenth]), statistics.median(commits[-tenth:])
    return [
        f"{batches:,} batches of {splits:,} rows: {cost}",
        f"CPU of a commit: {1000 * before:.0f} ms in the first tenth, {1000 * after:.0f} ms in the last",
        f"CPU of maintenance: {len(due)} rounds, {sum(due):.1f} s together, {max(due):.2f} s the longest",
        f"on disk: {size / 1e6:,.0f} MB, {1000 * size / max(batches * splits, 1):,.0f} bytes per 1,000 rows",
    ]


def _commit(handle: SplitWatermarkTable, splits: int, batch: int, now: int) -> None:
    handle.append("scale", batch, _rows(splits, batch, now), {"watermark": str(now)})


def _rows(splits: int, batch: int, now: int) -> pa.Table:
    start, end = str(1000 * batch), str(1000 * (batch + 1))
    return columns_of(
        _GROUP,
        "source",
        batch,
        now,
        split=[f"topic-{number}" for number in range(splits)],
        start_position=[start] * splits,
        end_position=[end] * splits,
        rows=[1000] * splits,
        watermark=now - np.arange(splits) % 1000,
        max_event_time=np.full(splits, now),
        status=["ACTIVE"] * splits,
        drift_ms=np.arange(splits) % 1000,
    )


def _cpu(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
