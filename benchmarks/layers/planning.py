"""The layers of the planning process: the planner in columns, the reports of tasks."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.connection import Client, Listener

from benchmarks.layers.pair import compared, times
from benchmarks.planning.cpu import OPTIONS, ROWS, SteadyLogs, cpu_seconds
from benchmarks.support.backlog import START_MS
from benchmarks.support.environment import Environment
from benchmarks.support.results import Result
from benchmarks.support.turns import pairs
from flip27_stream.spark.reporting.report_listener import ReportListener
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from watermark_alignment.planner import Plan, SplitView, plan
from watermark_alignment.split_columns import SplitColumns, plan_in_columns

_REPORT = TaskReport(0, 0, 0, "worker", (SplitReport("a", 0, 9, 9, START_MS),))
_REPORTS = 50


def measure(environment: Environment) -> Iterator[Result]:
    splits = environment.sizes.splits
    yield _planner(environment, "keeping up", None)
    yield _planner(environment, "behind", splits * ROWS // 2)
    yield _reports(environment)


def _planner(environment: Environment, name: str, limit: int | None) -> Result:
    """Measures the CPU time of a plan from rows, by the rule as it is written and by its form in columns."""
    logs = SteadyLogs(environment.sizes.splits)
    views = sorted(logs.views(), key=lambda view: view.id)
    ids = [v.id for v in views]
    rows = [(v.position, v.end, v.read_max, v.next, v.reach, v.quiet_since, v.final) for v in views]

    def beside() -> Plan:
        split_by_split = [SplitView(split, *row) for split, row in zip(ids, rows, strict=True)]
        return plan(split_by_split, logs.at, limit=limit, **OPTIONS)

    def ours() -> Plan:
        columns = SplitColumns.of_rows(ids, rows)
        assert columns is not None
        return plan_in_columns(columns, logs.at, limit=limit, **OPTIONS)

    taken = pairs(
        lambda: cpu_seconds(logs, beside)[0],
        lambda: cpu_seconds(logs, ours)[0],
        environment.sizes.pairs,
        environment.sizes.warm_up,
    )
    return times(f"CPU of a plan of {len(ids):,} splits, {name}, in columns beside split by split", taken)


def _reports(environment: Environment) -> Result:
    """Measures authenticated reports of tasks, each over a connection of its own."""
    with (
        closing(ReportListener("127.0.0.1", "127.0.0.1")) as channel,
        Listener(("127.0.0.1", 0), authkey=b"key", backlog=16) as listener,
    ):
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()

        def beside() -> int:
            for _ in range(_REPORTS):
                with Client(listener.address, authkey=b"key") as connection:
                    connection.send(_REPORT)
                    connection.recv()
            return _REPORTS

        def ours() -> int:
            return sum(send_report(channel.address, _REPORT) for _ in range(_REPORTS))

        taken = compared(environment, _REPORTS, beside, ours)
    return times(f"{_REPORTS} reports of tasks, beside multiprocessing", taken)


def _accept(listener: Listener) -> None:
    with contextlib.suppress(OSError):  # raised when the listener is closed
        while True:
            with listener.accept() as connection:
                connection.send(connection.recv() is not None)
