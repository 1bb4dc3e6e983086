"""The known records of a shard, and estimates of the numbers of records between them.

The module has no clock and does no I/O.

Planning has seen these records in pages and probes. The number of records between two of them is either counted, or
estimated by the rate at which records arrive.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_MOST_KEPT = 1000
"""The greatest number of known records, so that memory and time of a plan do not grow while a shard is held back."""
_FIRST_KEPT = _MOST_KEPT // 4
"""The number of next records that are all kept if there are too many, because cuts are near them."""
_LEAST_SPAN_MS = 1000
"""The least time (ms) for which a rate is computed, because records of one PutRecords call share a millisecond."""


@dataclass(frozen=True)
class KnownRecord:
    """A record that was read.

    Attributes:
        position: The position before the record.
        time: The time at which the record arrived (ms).
        since: The least known time (ms) for which this is the first record that arrived then or later; greater than
            ``time`` if no such time is known.
        rows: The number of records from the previous known record, inclusive, to this one; for the first known record,
            from the start of :class:`KnownRecords`. ``None`` if they were not counted.
    """

    position: int
    time: int
    since: int
    rows: int | None

    @property
    def behind(self) -> int:
        """The position after the record."""
        return self.position + 1


@dataclass(frozen=True)
class Gap:
    """The place where the count of records ends: unknown records follow ``record``, and ``rows`` more are wanted."""

    record: KnownRecord
    rows: int


class KnownRecords:
    """The known records of one shard from ``start`` on.

    Attributes:
        start: The next position to read.
        tail: The position after the last record; ``None`` if more records may follow.
        rate: The mean number of records per millisecond, for estimates; ``None`` if it is not known.
        counted_rows: The row limit of the micro-batch, if it must be kept: estimates then assume that more records than
            that lie between two records if they were not counted, and count those between two records as a whole.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.tail: int | None = None
        self.rate: float | None = None
        self.counted_rows: int | None = None
        self._seen: list[KnownRecord] = []

    @property
    def first(self) -> KnownRecord | None:
        return self._seen[0] if self._seen else None

    @property
    def last(self) -> KnownRecord | None:
        return self._seen[-1] if self._seen else None

    @property
    def next_time(self) -> int | None:
        """The time (ms) at which the record at ``start`` arrived; ``None`` if that is not known."""
        return self._seen[0].time if self._seen and self._seen[0].rows == 0 else None

    def advance(self, position: int) -> None:
        """Drops known records before ``position``. Drops all of them if the position is before ``start``."""
        if position == self.start:
            return
        if position < self.start:
            self._seen, self.tail = [], None
        i = bisect_left(self._seen, position, key=lambda record: record.position)
        if i < len(self._seen):
            self._seen[i] = replace(self._seen[i], rows=self._rows_from(position, i))
        del self._seen[:i]
        self.start = position

    def _rows_from(self, position: int, i: int) -> int | None:
        record = self._seen[i]
        if record.position == position or (i == 0 and record.rows == 0):
            return 0
        follows = i > 0 and record.rows == 1 and self._seen[i - 1].behind == position
        return 0 if follows else None

    def add_page(self, records: Sequence[tuple[int, int]], *, at_start: bool) -> None:
        """Adds records that follow each other without a gap.

        Args:
            records: The position and the arrival time (ms) of each record, in order.
            at_start: Whether the first record is the one at ``start``. Otherwise it is a known record, or follows one.
        """
        if not records:
            return
        first, last = records[0][0], records[-1][0]
        low = bisect_left(self._seen, first, key=lambda record: record.position)
        high = bisect_left(self._seen, last + 1, key=lambda record: record.position)
        before, known, after = self._seen[:low], self._seen[low:high], self._seen[high:]
        since = {record.position: record.since for record in known}
        if known and known[0].position == first:
            rows: int | None = known[0].rows
        else:
            rows = 0 if at_start else (1 if before else None)
        page: list[KnownRecord] = []
        step = max(len(records) // (_MOST_KEPT // 4), 1)
        skipped = 0
        for i, (position, time) in enumerate(records):
            if i % step and i != len(records) - 1 and position not in since:
                skipped += 1
                continue
            counted = rows if i == 0 else 1 + skipped
            follows_older = bool(page) and not skipped and page[-1].time < time
            earliest = page[-1].time + 1 if follows_older else time + 1
            page.append(KnownRecord(position, time, min(since.get(position, earliest), earliest), counted))
            skipped = 0
        if after and not (known and known[-1].position == last):
            after[0] = replace(after[0], rows=None)
        self._seen = before + page + after
        self._thin_out()
        self.note_rows(len(records), records[0][1], records[-1][1])

    def add_probe(self, asked: int, position: int, time: int) -> None:
        """Adds the first record that arrived at ``asked`` (ms) or later: its position and its arrival time (ms)."""
        if position < self.start:
            return
        i = bisect_left(self._seen, position, key=lambda record: record.position)
        if i < len(self._seen) and self._seen[i].position == position:
            self._seen[i] = replace(self._seen[i], since=min(self._seen[i].since, asked))
            return
        rows = 0 if position == self.start else None
        self._seen.insert(i, KnownRecord(position, time, min(asked, time), rows))
        if i + 1 < len(self._seen):
            self._seen[i + 1] = replace(self._seen[i + 1], rows=None)
        self._thin_out()

    def _thin_out(self) -> None:
        """Drops every second of the later records if there are too many. Counts are kept; the last record is, too."""
        if len(self._seen) <= _MOST_KEPT:
            return
        later = self._seen[_FIRST_KEPT:]
        last = later[len(later) // 2 * 2 :]
        pairs = zip(later[::2], later[1::2], strict=False)
        self._seen[_FIRST_KEPT:] = [
            replace(record, rows=_sum(dropped.rows, record.rows)) for dropped, record in pairs
        ] + last

    def note_rows(self, rows: int, first_time: int, last_time: int) -> None:
        """Records that ``rows`` records arrived between these times (ms)."""
        if rows > 1:
            self.rate = rows / max(last_time - first_time, _LEAST_SPAN_MS)

    def up_to(self, end: int) -> Iterator[KnownRecord]:
        """Yields the known records before ``end``."""
        return (record for record in self._seen if record.position < end)

    def reach(self, end: int) -> int | None:
        """Returns the greatest known time (ms) of a record before ``end``."""
        return max((record.time for record in self.up_to(end)), default=None)

    def first_at_or_after(self, time: int, end: int) -> int | None:
        """Returns the position of the first record of ``time`` (ms) or later, or ``end``; ``None`` if it is unknown."""
        for record in self._seen:
            if record.time >= time:
                is_first = record.rows in (0, 1) or record.since <= time
                return min(record.position, end) if is_first else None
        return end

    def rows_before(self, time: int, end: int) -> int:
        """Estimates how many records before ``end`` arrived before ``time`` (ms). Never falls as the time grows."""
        count, last = 0.0, None
        for record in self._seen:
            rows = self._between(last, record)
            if record.time >= time or record.position >= end:
                span = record.time - last.time if last is not None else 0
                if last is None or last.time >= time:
                    return _rounded_up(count)
                is_whole = span <= 0 or self.counted_rows is not None
                part = 1.0 if is_whole else min((time - last.time) / span, 1.0)
                return _rounded_up(count + rows * part)
            count, last = count + rows, record
        return _rounded_up(count + (1 if last is not None else 0))

    def rows_to(self, end: int) -> int:
        """Estimates how many records lie before ``end``."""
        count, last = 0.0, None
        for record in self._seen:
            if record.position >= end:
                return _rounded_up(count + self._between(last, record))
            count, last = count + self._between(last, record), record
        return _rounded_up(count + (1 if last is not None else 0))

    def _between(self, before: KnownRecord | None, record: KnownRecord) -> float:
        if record.rows is not None:
            return record.rows
        if before is None:
            return 1.0
        if self.counted_rows is not None:
            return self.counted_rows + 1
        return max((self.rate or 0.001) * (record.time - before.time), 1.0)

    def after_rows(self, rows: int, end: int) -> int | Gap:
        """Returns the position ``rows`` records after ``start``, at most ``end``; or the gap where the count ends."""
        count, last = 0, None
        for record in self._seen:
            if record.rows is None or (record.rows > 1 and count + record.rows > rows):
                return end if last is None else Gap(last, rows - count)
            count += record.rows
            if record.position >= end:
                return end
            if count >= rows:
                return record.position if count == rows else last.position if last is not None else end
            last = record
        return end


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _rounded_up(count: float) -> int:
    whole = int(count)
    return whole if count == whole else whole + 1
