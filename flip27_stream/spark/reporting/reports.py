"""What a task tells the coordinator: a report on the splits that it read, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from flip27_stream.api import SourceEvent
from flip27_stream.errors import shortened

T = TypeVar("T")


@dataclass(frozen=True)
class SplitReport:
    """What a task saw of one split's range; times in ms, ``None`` where no record had an event time.

    Attributes:
        split: id of the split.
        start: position from which it was read.
        end: position up to which it was read.
        rows: how many rows came of it.
        max_event_time: greatest event time.
        disorder: how far (ms) an event time was behind the greatest one before it in the range.
        implausible: how many records had an event time beyond ``scan.watermark.max-future``.
        min_event_time: least event time.
        bytes: the size of the rows in memory.
        untimed: how many records had no event time.
        sample: what one of these had in its place: names of fields, no values.
        implausible_example: the event time of one of the ``implausible`` records.
    """

    split: str
    start: int
    end: int
    rows: int
    max_event_time: int | None = None
    disorder: int = 0
    implausible: int = 0
    min_event_time: int | None = None
    bytes: int = 0
    untimed: int = 0
    sample: str = ""
    implausible_example: int | None = None


@dataclass(frozen=True)
class TaskReport:
    """The report of one task of one micro-batch.

    Attributes:
        batch: number of the micro-batch.
        task: number of the task in it.
        subtask: the reader slot that it ran as.
        host: where it ran.
        splits: what it read.
        events: messages to the enumerator.
        split_requests: how often the reader asked for a split.
        failed: ids of the splits of an attempt that failed; it read nothing that counts.
    """

    batch: int
    task: int
    subtask: int
    host: str = ""
    splits: Sequence[SplitReport] = ()
    events: Sequence[SourceEvent] = ()
    split_requests: int = 0
    failed: Sequence[str] = ()

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes) -> TaskReport:
        """Raises ValueError, KeyError, TypeError or RecursionError if ``data`` is not a report."""
        d = json.loads(data)
        return TaskReport(
            batch=_whole(d["batch"]),
            task=_whole(d["task"]),
            subtask=_whole(d["subtask"]),
            host=_text(d["host"]),
            splits=tuple(_split_report(s) for s in _list(d["splits"])),
            events=tuple(SourceEvent(_text(e["name"]), e["payload"]) for e in _list(d["events"])),
            split_requests=_whole(d["split_requests"]),
            failed=tuple(_text(split) for split in _list(d["failed"])),
        )


def _split_report(told: Any) -> SplitReport:
    report = SplitReport(**told)
    _text(report.split), _text(report.sample)
    for number in (
        report.start,
        report.end,
        report.rows,
        report.disorder,
        report.implausible,
        report.untimed,
        report.bytes,
    ):
        _whole(number)
    for time in (report.max_event_time, report.min_event_time, report.implausible_example):
        if time is not None:
            _whole(time)
    return report


def _whole(value: Any) -> int:
    return _of(int, value)


def _text(value: Any) -> str:
    return _of(str, value)


def _list(value: Any) -> list[Any]:
    return _of(list, value)


def _of(kind: type[T], value: Any) -> T:
    if type(value) is not kind:
        raise TypeError(f"{shortened(repr(value))} is not of type {kind.__name__}")
    return value
