"""The metrics of a split-watermark table under the names of ``status --json``. All exporters use them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from flip27_stream.errors import AlignmentError
from watermark_alignment.monitoring.status import SplitMetrics, Status, StatusReader
from watermark_alignment.states import SplitStatus
from watermark_alignment.table.offsets_behind import METRICS as BEHIND
from watermark_alignment.table.offsets_behind import OffsetsBehind
from watermark_alignment.table.recordings import Member

PREFIX: Final = "flip27"
DROPPED: Final = "numRowsDroppedByWatermark"
_SPLIT: Final = ("group", "source", "split")
_SOURCE: Final = ("group", "source")

NAMES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "status": ((*_SPLIT, "status"), "1 for the state that the split is in, 0 for the others"),
    "batch": (_SPLIT, "number of the newest batch"),
    "recorded_at": (_SPLIT, "time at which the newest batch was recorded (ms since the epoch)"),
    "currentWatermark": (_SPLIT, "event time up to which the split is complete (ms since the epoch)"),
    "watermarkLag": (_SPLIT, "time by which the watermark is behind the clock (ms)"),
    "watermarkAlignmentDrift": (
        _SPLIT,
        "time by which the split is read ahead of the slowest split of the group (ms)",
    ),
    "numRecordsInPerSecond": (_SPLIT, "records per second over the newest batches"),
    "activeTimeMsPerSecond": (_SPLIT, "milliseconds of each second in which the split was active"),
    "pausedTimeMsPerSecond": (_SPLIT, "milliseconds of each second in which the split was paused"),
    "idleTimeMsPerSecond": (_SPLIT, "milliseconds of each second in which the split was idle"),
    "implausible": (_SPLIT, "records with an event time beyond max-future since the query started"),
    "stalledTimeMs": (_SPLIT, "time for which a split that others wait for has had no records (ms)"),
    "max_drift_ms": (_SOURCE, "scan.watermark.alignment.max-drift (ms)"),
    "unreported": (_SOURCE, "splits of the newest batch whose tasks did not report"),
    "metrics": (
        (*_SOURCE, "counter"),
        "a counter of the source's readers and enumerator since its query started",
    ),
    "waiting": (_SOURCE, "splits that wait for another split, in the last plan"),
    "is_there": (_SOURCE, "1 while the source is in its group, else 0"),
    "avgOffsetsBehindLatest": (_SOURCE, "mean number of offsets that splits are behind the latest"),
    "maxOffsetsBehindLatest": (_SOURCE, "greatest number of offsets that a split is behind the latest"),
    "minOffsetsBehindLatest": (_SOURCE, "least number of offsets that a split is behind the latest"),
    "estimatedTotalBytesBehindLatest": (
        _SOURCE,
        "estimated number of bytes that the source is behind the latest",
    ),
    DROPPED: (("query",), "rows that Spark dropped as late since this process started"),
}
"""The labels and the description of each metric. All are gauges except :data:`DROPPED`, which is a counter."""


@dataclass(frozen=True)
class Sample:
    """One value of a metric. Its labels are in the order of :data:`NAMES`."""

    name: str
    labels: tuple[str, ...]
    value: float


@dataclass
class Metrics:
    """The metrics of a listener. Exporters read them in their own threads.

    Attributes:
        reader: Reads the table; ``None`` without a table.
        clock: Returns the milliseconds since the epoch.
        lock: Held while the table is read.
        dropped: The number of rows that Spark dropped as late, by query.
    """

    reader: StatusReader | None
    clock: Callable[[], int]
    lock: threading.Lock = field(default_factory=threading.Lock)
    dropped: Counter[str] = field(default_factory=Counter)

    def read(self) -> tuple[Status, int] | None:
        """Returns the status of the table and the present time (ms), or ``None`` without a table.

        Raises:
            AlignmentError: The table cannot be read.
        """
        if self.reader is None:
            return None
        with self.lock:
            now = self.clock()
            return self.reader.read(now), now

    def samples(self) -> Iterator[Sample]:
        """Yields all values. While the table cannot be read its values are missing, as for a target that is down."""
        for query, rows in list(self.dropped.items()):
            yield Sample(DROPPED, (query,), rows)
        try:
            read = self.read()
        except AlignmentError:
            return
        if read is not None:
            yield from samples_of(*read)


def samples_of(status: Status, now: int) -> Iterator[Sample]:
    """Yields the values of all sources except those that are known to have left or timed out.

    Args:
        status: The status of the table.
        now: The present time (ms since the epoch).
    """
    there = [split for split in status.splits if status.is_there(split.member, now) is not False]
    for split in there:
        labels = (split.group, status.names[split.member], split.split)
        for name, value in _of_split(status, split):
            if value is not None:
                yield Sample(name, labels, value)
        for state in SplitStatus:
            yield Sample("status", (*labels, str(state)), int(state is split.status))
    for wait in status.waits(now):
        holder = wait.holder
        labels = (holder.group, status.names[holder.member], holder.split)
        yield Sample("stalledTimeMs", labels, now - holder.recorded_at)
    for member in dict.fromkeys(split.member for split in status.splits):
        for name, value in _of_source(status, member, now):
            if value is not None:
                yield Sample(name, (member.group, status.names[member]), value)
        info = status.info_of(member)
        if info.note is not None and status.is_there(member, now) is not False:
            for counter, value in info.note.metrics.items():
                yield Sample("metrics", (member.group, status.names[member], counter), value)


def _of_split(status: Status, split: SplitMetrics) -> Iterator[tuple[str, float | None]]:
    note = status.info_of(split.member).note
    yield "batch", split.batch
    yield "recorded_at", split.recorded_at
    yield "currentWatermark", split.watermark
    yield "watermarkLag", split.lag
    yield "watermarkAlignmentDrift", split.drift
    yield "numRecordsInPerSecond", split.rows_per_second
    for state, milliseconds in split.per_second.items():
        yield f"{state.lower()}TimeMsPerSecond", milliseconds
    yield "implausible", None if note is None else note.implausible_in_run.get(split.split, 0)


def _of_source(status: Status, member: Member, now: int) -> Iterator[tuple[str, float | None]]:
    info = status.info_of(member)
    is_there = status.is_there(member, now)
    yield "is_there", None if is_there is None else int(is_there)
    if is_there is False:
        return
    yield "waiting", None if info.entry is None else info.entry.waiting
    yield "max_drift_ms", info.max_drift_ms
    if info.note is not None:
        yield "unreported", info.note.unreported
    behind = info.note.behind if info.note is not None else OffsetsBehind()
    yield from ((name, behind.metrics()[name]) for name in BEHIND)
