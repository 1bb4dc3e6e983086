"""Counters of a source (Flink ``MetricGroup``, as far as a source needs it)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counter:
    """A number that only grows."""

    value: int = 0

    def inc(self, by: int = 1) -> None:
        """Adds ``by`` to the counter."""
        self.value += by


class MetricGroup:
    """The counters of one reader or enumerator, by name. Names are snake_case: ``records_in``, ``corrupt_files``.

    The counters of a reader travel with the report of its task. The coordinator adds them up over all tasks and
    batches since the query started, and adds those of the enumerator. With alignment, the commit of each batch to the
    split-watermark table has the sums, and ``python -m watermark_alignment status --json`` prints them as ``metrics``.
    """

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}

    def counter(self, name: str) -> Counter:
        """Returns the counter ``name``: the same object each time."""
        return self._counters.setdefault(name, Counter())

    def snapshot(self) -> dict[str, int]:
        """Returns the current values, by name."""
        return {name: counter.value for name, counter in self._counters.items()}
