"""Measures the additional costs of a plan whose source is a member of a group of ten.

The other nine members run in another process.

The others publish another watermark every second, as queries with small batches do, so that commits of the ten members
conflict. They also take turns in maintaining the table. ``python -m benchmarks.planning.group``
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
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
from flip27_stream.spark.planning.coordinator import SourceCoordinator
from flip27_stream.spark.planning.group.group_planner import GroupPlanner
from flip27_stream.spark.planning.micro_batch.batch_planner import BatchPlanner
from flip27_stream.spark.planning.query_clock import QueryClock
from offsets import INITIAL
from watermark_alignment.group.group_log import GroupLog
from watermark_alignment.group.group_view import Entry
from watermark_alignment.group.membership import Membership
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable
from watermark_alignment.table.table_writer import TableWriter

_OTHERS = 9
_WARM_UP = 3
_PLANS = 10
_ROWS = 10
_FAR_AHEAD_MS = 10**9
_PAUSE_S = 0.2


def measure(environment: Environment) -> Iterator[Result]:
    splits, plans = environment.sizes.many, _PLANS * environment.sizes.pairs
    with temporary_folder() as table, _others(table):
        member, alone = Plans(table, splits), Plans(table, splits)
        alone.leave_out_the_group()
        for _ in range(_WARM_UP + plans):
            alone.one()
            member.one()
            time.sleep(_PAUSE_S)
        member.close()
        alone.close()
    without, within = alone.seconds[_WARM_UP:], member.seconds[_WARM_UP:]
    yield Result(
        f"planning {splits} splits in a group of {_OTHERS + 1} members, beside no group",
        f"{1000 * statistics.median(without):.0f} ms",
        f"{1000 * statistics.median(within):.0f} ms",
        [1000 * (ours - beside) for ours, beside in zip(within, without, strict=True)],
        "ms",
        at_most(30),
    )


class Plans:
    """The plans of a stream that keeps up. Each has some new records."""

    def __init__(self, table: str, splits: int) -> None:
        self.seconds: list[float] = []
        self._cluster = SimulatedTopic("topic", splits)
        self._coordinator: SourceCoordinator = kafka_coordinator("simulated:9092", "topic", table)
        self._offset: dict[str, Any] = dict(INITIAL)

    def leave_out_the_group(self) -> None:
        """Makes the coordinator plan as a source without a group."""
        coordinator = self._coordinator
        coordinator._planner = BatchPlanner(coordinator._spec, coordinator._split_tracker)

    def one(self) -> None:
        self._cluster.end += _ROWS
        with patch.object(enumerator, "KafkaClient", lambda _: self._cluster):
            began = time.perf_counter()
            self._offset = self._coordinator.latest_offset(self._offset, None)
            self.seconds.append(time.perf_counter() - began)

    def close(self) -> None:
        planner = self._coordinator._planner
        if isinstance(planner, GroupPlanner):
            assert planner._member is not None
            assert len(planner._member.view.members) == _OTHERS + 1, "all were seen"
        self._coordinator.close()


@contextmanager
def _others(table: str) -> Iterator[None]:
    """Runs the other members of the group in another process."""
    SplitWatermarkTable(table, {}).open()
    spawn = multiprocessing.get_context("spawn")
    ready, over = spawn.Event(), spawn.Event()
    process = spawn.Process(target=_live, args=(table, ready, over), daemon=True)
    process.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        over.set()
        process.join(60)


def _live(table: str, ready: Event, over: Event) -> None:
    members = [_member(table, number) for number in range(_OTHERS)]
    second = 0
    while not over.wait(max(0.0, 1 - _OTHERS * 0.01)):
        for member in members:
            member.announce(START_MS + _FAR_AHEAD_MS + 1000 * second)
        second += 1
        ready.set()
    for member in members:
        member.leave()


def _member(table: str, number: int) -> Membership:
    entry = Entry(
        group="benchmark",
        source=f"other-{number}",
        lineage=str(number),
        run=str(number),
        began=0,
        definition=str(number),
        where=f"member {number}",
        timeout_ms=60_000,
    )
    log = GroupLog(SplitWatermarkTable(table, {}), "benchmark", 120_000)
    rows = TableWriter(SplitWatermarkTable(table, {}), entry.source)
    return Membership(log, entry, QueryClock(), rows.look_after)


if __name__ == "__main__":
    run([measure])
