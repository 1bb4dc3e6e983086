"""One shard in the planning process: the position up to which it can be read, and its positions by time."""

from __future__ import annotations

import time
from itertools import takewhile

from flip27_stream.api import SplitRange
from flip27_stream.connectors.kinesis.client.client import KinesisClient, Page
from flip27_stream.connectors.kinesis.client.errors import LostRecordError, NotThereError
from flip27_stream.connectors.kinesis.client.shard_pages import LARGEST_PAGE, ShardPages, position_and_time
from flip27_stream.connectors.kinesis.planning.known_records import Gap, KnownRecord, KnownRecords
from flip27_stream.connectors.kinesis.positions import TRIM_HORIZON, is_behind
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.wall_clock import now_ms

_LOOK_AHEAD = 100
"""The number of records in a page that is only read to check whether records follow."""
_COUNTED, _COUNTING_S = 1000, 5.0
"""The greatest distance (records) of a cut that is found by counting, and the time limit of a count."""
_TAIL_BYTES = 1 << 20
_PAGES, _STEPS = 1, 4
"""The most pages of the search for the end of a quiet shard in one plan, and the most bisections before each page."""
_PAGES_TO_FREEZE, _STEPS_TO_FREEZE = 40, 40
"""The same numbers if the end must be found in this plan."""
_HELD_S = 60.0
"""The time for which the end of a busy shard is kept while the horizon lies before it."""
_CLOSING_S = 30.0
_CLOSING_POLL_S = 0.05
_NO_END = 1 << 256


