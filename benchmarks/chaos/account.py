"""What must be in the sinks after a storm, and what is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.sink import Delivery, Sink


@dataclass(frozen=True)
class Due:
    """What a query has to have written.

    Attributes:
        query: its name.
        sink: the Delta table.
        counts: how many rows of each partition, numbered from 0.
    """

    query: str
    sink: Path
    counts: Mapping[int, int]

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def found(self, sink: Sink) -> Delivery:
        """What is there of it, in what was seen of its sink."""
        return sink.delivery(self.counts, goes_on=True)


def faults(query: str, found: Delivery) -> list[str]:
    """What is wrong with what is there, in words."""
    wrong = {"lost": found.lost, "doubled": found.doubled, "never written": found.foreign}
    return [
        f"{query}: {count} rows {what} of {found.produced} ({found.examples})"
        for what, count in wrong.items()
        if count
    ]
