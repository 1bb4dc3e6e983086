"""Measures our own CPU time of planning very many splits.

A simulated log answers instead of a broker, and the time of its answers is not counted.

It measures the planner alone, over views and in columns; then the coordinator's whole plan (offset in, offset out,
positions, probes), unaligned and aligned, with the reports of tasks, with compressed records, with a limit that cuts
record batches, with a backlog, and with ten times as many splits.
``python -m benchmarks.planning.cpu``
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest.mock import patch

from benchmarks.support.backlog import START_MS
from benchmarks.support.command import run
from benchmarks.support.coordinators import kafka_coordinator
from benchmarks.support.environment import Environment
from benchmarks.support.folders import temporary_folder
from benchmarks.support.results import Result, at_most
from benchmarks.support.simulated_cluster import SimulatedTopic
from flip27_stream.connectors.kafka.planning import enumerator
from flip27_stream.spark.execution.task import SplitTask
from flip27_stream.spark.reporting.report_sender import send_report
from flip27_stream.spark.reporting.reports import SplitReport, TaskReport
from flip27_stream.testing.kafka.bulk import Codec
from offsets import INITIAL
from watermark_alignment.planner import Plan, SplitView, plan
from watermark_alignment.split_columns import SplitColumns, plan_in_columns

_WARM_UP = 2
ROWS = 10
_BACKLOG = 100_000
_STEP_MS = 1000
OPTIONS: dict[str, Any] = {
    "max_drift": 300_000,
    "out_of_orderness": 0,
    "idle_timeout": 60_000,
    "now": START_MS,
    "floor": None,
}


_TARGETS_MS = {1: 150, 10: 2000}  # key: the number of splits as a multiple of the environment's number
_PLANNER_MS = 100


def measure(environment: Environment) -> Iterator[Result]:
    splits, rounds = environment.sizes.splits, environment.sizes.pairs
    for name, limit in (("keeping up", None), ("behind", splits * ROWS // 2)):
        for form, planner in (("the rule as it is written", _by_rule), ("the rule in columns", _in_columns)):
            seconds = _planner(splits, rounds, limit, planner)
            yield _result(splits, f"{form}, {name}", seconds, _PLANNER_MS)
    yield _result(splits, "unaligned", _coordinator(splits, rounds, None), _TARGETS_MS[1])
    with temporary_folder() as table:
        seconds = _coordinator(splits, rounds, table, with_reports=True)
    yield _result(splits, "aligned, tasks report on each", seconds, _TARGETS_MS[1])
    with temporary_folder() as table:
        seconds = _coordinator(splits, rounds, table, compression="lz4")
    yield _result(splits, "aligned, compressed by lz4", seconds)
    for name, backlog in (
        ("half of the rows fit the limit", 0),
        (f"behind by {_BACKLOG:,} rows, limited", _BACKLOG),
    ):
        with temporary_folder() as table:
            seconds = _coordinator(splits, rounds, table, limit=splits * ROWS // 2, backlog=backlog)
        yield _result(splits, f"aligned, {name}", seconds)
    for times, target in _TARGETS_MS.items():
        with temporary_folder() as table:
            seconds = _coordinator(splits * times, rounds, table)
        yield _result(splits * times, "aligned", seconds, target)


def _result(splits: int, name: str, seconds: list[float], target_ms: float | None = None) -> Result:
    work = f"own CPU of planning {splits:,} splits: {name}"
    target = None if target_ms is None else at_most(target_ms)
    return Result(work, "", "", [1000 * s for s in seconds], "ms", target)


class SteadyLogs:
    """Simulated logs with a record for each second in each split, ten of which a plan reads."""

    def __init__(self, splits: int) -> None:
        self.ids = [f"topic-{number}" for number in range(splits)]
        self.position = 0
        self.seconds = 0.0

    def views(self) -> list[SplitView]:
        first, last = self._time(self.position), self._time(self.position + ROWS - 1)
        read_max = first - _STEP_MS if self.position else None
        end = self.position + ROWS
        return [SplitView(i, self.position, end, read_max, first, last) for i in self.ids]

    def at(self, horizon: int) -> Mapping[str, tuple[int, int]]:
        began = time.thread_time()
        rows = min(max(-((self._time(self.position) - horizon) // _STEP_MS), 0), ROWS)
        answer = dict.fromkeys(self.ids, (self.position + rows, rows))
        self.seconds += time.thread_time() - began
        return answer

    @staticmethod
    def _time(position: int) -> int:
        return START_MS + position * _STEP_MS


def _by_rule(logs: SteadyLogs, limit: int | None) -> Callable[[], Plan]:
    views = logs.views()
    return lambda: plan(views, logs.at, limit=limit, **OPTIONS)


def _in_columns(logs: SteadyLogs, limit: int | None) -> Callable[[], Plan]:
    columns = SplitColumns.of(logs.views())
    assert columns is not None
    return lambda: plan_in_columns(columns, logs.at, limit=limit, **OPTIONS)


def _planner(
    splits: int,
    rounds: int,
    limit: int | None,
    planner: Callable[[SteadyLogs, int | None], Callable[[], Plan]],
) -> list[float]:
    """Returns the CPU time (s) of each plan."""
    logs, taken = SteadyLogs(splits), []
    for _ in range(_WARM_UP + rounds):
        seconds, planned = cpu_seconds(logs, planner(logs, limit))
        taken.append(seconds)
        logs.position = min(planned.ends.values())
    return taken[_WARM_UP:]


def cpu_seconds(logs: SteadyLogs, plan_once: Callable[[], Plan]) -> tuple[float, Plan]:
    """Returns the CPU time (s) of one plan, without that of the logs' answers, and the plan."""
    logs.seconds, began = 0.0, time.thread_time()
    planned = plan_once()
    return time.thread_time() - began - logs.seconds, planned


