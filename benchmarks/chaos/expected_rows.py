"""Compares the rows that the sinks must have after a fault period with the rows that they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.soak.sink import Delivery, Sink


@dataclass(frozen=True)
class ExpectedRows:
    """The rows that a query must have written.

    Attributes:
        query: The name of the query.
        sink: The Delta table that it writes.
        counts: The number of rows of each partition; its rows are numbered from 0.
    """

    query: str
    sink: Path
    counts: Mapping[int, int]

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def found(self, sink: Sink) -> Delivery:
        """Returns how many of these rows the sink has, lacks, or has twice."""
        return sink.delivery(self.counts, goes_on=True)


def faults(query: str, found: Delivery) -> list[str]:
    """Returns a sentence for each fault in the rows of a sink."""
    wrong = {"lost": found.lost, "doubled": found.doubled, "never written": found.foreign}
    return [
        f"{query}: {count} rows {what} of {found.produced} ({found.examples})"
        for what, count in wrong.items()
        if count
    ]