class ShardLog:
    """A search for the end of one shard, and for positions in it, with few calls.

    * A shard that gets few records is polled after its last record, with one call in each plan.
    * For a shard that gets many records, the first record that arrived within the last ``settling_ms`` is looked up,
      with two calls in each plan. The records before it can be read. While alignment holds back records before the
      end that was found last, the end is looked up once a minute.
    * If no records arrived recently and more than a page is left to read, the end is searched, with some calls in each
      plan.

    All ends are positions of records that were read, so that a range always has the same records.

    Attributes:
        closed: Whether the shard has ended: no record follows the last one.
        bytes_per_row: The mean size of a record (bytes); 0 if it is not known.
        seen_at: A time (ms) when no record followed the end that was found then; ``None`` if it is not known.
        is_cut: Whether the planned range may end before the end of the shard, so that further records follow it.
    """

    def __init__(
        self,
        client: KinesisClient,
        split: KinesisShardSplit,
        settling_ms: int,
        *,
        seen_at: int | None = None,
        is_cut: bool = False,
    ) -> None:
        self._settling_ms = settling_ms
        self._known = KnownRecords(TRIM_HORIZON)
        self._pages = ShardPages(client, split)
        self._counted_pages = ShardPages(client, split)
        self._busy = False
        self._probed_at = float("-inf")
        self._cut: int | None = None
        self._skipping = False
        self._frozen: int | None = None
        self.closed = False
        self.bytes_per_row = 0.0
        self.seen_at = seen_at
        self.is_cut = is_cut

    # ---- how far it can be read -----------------------------------------------------------------------------------

    def look(
        self, position: int, *, frozen: bool, is_closed: bool = False, limit: int | None = None
    ) -> SplitRange:
        """Returns the range that can be read from ``position`` on.

        Args:
            position: The next position to read.
            frozen: Whether the end is frozen: the run reads up to the end that the first such call finds.
            is_closed: Whether the shard is known to be closed, because it has children. A call with ``frozen`` then
                waits until the service reports the end of the shard, since more records can become visible before.
            limit: The row limit of the micro-batch; ``None`` for no limit. For a small limit, as many records are read
                to count the rows exactly.

        Raises:
            NotThereError: The service does not know the position any more.
            LostRecordError: The record at the position does not exist any more.
        """
        self._pages.missing = None
        self._known.advance(position)
        if self._frozen is None and not (self.closed and self._known.tail is not None):
            if frozen:
                self._go_to_tip(is_closed=is_closed)
            else:
                self._find_end()
        self._find_next()
        start = self._begin(position)
        end = max(self._frozen if self._frozen is not None else self._known_end(), start)
        self._known.counted_rows = limit if limit is not None and limit <= _COUNTED else None
        if self._known.counted_rows is not None:
            self.cut_after(self._known.counted_rows, end)
        at_tail = end == self._known.tail or (start == end == self._frozen)
        self.is_cut = not at_tail and (is_behind(end) if start < end else self.is_cut)
        return SplitRange(
            position=start,
            end=end,
            drained=at_tail,
            final=self.closed and at_tail,
            limited=not at_tail and self._frozen is None,
            rows=self._known.rows_to(end),
        )

    @property
    def is_start_missing(self) -> bool:
        """Whether the last look began after a record that no longer exists, so later records may be lost."""
        return self._pages.missing is not None and self._pages.missing == self._known.start

    def begin_at(self, moment: int) -> int:
        """Returns the position of the first record that arrived at ``moment`` (ms) or later, or after the last record.

        Records that arrive during the search count, too.

        Raises:
            UnreachableError: The service does not return the record within ``requestTimeout``, or no records come.
        """
        is_unknown = not self._read_page(_LOOK_AHEAD) and not self._reaches(moment)
        if is_unknown and self._probe(moment, is_needed=True) is False:
            while self._known.tail is None and not self._reaches(moment):
                self._search_tail(_PAGES, _STEPS_TO_FREEZE)
        found = self._known.first_at_or_after(moment, _NO_END)
        if found == _NO_END and self._known.tail is not None:
            return self._known.tail
        return self._first_since(moment) if found is None or found == _NO_END else found

    def _reaches(self, moment: int) -> bool:
        reach = self._known.reach(_NO_END)
        return reach is not None and reach >= moment

    def _first_since(self, moment: int) -> int:
        """Returns the position of that record by reading all records before it, if the service does not find it."""
        return self._pages.first_since(self._known_before(moment), moment)

    def _known_before(self, moment: int) -> int:
        """Returns the position after the last known record before the first known one of ``moment`` (ms) or later."""
        known = takewhile(lambda record: record.time < moment, self._known.up_to(_NO_END))
        return max((record.behind for record in known), default=self._known.start)

    def skip_lost(self, position: int) -> None:
        """Handles a lost record at ``position``: the next range begins at the first existing record after it."""
        self._known, self._busy = KnownRecords(position), False
        asked_at, page = now_ms(), self._pages.from_new_iterator(TRIM_HORIZON, _LOOK_AHEAD)
        is_empty = page.at_tip and not page.records
        self._pages.keep(position, page.next_iterator if is_empty else None)
        if is_empty:
            self._known.tail, self.closed, self.seen_at = position, page.next_iterator is None, asked_at
        self._known.add_page(
            [seen for r in page.records if (seen := position_and_time(r))[0] > position], at_start=True
        )
        self._skipping = True

    def _begin(self, position: int) -> int:
        """Returns the position where a range begins: before its first record, if that is known.

        Raises:
            LostRecordError: The record at the position does not exist any more.
        """
        first = self._known.first
        names_record = position != TRIM_HORIZON and not is_behind(position) and not self._skipping
        if first is None and names_record and self._known.tail is not None:
            raise LostRecordError("no record exists any more")
        if first is None or first.rows != 0 or first.position == position:
            return position
        if is_behind(position):
            return first.position
        if names_record:
            raise LostRecordError(f"the first existing record has sequence number {first.position // 10}")
        self._skipping = False
        self._known.advance(first.position)
        return first.position

    def _known_end(self) -> int:
        tail, last = self._known.tail, self._known.last
        if tail is not None:
            return tail
        if last is None:
            return self._known.start
        # A range must contain a record whose event time is known.
        return last.position if self._known.reach(last.position) is not None else last.behind

    def _find_end(self) -> None:
        if self._is_held():
            return
        if self._known.tail is not None or not self._busy or self._known.last is None:
            self._read_page(_LOOK_AHEAD)
            if self._known.tail is not None:
                return
        self._probed_at = time.monotonic()
        self._busy = bool(self._probe(now_ms() - self._settling_ms))
        if not self._busy:
            self._search_tail(_PAGES, _STEPS)

    def _is_held(self) -> bool:
        """Returns whether the last plan cut the shard at its horizon, before the known end."""
        cut, self._cut = self._cut, None
        is_before_end = cut is not None and cut < self._known_end()
        return self._busy and is_before_end and time.monotonic() < self._probed_at + _HELD_S

    def _search_tail(self, pages: int, steps: int) -> None:
        """Searches the end of a shard that got no records recently: bisects the time, then reads a page, and so on.

        Args:
            pages: The greatest number of pages.
            steps: The greatest number of bisections before a page.

        Raises:
            UnreachableError: The end must be found, and no records come, though the service says that some follow.
        """
        nothing_since = now_ms() - self._settling_ms
        for _ in range(pages):
            for _ in range(steps):
                if (middle := self._middle(nothing_since)) is None:
                    break
                if not self._probe(middle):
                    nothing_since = middle
            if self._read_page(self._tail_page()):
                return
            if steps == _STEPS_TO_FREEZE:
                self._pages.check_records_come()

    def _middle(self, nothing_since: int) -> int | None:
        """Returns the next time (ms) of the search for the end, which is before ``nothing_since``.

        The result is ``None`` if the end is probably within a page of the last known record.
        """
        last, rate = self._known.last, self._known.rate
        if last is None or self._pages.times_are_silent:
            return None
        middle = (last.time + nothing_since) // 2
        is_near = rate is not None and rate * (nothing_since - last.time) < self._tail_page()
        return None if middle <= last.time or is_near else middle

    def _tail_page(self) -> int:
        """Returns the number of records to read at the probable end: few large ones, because the quota counts bytes."""
        if not self.bytes_per_row:
            return _LOOK_AHEAD
        most = LARGEST_PAGE if self._pages.times_are_silent else _COUNTED
        return max(min(most, int(_TAIL_BYTES / self.bytes_per_row)), _LOOK_AHEAD)

    def _go_to_tip(self, *, is_closed: bool = False) -> None:
        """Freezes the end after the last record. For a closed shard, waits until the service reports its end.

        Raises:
            UnreachableError: No records come, though the service says that some follow.
        """
        if self._busy:
            self._probe(now_ms() - self._settling_ms)
        elif self._known.last is None:
            self._read_page(_LOOK_AHEAD)
        while self._known.tail is None:
            self._search_tail(_PAGES_TO_FREEZE, _STEPS_TO_FREEZE)
        deadline = time.monotonic() + _CLOSING_S
        while is_closed and not self.closed and time.monotonic() < deadline:
            self._read_page(LARGEST_PAGE)
            time.sleep(0 if self.closed else _CLOSING_POLL_S)
        self._frozen = self._known.tail

    def _read_page(self, limit: int) -> bool:
        """Reads a page after the last known record. Returns whether no record follows the page now."""
        last = self._known.last
        anchor = self._known.start if last is None else last.behind
        asked_at, page = now_ms(), self._pages.at(anchor, limit)
        self._take(page, at_start=last is None)
        if page.at_tip:
            last, self.seen_at = self._known.last, asked_at
            self._known.tail = last.behind if last is not None else self._known.start
            self.closed = page.next_iterator is None
        else:
            self._known.tail = None
        return page.at_tip

    def _take(self, page: Page, *, at_start: bool, after: KnownRecord | None = None) -> None:
        known = [] if after is None else [(after.position, after.time)]
        self._known.add_page([*known, *map(position_and_time, page.records)], at_start=at_start)
        if page.records:
            self.bytes_per_row = page.size / len(page.records)

    def _probe(self, moment: int, *, is_needed: bool = False) -> bool | None:
        """Looks up the first record that arrived at ``moment`` (ms) or later. Returns whether such a record exists.

        The result is ``None`` if the service does not answer.
        """
        page = self._pages.since(moment, is_needed=is_needed)
        if page is None or not page.records:
            return None if page is None else False
        position, arrived = position_and_time(page.records[0])
        self._known.add_probe(moment, position, arrived)
        if (last := self._known.last) is not None and last.position == position:
            self._pages.keep(last.behind, page.next_iterator)
        return True

    # ---- positions of records -------------------------------------------------------------------------------------

    def _find_next(self) -> None:
        """Reads the next record to be read, if it is not known."""
        if self._known.next_time is not None or self._known.last is None:
            return
        page = self._pages.from_new_iterator(self._known.start, _LOOK_AHEAD)
        self._take(page, at_start=True)

    @property
    def next_time(self) -> int | None:
        """The time (ms) at which the next record arrived; ``None`` if it is not known."""
        return self._known.next_time

    def first_time(self) -> int | None:
        """Returns the time (ms) at which the shard's first record arrived; ``None`` if the shard is empty or gone."""
        try:
            self._read_page(1)
        except NotThereError:
            return None
        return self._known.next_time

    def reach(self, end: int) -> int | None:
        """Returns the greatest known arrival time (ms) of a record before ``end``."""
        return self._known.reach(end)

    def cut_at(self, moment: int, end: int) -> int:
        """Returns the position of the first record that arrived at ``moment`` (ms) or later, or ``end``.

        An earlier position would not do: other shards are read up to ``moment``.

        Raises:
            UnreachableError: The service does not name or return the record within ``requestTimeout``.
        """
        found = self._known.first_at_or_after(moment, end)
        if found is None:
            self._probe(moment, is_needed=True)
            found = self._known.first_at_or_after(moment, end)
        self._cut = min(self._first_since(moment), end) if found is None else found
        return self._cut

    def rows_before(self, moment: int, end: int) -> int:
        """Estimates how many records before ``end`` arrived before ``moment`` (ms)."""
        return self._known.rows_before(moment, end)

    def rows_to(self, end: int) -> int:
        """Estimates how many records lie before ``end``."""
        return self._known.rows_to(end)

    def cut_after(self, rows: int, end: int) -> int:
        """Returns the position ``rows`` records after the start, at most ``end``.

        It is an earlier position if counting takes too long. A distant position is estimated.
        """
        deadline, pages = time.monotonic() + _COUNTING_S, 0
        while isinstance(found := self._known.after_rows(rows, end), Gap):
            if found.rows > _COUNTED and self._jump(found, end):
                return min(self._position_behind(found.record, end), end)
            is_late = time.monotonic() > deadline if rows <= _COUNTED else pages >= _STEPS
            if is_late or not self._count(found):
                self.is_cut = self.is_cut or found.record.behind < end
                return min(found.record.behind, end)
            pages += 1
        return found

    def _jump(self, gap: Gap, end: int) -> bool:
        """Looks for a record near the end of ``gap``, which is estimated. Returns whether one follows its record."""
        rate = self._known.rate
        if rate is None:
            return False
        moment = gap.record.time + max(int(gap.rows / rate), 1)
        return bool(self._probe(moment)) and self._position_behind(gap.record, end) > gap.record.position

    def _position_behind(self, record: KnownRecord, end: int) -> int:
        """Returns the position of the known record that follows ``record``, or ``end``."""
        later = (known.position for known in self._known.up_to(end) if known.position > record.position)
        return next(later, end)

    def _count(self, gap: Gap) -> bool:
        """Reads a page after the last counted record. Returns whether it has records."""
        page = self._counted_pages.at(gap.record.behind, min(gap.rows, _COUNTED))
        self._take(page, at_start=False, after=gap.record)
        return bool(page.records)

    def note_rows(self, rows: int, first_time: int, last_time: int) -> None:
        """Records that a task read ``rows`` records, which arrived between these times (ms)."""
        self._known.note_rows(rows, first_time, last_time)
