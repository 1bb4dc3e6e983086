"""The search for positions by the timestamps of records in its simple form: log by log, record by record."""

from __future__ import annotations

from flip27_stream.connectors.kafka.client.protocol import MAX_TIMESTAMP, OffsetAndTimestamp
from flip27_stream.connectors.kafka.event_time.positions import Locator, Lookup, Search, SplitSearch


class TimestampIndex(Locator):
    """Asks the time index of the broker (ListOffsets) where the records with an event time begin.

    ListOffsets answers with the first matching record of the whole log. This may be a transaction marker, an aborted
    record, a record with an implausible timestamp, or a record before the position. So the answer is only the offset at
    which to begin reading, or shows that no record matches; the search reads the record itself before it uses it.
    """

    def skip(self, search: SplitSearch, low: int, high: int, event_time: int) -> Search[int]:
        answer = yield Lookup(event_time)
        if not isinstance(answer, OffsetAndTimestamp):
            return low
        return high if answer.offset < 0 else max(low, min(answer.offset, high))

    def look_for_greatest(self, search: SplitSearch, first: int) -> Search[None]:
        answer = yield Lookup(MAX_TIMESTAMP)
        if isinstance(answer, OffsetAndTimestamp) and first <= answer.offset < search.end:
            hit = yield from search.scan(answer.offset, answer.offset + 1, answer.timestamp)
            if hit.time is not None:
                return
        yield from search.look_at_tail(first)
