"""The ``withWatermark`` of a query, found in its progress: the delay, and whether it uses the aligned event time.

Spark reports neither. After every batch it sets the watermark to the greatest event time less the delay, if that is
higher (``WatermarkTracker``). With several ``withWatermark`` in a query, the least watermark counts by default, and the
greatest event time is that of one of them. So the delay that is computed here is never too short.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flip27_stream.options.iso_times import epoch_ms, parse_iso_time
from flip27_stream.time_text import time_text
from watermark_alignment.formatting import duration, name
from watermark_alignment.monitoring.findings import Finding
from watermark_alignment.monitoring.progress import SourceProgress, name_of
from watermark_alignment.table.batch_note import BatchNote

_MOST_BATCHES = 100
_ROUNDING_MS = 1000
"""The tolerance (ms) of the comparison: queries often round event times down to seconds."""
_QUARTER_MS = 900_000
_MOST_QUARTERS = 14 * 4  # No time zone is further from UTC.
_ROUNDED = {"a minute": 60_000, "an hour": 3_600_000, "a day": 86_400_000}


class QueryWatermark:
    """The watermark of one run of a query, batch by batch."""

    def __init__(self) -> None:
        self._query = ""
        self._lineages: set[str] = set()
        self._watermark: int | None = None
        self._greatest: int | None = None
        self._delay: int | None = None
        self._batches: dict[frozenset[tuple[str, int]], tuple[int, int, int]] = {}
        self._notes: dict[tuple[str, int], BatchNote] = {}

    def take_in(self, progress: Mapping[str, Any], sources: Sequence[SourceProgress]) -> None:
        """Records the progress of a batch.

        Args:
            progress: The progress.
            sources: The sources of this project in it.
        """
        self._query = name_of(progress)
        self._lineages = {source.lineage for source in sources}
        reported = progress.get("eventTime", {})
        watermark, greatest = _ms(reported.get("watermark")), _ms(reported.get("max"))
        if None not in (self._watermark, self._greatest, watermark) and watermark > self._watermark:  # type: ignore[operator]
            delay = self._greatest - watermark  # type: ignore[operator]
            self._delay = delay if self._delay is None else min(self._delay, delay)
        self._watermark = watermark
        if greatest is None:
            return
        self._greatest = greatest if self._greatest is None else max(self._greatest, greatest)
        if len(sources) == len(progress.get("sources", ())):
            read = frozenset((source.lineage, source.batch) for source in sources if source.moved)
            # Spark counts a null as the time 0.
            least = max(_ms(reported.get("min")) or 0, 0) or greatest
            self._batches[read] = int(progress["batchId"]), least, greatest
        while len(self._batches) > _MOST_BATCHES:
            del self._batches[next(iter(self._batches))]

    def findings(self, notes: Mapping[str, BatchNote]) -> Iterator[Finding]:
        """Yields the problems with ``withWatermark``.

        Args:
            notes: The newest notes of sources, of this query and of others, by the name of the source.
        """
        notes = {source: note for source, note in notes.items() if note.lineage in self._lineages}
        self._notes |= {(note.lineage, note.batch): note for note in notes.values()}
        while len(self._notes) > _MOST_BATCHES:
            del self._notes[next(iter(self._notes))]
        yield from self._short_delay(notes)
        yield from self._other_column()

    def _short_delay(self, notes: Mapping[str, BatchNote]) -> Iterator[Finding]:
        for source, note in notes.items():
            needed = note.max_drift_ms + note.max_out_of_orderness_ms
            if self._delay is not None and self._delay <= needed:
                yield Finding(
                    ("delay", self._query),
                    f"The delay of withWatermark in {self._query} is {duration(self._delay)}. It must be longer than "
                    f"max-drift ({duration(note.max_drift_ms)}) + max-out-of-orderness "
                    f"({duration(note.max_out_of_orderness_ms)}) of source {name(source)}: otherwise rows of "
                    f"slower splits are dropped as late. Make the delay longer than {duration(needed)}, or make "
                    "scan.watermark.alignment.max-drift smaller.",
                )

    def _other_column(self) -> Iterator[Finding]:
        for read, (batch, least, greatest) in list(self._batches.items()):
            notes = [self._notes[part] for part in read if part in self._notes]
            if not read or len(notes) < len(read):
                continue
            del self._batches[read]
            least_read = [n.observed.min_event_time for n in notes if n.observed.min_event_time is not None]
            most_read = [n.observed.max_event_time for n in notes if n.observed.max_event_time is not None]
            if len(most_read) < len(notes) or any(note.unreported or note.implausible for note in notes):
                continue
            if not min(least_read) - _ROUNDING_MS < least <= greatest <= max(most_read):
                columns = ", ".join(sorted({f"'{note.observed.event_time}'" for note in notes}))
                yield Finding(
                    ("column", self._query),
                    f"withWatermark in {self._query} uses another event time than alignment does: in batch {batch:,} "
                    f"Spark's event times are from {time_text(least)} to {time_text(greatest)}, while the records "
                    f"that were read have event times from {time_text(min(least_read))} to "
                    f"{time_text(max(most_read))} by scan.watermark.event-time ({columns}). So alignment does not "
                    "keep rows from being dropped as late. "
                    + _remedy(least, greatest, min(least_read), max(most_read)),
                )


def _remedy(least: int, greatest: int, least_read: int, most_read: int) -> str:
    """Returns the remedy if Spark's event times (ms) are not those that were read.

    The differences of the least and the greatest times show a time zone, or times that are rounded down.
    """
    for unit, length in _ROUNDED.items():
        if [least, greatest] == [time // length * length for time in (least_read, most_read)]:
            return (
                f"Spark's are rounded down to multiples of {unit}. Round after withWatermark, or make its delay "
                f"longer by {unit}."
            )
    for unit, length in {"a second": 1_000, **_ROUNDED}.items():
        if [least_read, most_read] == [time // length * length for time in (least, greatest)]:
            return (
                f"Those of alignment are the same, rounded down to multiples of {unit}. Let both use the same event "
                f"time, or make the delay of withWatermark longer by {unit}."
            )
    shift = greatest - most_read
    zones, beside = divmod(abs(shift) + _ROUNDING_MS // 2, _QUARTER_MS)
    if (
        0 < zones <= _MOST_QUARTERS
        and beside <= _ROUNDING_MS
        and abs(least - least_read - shift) <= _ROUNDING_MS
    ):
        return (
            f"Spark's are {duration(abs(shift))} {'ahead' if shift > 0 else 'behind'}, perhaps by a time zone. A text "
            "without a zone is in UTC for scan.watermark.event-time, and for Spark in spark.sql.session.timeZone: set "
            "it to UTC, or write the zone into the text."
        )
    return "Let scan.watermark.event-time and withWatermark use the same event time."


def _ms(timestamp: str | None) -> int | None:
    """Returns the milliseconds since the epoch of a time in Spark's progress, or ``None`` if it is not a time."""
    time = parse_iso_time(timestamp or "")
    return None if time is None else epoch_ms(time)
