"""One run of a query, as its progress tells it."""

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
"""By split, ``topic-partition``, the offset to read next."""

_POLL_S = 0.2


@dataclass
class Run(ABC, Generic[BatchT]):
    """A run, as far as it has come.

    Attributes:
        format: the source.
        batches: what counts of each micro-batch.
        started: when it was first followed (``time.monotonic``).
        seconds: how long it has been followed.
        finished: whether the query has ended.
    """

    format: str
    batches: Sequence[BatchT] = ()
    started: float | None = None
    seconds: float = 0.0
    finished: bool = False

    @abstractmethod
    def batch(self, progress: StreamingQueryProgress) -> BatchT | None:
        """What counts of this micro-batch; ``None`` if it is left out."""

    def peak(self, figure: Callable[[BatchT], int]) -> int:
        """The greatest ``figure`` of a batch."""
        return max(map(figure, self.batches), default=0)

    def follow(self, query: StreamingQuery) -> bool:
        """Take in what the query has done since; true once it has ended.

        Raises:
            StreamingQueryException: it failed.
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
    """From the offset of either source: ``{topic: {partition: position}}``, or an offset document of ours."""
    if "splits" in offset:
        return {split: state[0] for split, state in offset["splits"].items()}
    return {f"{topic}-{p}": position for topic, by_p in offset.items() for p, position in by_p.items()}
