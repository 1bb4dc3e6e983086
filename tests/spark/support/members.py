"""Members of a group. Each is planned by its own coordinator, like two queries or two sources of one query. No JVM.

What a member may read depends on what the others have published. max-drift is 10 ms, and a split is idle after more
than a second.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from flip27_stream.api import ReadLimits
from flip27_stream.spark.planning.group.group_planner import GroupPlanner
from flip27_stream.spark.planning.micro_batch.rate_limit import UNLIMITED
from flip27_stream.testing import wait_until
from tests.spark.support.driven_query import DrivenQuery
from tests.spark.support.sources.memory_source import (
    LogEnumerator,
    MemoryEnumerator,
    MemorySource,
    MemoryWorld,
)
from watermark_alignment.group.membership import Membership

Logs = Mapping[str, Sequence[int | None]]
TIMEOUT = 60_000


class Make(Protocol):
    def __call__(
        self,
        logs: Logs,
        limits: ReadLimits | None = None,
        enumerator: Callable[..., LogEnumerator] = MemoryEnumerator,
        **options: str,
    ) -> DrivenQuery: ...


@contextmanager
def group_at(table: Path) -> Iterator[Make]:
    """Yields a function that makes queries of a group with the table ``table``, and closes them at the end.

    Options are named without ``scan.``, with ``_`` in place of ``-`` and ``.``.
    """
    queries: list[DrivenQuery] = []
    names = {
        "out_of_orderness": "scan.watermark.max-out-of-orderness",
        "max_drift": "scan.watermark.alignment.max-drift",
        "update_interval": "scan.watermark.alignment.update-interval",
        "source_timeout": "scan.watermark.alignment.source-timeout",
        "available_now": "scan.watermark.alignment.available-now",
        "allow_unaligned": "scan.watermark.alignment.allow-unaligned-source-splits",
        "group": "scan.watermark.alignment.group",
        "source_id": "scan.source.id",
    }

    def query(
        logs: Logs,
        limits: ReadLimits | None = None,
        enumerator: Callable[..., LogEnumerator] = MemoryEnumerator,
        **options: str,
    ) -> DrivenQuery:
        world = MemoryWorld({name: list(times) for name, times in logs.items()})
        source = MemorySource(world, limits=limits or ReadLimits(), enumerator=enumerator)
        given = {names[name]: value for name, value in options.items()}
        queries.append(DrivenQuery(world, table, options=given, source=source))
        return queries[-1]

    try:
        yield query
    finally:
        for made in queries:
            made.coordinator.close()


def step(query: DrivenQuery) -> list[int | None] | None:
    """Returns the event times of one batch, or ``None`` if Spark would not run one."""
    rows = query.batch(query.source.limits.max_rows or UNLIMITED)
    return None if rows is None else [time for _, time in rows]


def member_of(query: DrivenQuery) -> Membership:
    planner = query.coordinator._planner
    assert isinstance(planner, GroupPlanner)
    assert planner._member is not None
    return planner._member


def several(query: DrivenQuery) -> None:
    """Runs several plans. The first one reads the group before it publishes, so not every plan sees all members."""
    for _ in range(3):
        step(query)


def beat(query: DrivenQuery) -> None:
    """Makes the heartbeat of a member due, and runs it. It is usually due every fourth part of a minute."""
    member = member_of(query)
    member._own.beat_at = 0.0
    member.look()


def listen(query: DrivenQuery, ms: int) -> None:
    """Lets ``ms`` milliseconds pass in which only the heartbeat of a member reads the group."""
    for gone in range(0, ms, TIMEOUT // 4):
        query.clock.advance(min(TIMEOUT // 4, ms - gone))
        member_of(query).look()


def kill(query: DrivenQuery) -> None:
    """Ends a member like a killed process: it publishes nothing."""
    member = member_of(query)
    member._own.has_joined = False
    member.leave()


def delete(table: Path) -> None:
    """Deletes the table of a group, also while rows of the last batches are written."""

    def is_gone() -> bool:
        shutil.rmtree(table, ignore_errors=True)
        return not table.exists()

    wait_until(is_gone, "the end of the table")


def held_by(query: DrivenQuery) -> list[str | None]:
    """Returns a list that gets, for each plan from now on, the split that holds the member back."""
    planner = query.coordinator._planner
    plan_batch, seen = planner.plan_batch, []

    def watched(*args: object) -> object:
        planned = plan_batch(*args)  # type: ignore[arg-type]
        seen.append(planned.plan.held_by if planned.plan is not None else None)
        return planned

    planner.plan_batch = watched  # type: ignore[method-assign, assignment]
    return seen
