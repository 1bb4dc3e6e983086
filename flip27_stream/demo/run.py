"""A run of a query, read from its progress."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

BatchT = TypeVar("BatchT")

Positions = Mapping[str, int]
"""The next offset to read of each split ``topic-partition``."""

_POLL_S = 0.2


@dataclass
class DemoRun(ABC, Generic[BatchT]):
    """A run and its progress.

    Attributes:
        format: The format of the source.
        batches: The recorded micro-batches.
        started: When it was first followed (``time.monotonic``).
        seconds: How long it has been followed (s).
        finished: Whether the query has ended.
    """

    format: str
    batches: Sequence[BatchT] = ()
    started: float | None = None
    seconds: float = 0.0
    finished: bool = False

    @abstractmethod
    def batch(self, progress: StreamingQueryProgress) -> BatchT | None:
        """Returns what is recorded of a micro-batch, or ``None`` to skip it."""

    def peak(self, figure: Callable[[BatchT], int]) -> int:
        """Returns the greatest ``figure`` of all batches."""
        return max(map(figure, self.batches), default=0)

    def follow(self, query: StreamingQuery) -> bool:
        """Reads the new progress of the query. Returns true once the query has ended.

        Raises:
            StreamingQueryException: The query failed.
        """
        self.started = self.started or time.monotonic()
        time.sleep(_POLL_S)
        self.finished = not query.isActive
        if self.finished:
            query.awaitTermination()
        self.seconds = time.monotonic() - self.started
        batches = map(self.batch, query.recentProgress)
        self.batches = [batch for batch in batches if batch is not None]
        return self.finished


def positions_of(offset: dict[str, Any]) -> Positions:
    """Returns the positions in an offset of Spark's source (``{topic: {partition: position}}``) or of this project."""
    if "splits" in offset:
        return {split: state[0] for split, state in offset["splits"].items()}
    return {f"{topic}-{p}": position for topic, by_p in offset.items() for p, position in by_p.items()}


def count_of_batches(batches: Sequence[object]) -> str:
    """Returns the number of micro-batches with its noun."""
    return "1 batch" if len(batches) == 1 else f"{len(batches):,} batches"
