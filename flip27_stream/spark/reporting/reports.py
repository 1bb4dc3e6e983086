"""The report that a task sends to the coordinator on the splits that it has read, as JSON.

A task can have thousands of splits. So each split is an array without the names of its fields, and the types of a field
are checked for all splits together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from flip27_stream.api import SourceEvent
from flip27_stream.api.planned_range import RangeKey
from flip27_stream.errors import shortened

T = TypeVar("T")

_TIME, _TEXT = (int, type(None)), (str,)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "split": _TEXT,
    "sample": _TEXT,
    "max_event_time": _TIME,
    "min_event_time": _TIME,
    "implausible_example": _TIME,
}
"""The types of the fields of a :class:`SplitReport`; the other fields are of type ``int``."""


class SplitReport(NamedTuple):
    """The report of a task about one range.

    Attributes:
        split: The id of the split.
        start: The position from which the range was read.
        end: The position up to which the range was read.
        rows: The number of rows.
        max_event_time: Greatest event time (ms); ``None`` if no record has one.
        disorder: The greatest time (ms) by which an event time was behind an earlier one in the range.
        implausible: The number of records with an event time beyond ``scan.watermark.max-future``.
        min_event_time: Least event time (ms); ``None`` if no record has one.
        bytes: The size of the rows in memory.
        untimed: The number of records without an event time.
        sample: A description of one of these records: names of fields, no values.
        implausible_example: The event time (ms) of one of the ``implausible`` records.
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

    @property
    def key(self) -> RangeKey:
        """The range that the task has read."""
        return RangeKey(self.split, self.start, self.end)


@dataclass(frozen=True)
class TaskReport:
    """The report of one task of one micro-batch.

    Attributes:
        batch: The number of the micro-batch.
        task: The number of the task in the micro-batch.
        subtask: The number of the reader slot that the task belongs to.
        host: The host that the task ran on.
        splits: The reports about the ranges of the task.
        events: The events for the enumerator.
        split_requests: The number of splits that the reader has requested.
        metrics: The counters of the reader, by name.
        failed: The ids of the splits of an attempt that failed; its rows do not count.
    """

    batch: int
    task: int
    subtask: int
    host: str = ""
    splits: Sequence[SplitReport] = ()
    events: Sequence[SourceEvent] = ()
    split_requests: int = 0
    failed: Sequence[str] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return json.dumps(self, default=_fields).encode()

    @staticmethod
    def from_bytes(data: bytes) -> TaskReport:
        """Returns the report in ``data``.

        Raises:
            ValueError, KeyError, TypeError, RecursionError: ``data`` is not a report.
        """
        d = json.loads(data)
        return TaskReport(
            batch=_whole(d["batch"]),
            task=_whole(d["task"]),
            subtask=_whole(d["subtask"]),
            host=_text(d["host"]),
            splits=_split_reports(_list(d["splits"])),
            events=tuple(SourceEvent(_text(e["name"]), e["payload"]) for e in _list(d["events"])),
            split_requests=_whole(d["split_requests"]),
            failed=tuple(_text(split) for split in _list(d["failed"])),
            metrics={_text(name): _whole(value) for name, value in _of(dict, d["metrics"]).items()},
        )


def _fields(part: object) -> dict[str, Any]:
    """Returns the fields of a report, or of a part of it. ``dataclasses.asdict`` would copy each value first."""
    if isinstance(part, (TaskReport, SourceEvent)):
        return {each.name: getattr(part, each.name) for each in fields(part)}
    raise TypeError(f"{type(part).__name__} is not a part of a report")


def _split_reports(rows: list[Any]) -> tuple[SplitReport, ...]:
    reports = tuple(map(SplitReport._make, rows))
    for name, values in zip(SplitReport._fields, zip(*reports, strict=True), strict=False):
        kinds = _KINDS.get(name, (int,))
        if not set(map(type, values)).issubset(kinds):
            wrong = next(value for value in values if type(value) not in kinds)
            raise TypeError(f"field {name} of a split has a wrong type: {shortened(repr(wrong))}")
    return reports


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
