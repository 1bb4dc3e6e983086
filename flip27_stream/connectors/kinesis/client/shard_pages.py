"""The pages of one shard, with a check whether the record before a position still exists."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flip27_stream.connectors.kinesis.client.client import KinesisClient, Page, size_of, to_ms
from flip27_stream.connectors.kinesis.client.errors import NotThereError, SilentError
from flip27_stream.connectors.kinesis.positions import before, behind, is_behind
from flip27_stream.connectors.kinesis.split import KinesisShardSplit
from flip27_stream.errors import UnreachableError
from flip27_stream.exponential_backoff import doubled_pause

LARGEST_PAGE = 10_000
_EMPTY_PAGES = 50
"""The greatest number of pages without records that are read at once."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05
_LONGEST_EMPTY_S = 600.0
"""The least time limit of pages without records in a row, though more records follow."""
_NOTHING = Page((), None, at_tip=True, size=0)


@dataclass(frozen=True)
class _Iterator:
    """A shard iterator, and the position at which it reads."""

    position: int
    value: str


class ShardPages:
    """A reader of the pages of one shard, which keeps the shard iterator for the next page.

    Attributes:
        missing: A position after a record that does not exist any more; ``None`` if all records existed.
        empty_pages: The number of pages without records that :meth:`at` has read since the last record or the tip.
    """

    def __init__(self, client: KinesisClient, split: KinesisShardSplit) -> None:
        self._client = client
        self._split = split
        self._ahead: _Iterator | None = None
        self._unseen: int | None = None
        self.missing: int | None = None
        self.empty_pages = 0
        self._empty_since = 0.0

    def keep(self, position: int, iterator: str | None) -> None:
        """Keeps a shard iterator for the next page, which begins at ``position``."""
        self._ahead = None if iterator is None else _Iterator(position, iterator)

    def at(self, position: int, limit: int) -> Page:
        """Returns the page at a position. Empty pages are skipped, because more records can follow them.

        Raises:
            NotThereError: The service does not know the position any more.
        """
        for _ in _paused():
            kept = self._ahead if self._ahead is not None and self._ahead.position == position else None
            page = self._page(position, limit, None if kept is None else kept.value)
            self.keep(
                behind(page.records[-1]["SequenceNumber"]) if page.records else position, page.next_iterator
            )
            if page.records or page.at_tip:
                self.empty_pages = 0
                return page
            self._empty_since = self._empty_since if self.empty_pages else time.monotonic()
            self.empty_pages += 1
        return page

    def check_records_come(self) -> None:
        """Checks that :meth:`at` has not read pages without records for too long.

        Raises:
            UnreachableError: It has for ten minutes, or for ``requestTimeout`` if that is longer.
        """
        most = max(_LONGEST_EMPTY_S, self._client.request_timeout_s)
        if self.empty_pages and time.monotonic() > self._empty_since + most:
            raise UnreachableError(
                f"The end of {self._split.split_id} was not found in {most:g} s: the service returned "
                f"{self.empty_pages} pages without records, and says that records follow. Check that the service "
                "works; if the shard had no records for a long time, raise option 'requestTimeout' above this time."
            )

    def first_since(self, position: int, moment: int) -> int:
        """Returns the position of the first record that arrived at ``moment`` (ms) or later, or after the last record.

        Reads all records from ``position`` on.

        Raises:
            UnreachableError: Reading takes longer than ``requestTimeout``.
            NotThereError: The service does not know the position any more.
        """
        began, rows = time.monotonic(), 0
        while time.monotonic() < began + self._client.request_timeout_s:
            page = self.at(position, LARGEST_PAGE)
            for found, arrived in map(position_and_time, page.records):
                if arrived >= moment:
                    return found
                position = found + 1
            if page.at_tip:
                return position
            rows += len(page.records)
        raise UnreachableError(
            f"The first record of {self._split.split_id} that arrived at {moment} ms or later was not found in "
            f"{self._client.request_timeout_s:g} s: the service did not name it, and planning read {rows} records "
            f"before it, and then {self.empty_pages} pages without records. Raise option 'requestTimeout', or begin a "
            "new query at another 'initialPosition'."
        )

    def from_new_iterator(self, position: int, limit: int) -> Page:
        """Returns the page at a position, requested with a new iterator, although one for this position may be kept.

        Raises:
            NotThereError: The service does not know the position any more.
        """
        iterator: str | None = None
        for _ in _paused():
            page = self._page(position, limit, iterator)
            if page.records or page.next_iterator is None or page.at_tip:
                return page
            iterator = page.next_iterator
        return page

    def has_record_before(self, position: int) -> bool:
        """Returns whether the record before a position still exists. If it does, all records after it exist, too."""
        try:
            self.from_new_iterator(position, 1)
        except NotThereError:
            return False
        return self.missing is None

    def _page(self, position: int, limit: int, iterator: str | None) -> Page:
        """Returns the page at ``iterator``, or at ``position`` if the iterator is ``None`` or not valid any more.

        A new iterator after a record begins at this record, to check that it still exists, because the service
        silently goes on at the first existing record. The first pages can be empty.
        """
        record = position - 1 if is_behind(position) else position
        if iterator is None and record < position:
            self._unseen = position
        if self._unseen == position:
            limit = min(limit + 1, LARGEST_PAGE)

        def make_iterator() -> str:
            self._unseen = position if record < position else None
            return self._client.iterator(self._split.stream, self._split.shard_id, record)

        page = self._client.page(self._split.split_id, iterator, limit, make_iterator)
        is_unseen = self._unseen == position
        if page.records or page.at_tip:
            self._unseen = None
        if page.records and position_and_time(page.records[0])[0] < position:
            return replace(page, records=page.records[1:], size=page.size - size_of(page.records[:1]))
        if is_unseen and (page.records or page.at_tip):
            self.missing = position
        return page

    def since(self, moment: int, *, is_needed: bool = False) -> Page | None:
        """Returns a page with the first record that arrived at ``moment`` (ms) or later.

        The page has no records if there is no such record.

        The result is ``None`` if the service does not answer. For ``is_needed`` see
        :meth:`KinesisClient.iterator_at_time`.

        Raises:
            UnreachableError: The service does not give the page, or not an iterator that ``is_needed``.
        """
        split = self._split
        make_iterator = partial(
            self._client.iterator_at_time,
            split.stream,
            split.shard_id,
            moment,
            is_needed=is_needed,
        )
        iterator: str | None = None
        for _ in _paused():
            try:
                page = self._client.page(split.split_id, iterator, 1, make_iterator)
            except NotThereError:
                return _NOTHING
            except SilentError:
                return None
            if page.records:
                return page
            if page.at_tip or page.next_iterator is None:
                return _NOTHING
            iterator = page.next_iterator
        return None

    @property
    def times_are_silent(self) -> bool:
        """Whether a recent request for the first record at a time got no answer."""
        return self._client.times_are_silent(self._split.stream, self._split.shard_id)


def _paused() -> Iterator[None]:
    """Yields as often as a page without records may be followed by the next one, after a pause that grows."""
    for empty in range(_EMPTY_PAGES):
        yield
        time.sleep(doubled_pause(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, empty))


def position_and_time(record: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the position before a record of boto3, and the time (ms) at which it arrived."""
    return before(record["SequenceNumber"]), to_ms(record["ApproximateArrivalTimestamp"])
