"""Measurements while queries run: memory of planning processes, the split-watermark table, published watermarks."""

from __future__ import annotations

import math
import os
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from watermark_alignment.group.group_log import KEY
from watermark_alignment.group.group_view import Entry
from watermark_alignment.table.recordings import Recordings
from watermark_alignment.table.split_rows import SCHEMA
from watermark_alignment.table.split_watermark_table import SplitWatermarkTable

_SECOND, _LAST = 1, 3


class PublishedWatermark(NamedTuple):
    """An entry that a member published: when (ms since the epoch), and the greatest watermark (ms) published by then.

    A run that begins again, and gets no answer from a leader, publishes a lower bound of its watermark. ``fell_back``
    is how far (ms) that is below the greatest one.
    """

    at: int
    watermark: int
    fell_back: int = 0


@dataclass
class Series:
    """A measured number over time."""

    samples: list[tuple[float, float]] = field(default_factory=list)

    def add(self, at_s: float, figure: float) -> None:
        self.samples.append((at_s, figure))

    @property
    def newest(self) -> float:
        return self.samples[-1][1] if self.samples else 0

    @property
    def seconds(self) -> float:
        return self.samples[-1][0] - self.samples[0][0] if self.samples else 0

    def second_quarter(self) -> float:
        return self._median(_SECOND)

    def last_quarter(self) -> float:
        return self._median(_LAST)

    def growth(self) -> float:
        """Returns the median of the last quarter divided by that of the second quarter, when caches are filled.

        Without samples the result is not a number, which meets no target.
        """
        if not self.samples:
            return math.nan
        before, after = self.second_quarter(), self.last_quarter()
        return after / before if before else math.inf if after else 1.0

    def _median(self, quarter: int) -> float:
        times = [at for at, _ in self.samples]
        begin = times[0] + quarter * self.seconds / 4
        found = [figure for at, figure in self.samples if begin <= at <= begin + self.seconds / 4]
        return statistics.median(found or [self.newest])


class TableSize:
    """The size of a Delta table, with the files that are kept for a while after they were replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.size, self.log_files, self.data_files = Series(), Series(), Series()

    def look(self, at_s: float) -> None:
        log = _sizes(self._path / "_delta_log")
        data = _sizes(self._path)
        self.size.add(at_s, (sum(log) + sum(data)) / 1e6)
        self.log_files.add(at_s, len(log))
        self.data_files.add(at_s, len(data))


class Group:
    """Reads the entries of members repeatedly, since old ones are removed from the log."""

    def __init__(self, table: SplitWatermarkTable) -> None:
        self._recordings = Recordings(table)
        self.published: dict[str, list[PublishedWatermark]] = {}

    def look(self) -> None:
        for commit in reversed(self._recordings.look().commits):
            if KEY in commit:
                entry = Entry.from_text(commit[KEY])
                if entry.watermark is not None:
                    published = self.published.setdefault(entry.source, [])
                    greatest = max(entry.watermark, published[-1].watermark if published else entry.watermark)
                    published.append(
                        PublishedWatermark(commit["timestamp"], greatest, greatest - entry.watermark)
                    )


class CollectedRows:
    """Collects the rows of the table repeatedly, since the table removes old ones."""

    def __init__(self, table: SplitWatermarkTable) -> None:
        self._table = table
        self._found: list[pa.Table] = []

    def look(self) -> None:
        self._found.append(self._table.rows())

    def seen(self) -> pa.Table:
        """Returns each row once, although several looks found it."""
        return pa.concat_tables(self._found).group_by(SCHEMA.names).aggregate([])


def lead(row: Mapping[str, int], others: Sequence[PublishedWatermark], disorder_ms: int) -> int | None:
    """Returns how far (ms) rows were read ahead of the front that the other member had published.

    What it had published when the row was recorded counts.

    A member's front is its watermark + disorder + 1, and never falls. The result is ``None`` if it had published
    nothing.
    """
    last = last_published(others, row["recorded_at"])
    return None if last is None else row["max_event_time"] - last.watermark - disorder_ms - 1


def last_published(others: Sequence[PublishedWatermark], at: int) -> PublishedWatermark | None:
    """Returns what a member had published by a time (ms)."""
    known = bisect_right(others, at, key=lambda entry: entry.at)
    return others[known - 1] if known else None


def _sizes(folder: Path) -> list[int]:
    """Returns the sizes of the files in a folder, except for those that are being deleted."""
    with os.scandir(folder) as entries:
        found = [_size(entry) for entry in entries if entry.is_file()]
    return [size for size in found if size is not None]


def _size(entry: os.DirEntry[str]) -> int | None:
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return None
