"""Runs a query with Spark's own Kafka source, then with ``flip27_kafka``, and shows both runs side by side."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import flip27_stream
from flip27_stream.demo.command import DemoResources
from flip27_stream.demo.display import Screen, mark
from flip27_stream.demo.run import BatchT, DemoRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

BUILT_IN, ALIGNED = "kafka", "flip27_kafka"
NAMES = {BUILT_IN: "Spark's own kafka source", ALIGNED: "flip27_kafka, aligned"}

RunT = TypeVar("RunT", bound="ComparedRun[Any]")


class ComparedRun(DemoRun[BatchT]):
    """A run of the query with one of the sources. Only the options of alignment differ."""

    @property
    @abstractmethod
    def so_far(self) -> str:
        """What was read until now, in a few words without the time."""

    @abstractmethod
    def start(self, resources: DemoResources) -> StreamingQuery:
        """Starts the query, which ends when all that was written has been read."""

    @abstractmethod
    def count(self, resources: DemoResources) -> None:
        """Counts the result of the query, which has ended."""

    def records(
        self, resources: DemoResources, topic: str, group: str, max_drift: int, source_id: str
    ) -> DataFrame:
        """Returns the records of a topic. Only ``flip27_kafka`` gets the options of alignment."""
        options = {
            "kafka.bootstrap.servers": resources.broker.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(resources.rows_per_batch),
        }
        if self.format == ALIGNED:
            options |= {**resources.alignment(group, max_drift), "scan.source.id": source_id}
        return resources.spark.readStream.format(self.format).options(**options).load()


def compare(resources: DemoResources, runs: Sequence[RunT], shown: Callable[[], RenderableType]) -> None:
    """Runs the query once for each run, and shows ``shown()`` meanwhile.

    Raises:
        StreamingQueryException: A query failed.
    """
    flip27_stream.register(resources.spark)
    with Screen(resources.console) as terminal:
        for run in runs:
            query = run.start(resources)
            while not run.follow(query):
                terminal.update(shown(), f"{NAMES[run.format]}: {run.so_far}")
            run.count(resources)
            terminal.update(
                shown(), f"{NAMES[run.format]}: {run.so_far}, done in {run.seconds:.0f} s", is_last=True
            )


def section(run: ComparedRun[Any], details: Table) -> RenderableType:
    """Returns a run for the terminal, while it is running."""
    begun = run.started is not None
    sign = mark(begun=begun, over=run.finished)
    state = f"{run.so_far}, {run.seconds:.0f} s" if begun else "waits"
    head = Text.assemble(sign, " ", (NAMES[run.format], "bold"), "   ", state)
    return Padding(Group(head, Padding(details, (0, 0, 0, 4))), (0, 0, 1, 0))


def side_by_side(runs: Sequence[RunT], rows: Mapping[str, Callable[[RunT], RenderableType]]) -> Table:
    """Returns the result: a column for each run, and a row for each function in ``rows``, by its name."""
    table = Table(caption="The first run also warms Spark up; make bench compares speed.")
    table.add_column()
    for run in runs:
        table.add_column(NAMES[run.format], justify="right")
    for name, cell in rows.items():
        table.add_row(name, *(cell(run) for run in runs))
    table.add_row("time", *(f"{run.seconds:.1f} s" for run in runs))
    return table