def _coordinator(
    splits: int,
    rounds: int,
    table: str | None,
    *,
    with_reports: bool = False,
    compression: Codec | None = None,
    limit: int | None = None,
    backlog: int = 0,
) -> list[float]:
    """Returns the CPU time (s) of each plan of ten new records in each split.

    Args:
        splits: The number of splits.
        rounds: The number of plans.
        table: The path of the split-watermark table; ``None`` without alignment.
        with_reports: Whether tasks report.
        compression: The codec of the record batches.
        limit: The greatest number of rows of a plan; ``None`` for no limit.
        backlog: The number of records in each split at the first plan.

    The plan includes what the reports of the batch before cost the planning thread, if ``with_reports`` is set.
    """
    cluster = SimulatedTopic("topic", splits, compression)
    cluster.end = backlog
    with patch.object(enumerator, "KafkaClient", lambda _: cluster):
        coordinator = kafka_coordinator("simulated:9092", "topic", table)
        offset: dict[str, Any] = dict(INITIAL)
        taken = []
        for _ in range(_WARM_UP + rounds):
            cluster.end += ROWS
            cluster.seconds, began, start = 0.0, time.thread_time(), offset
            offset = coordinator.latest_offset(offset, limit)
            taken.append(time.thread_time() - began - cluster.seconds)
            if with_reports:
                _report(coordinator.tasks(start, offset), cluster)
        coordinator.close()
    return taken[_WARM_UP:]


def _report(tasks: list[SplitTask], cluster: SimulatedTopic) -> None:
    """Sends the reports of ``tasks`` to the coordinator, as if they had read their ranges."""
    for task in tasks:
        splits = [
            SplitReport(
                *planned.key,
                rows=planned.size,
                max_event_time=cluster.timestamp(planned.end - 1),
                min_event_time=cluster.timestamp(planned.start),
            )
            for planned in task.ranges
        ]
        report = TaskReport(task.batch, task.number, task.subtask, splits=splits)
        assert task.report_to is not None
        assert send_report(task.report_to, report)


if __name__ == "__main__":
    run([measure])
