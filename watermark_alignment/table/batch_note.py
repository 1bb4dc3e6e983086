"""The report of a source about a whole micro-batch, in the metadata of the commit that has the batch's rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from watermark_alignment.event_time_checks import no_event_time, no_event_time_in_split, wrong_unit
from watermark_alignment.formatting import name
from watermark_alignment.table.offsets_behind import OffsetsBehind

KEY = "flip27.batch"
"""The key of the note in the commit's metadata."""


@dataclass(frozen=True, slots=True)
class ObservedEventTimes:
    """The event times that tasks observed. Times are in ms; ``None`` if they are unknown.

    Attributes:
        event_time: The option ``scan.watermark.event-time``.
        unit: The unit of event times that are integers.
        records: The number of records that were read since the query started.
        bytes: The size of these records in memory.
        untimed: The number of these records that have no event time.
        sample: A sentence about one of the records without event time, without its values.
        untimed_split: A split that had many records without an event time, one after another; "" without such a split.
        untimed_in_split: The number of these records.
        min_event_time: The least event time of the batch.
        max_event_time: The greatest event time of the batch.
        implausible_example: The event time of one record that was beyond ``scan.watermark.max-future``.
    """

    event_time: str = ""
    unit: str = "ms"
    records: int = 0
    bytes: int = 0
    untimed: int = 0
    sample: str = ""
    untimed_split: str = ""
    untimed_in_split: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    implausible_example: int | None = None

    @property
    def bytes_per_row(self) -> float | None:
        """The mean size of a row in memory (bytes); ``None`` before the first row."""
        return self.bytes / self.records if self.records else None

    def mistakes(self, source: str, now: int) -> Iterator[tuple[str, str]]:
        """Yields pairs of a kind and a warning: of missing event times, and of a wrong unit.

        Args:
            source: The name of the source.
            now: The present time (ms since the epoch).
        """
        if self.records and self.untimed == self.records:
            yield "untimed", no_event_time(source, self.event_time, self.records, self.sample)
        elif self.untimed_split:
            yield (
                "untimed split",
                no_event_time_in_split(
                    source, self.event_time, self.untimed_in_split, name(self.untimed_split), self.sample
                ),
            )
        read = [time for time in (self.min_event_time, self.max_event_time) if time is not None]
        beyond = [] if self.implausible_example is None else [self.implausible_example]
        text = wrong_unit(source, self.event_time, self.unit, [*read, *beyond], now)
        if text is not None:
            yield "unit", text


@dataclass(frozen=True, slots=True)
class BatchNote:
    """The report of one source about one batch.

    Attributes:
        group: The alignment group.
        source: The id of the source in the group.
        lineage: The id of its checkpoint, as in its offsets.
        batch: The number of the batch.
        max_drift_ms: The option ``scan.watermark.alignment.max-drift``.
        unreported: The number of splits whose tasks have not reported everything that they read. For these the planned
            range replaces the report.
        implausible: By split, the number of records in this batch with an event time beyond
            ``scan.watermark.max-future``, for the 100 splits that had the most.
        implausible_in_run: The same numbers since the query started.
        max_out_of_orderness_ms: The option ``scan.watermark.max-out-of-orderness``.
        observed: The event times that tasks observed.
        reads: A short name of the topics or paths that the source reads.
        behind: The distance of the source to the latest records after the batch.
        metrics: The 100 greatest counters of the source's readers and enumerator since the query started, by name.
    """

    group: str
    source: str
    lineage: str
    batch: int
    max_drift_ms: int
    unreported: int
    implausible: Mapping[str, int] = field(default_factory=dict)
    implausible_in_run: Mapping[str, int] = field(default_factory=dict)
    max_out_of_orderness_ms: int = 0
    observed: ObservedEventTimes = field(default_factory=ObservedEventTimes)
    reads: str = ""
    behind: OffsetsBehind = field(default_factory=OffsetsBehind)
    metrics: Mapping[str, int] = field(default_factory=dict)

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_text(text: str) -> BatchNote:
        """Returns the note that :meth:`to_text` wrote. Unknown fields, which a later release has added, are ignored.

        Raises:
            ValueError, TypeError: ``text`` is not a note.
        """
        document = _object(json.loads(text))
        observed = _object(document.get("observed", {}))
        behind = _object(document.get("behind", {}))
        parts = {
            "observed": ObservedEventTimes(**_known(ObservedEventTimes, observed)),
            "behind": OffsetsBehind(**_known(OffsetsBehind, behind)),
        }
        note = BatchNote(**{**_known(BatchNote, document), **parts})
        _check(note)
        return note


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not an object")
    return value


def _known(kind: type, document: Mapping[str, Any]) -> dict[str, Any]:
    return {f.name: document[f.name] for f in fields(kind) if f.name in document}


def _check(note: BatchNote) -> None:
    seen, behind = note.observed, note.behind
    optional = seen.min_event_time, seen.max_event_time, seen.implausible_example
    numbers = (
        *(note.batch, note.max_drift_ms, note.unreported, note.max_out_of_orderness_ms),
        *(seen.records, seen.untimed, seen.bytes, seen.untimed_in_split),
        *(behind.splits, behind.least, behind.greatest, behind.total, behind.bytes or 0),
        *(time or 0 for time in optional),
        *_object(note.implausible).values(),
        *_object(note.implausible_in_run).values(),
        *_object(note.metrics).values(),
    )
    texts = (
        *(note.group, note.source, note.lineage, note.reads),
        *(seen.event_time, seen.unit, seen.sample, seen.untimed_split),
    )
    if not all(type(n) is int for n in numbers) or not all(type(t) is str for t in texts):
        raise ValueError(f"{note} has values of another type")
