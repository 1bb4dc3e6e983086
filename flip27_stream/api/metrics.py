"""Counters and gauges of a source (Flink ``MetricGroup``, as far as a source needs it)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Counter:
    """A number that only grows."""

    value: int = 0

    def inc(self, by: int = 1) -> None:
        self.value += by


class MetricGroup:
    """Named counters and gauges; asking for a name again gives the same counter."""

    def __init__(self) -> None:
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Callable[[], int]] = {}

    def counter(self, name: str) -> Counter:
        return self._counters.setdefault(name, Counter())

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        self._gauges[name] = read

    def snapshot(self) -> dict[str, int]:
        """All values now, by name."""
        return {name: c.value for name, c in self._counters.items()} | {
            name: read() for name, read in self._gauges.items()
        }
