"""Logs that several producers wrote in and out of transactions: read_committed gives the committed rows.

They are kafka-python's rows, too, wherever a fetch begins and in however many steps it is decoded (I12).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import TopicPartition
from kafka.consumer.fetcher import Fetcher, IsolationLevel
from kafka.record import MemoryRecords

from flip27_stream.connectors.kafka.records.record_batches import decode
from tests.connectors.kafka.support.batch_bytes import (
    CONTROL,
    END,
    GZIP,
    LZ4,
    SOURCE,
    T0,
    TRANSACTIONAL,
    BatchRow,
    patched,
    rows_of,
    some_rows,
    v2,
)
from tests.support.exploring import examples

PRODUCERS = [7, 8, 2**62]


class Transaction(NamedTuple):
    """An aborted transaction as a broker reports it: from its first record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class History(NamedTuple):
    """A log's batches with their first offsets, its committed rows, its aborted transactions, and its end."""

    batches: list[tuple[int, bytes]]
    committed: list[BatchRow]
    aborted: list[Transaction]
    end: int = 0

    @property
    def offsets(self) -> list[int]:
        return [offset for offset, _ in self.batches]

    def fetched_at(self, start: int) -> tuple[bytes, list[Transaction]]:
        """Returns a broker's answer: batches from the one that has ``start`` on, and the aborted transactions that
        overlap with them.
        """
        first = max(offset for offset in self.offsets if offset <= start)
        data = b"".join(batch for offset, batch in self.batches if offset >= first)
        return data, [transaction for transaction in self.aborted if transaction.last_offset >= start]


class _Writing:
    """A log that grows by one batch at a time."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._offset = draw(st.sampled_from([0, 1000]))
        self._open: dict[int, list[BatchRow]] = {}
        self.history = History([], [], [])

    def write(self, what: str, producer: int) -> None:
        if what == "end" and producer not in self._open:
            return
        at = self._offset + self._draw(st.sampled_from([0, 0, 0, 5]))
        rows = some_rows(self._draw(st.integers(1, 3)), at, b"%d" % at)
        codec = self._draw(st.sampled_from([0, 0, GZIP, LZ4]))
        if what == "end":
            batch, rows = self._end(producer, at), rows[:1]
        elif what == "plain":
            batch = v2(rows, codec, producer=self._draw(st.sampled_from([-1, producer])))
            self.history.committed.extend(rows)
        elif what == "emptied":  # compaction keeps the last batch of a producer, without records
            batch = patched(v2(rows, producer=producer), attributes=TRANSACTIONAL, records=b"", count=0)
        else:
            batch = v2(rows, codec, TRANSACTIONAL, producer)
            self._open.setdefault(producer, []).extend(rows)
        self.history.batches.append((at, batch))
        self._offset = rows[-1].offset + 1
        self.history = self.history._replace(end=self._offset)

    def _end(self, producer: int, at: int) -> bytes:
        rows, commits = self._open.pop(producer), self._draw(st.booleans())
        if commits:
            self.history.committed.extend(rows)
        else:
            self.history.aborted.append(Transaction(producer, rows[0].offset, at))
        kind = struct.pack(">hh", 0, int(commits))
        row = BatchRow(at, T0 + 10**9, kind, struct.pack(">hi", 0, 0))
        return v2([row], attributes=TRANSACTIONAL | CONTROL, producer=producer)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draws a log in which each producer has one transaction at a time. All transactions end, since a broker hides
    records behind an open one.
    """
    log = _Writing(draw)
    log.write("plain", 7)
    what = st.sampled_from(["transactional"] * 3 + ["end", "plain", "emptied"])
    for step in draw(st.lists(st.tuples(what, st.sampled_from(PRODUCERS)), max_size=25)):
        log.write(*step)
    for producer in PRODUCERS:
        log.write("end", producer)
    return log.history._replace(committed=sorted(log.history.committed))


def in_steps(
    data: bytes, start: int, stop: int, aborted: list[tuple[int, int]] | None, enough: int
) -> list[BatchRow]:
    """Returns the rows, decoded a few at a time, as a reader does it."""
    whole, found = decode(data, start, stop, source=SOURCE, aborted=aborted), list[BatchRow]()
    while start < whole.next_offset:
        part = decode(data, start, stop, source=SOURCE, aborted=aborted, headers=True, enough=enough)
        assert start < part.next_offset <= whole.next_offset
        found += rows_of(part)
        start = part.next_offset
    return found


def by_kafka_python(data: bytes, start: int, stop: int, aborted: list[Transaction]) -> list[BatchRow]:
    """Returns the rows that kafka-python's consumer gives."""
    records = Fetcher.PartitionRecords(
        start,
        TopicPartition("clicks", 3),
        MemoryRecords(data),
        isolation_level=IsolationLevel.READ_COMMITTED,
        aborted_transactions=aborted,
    )
    found = [BatchRow(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records.take()]
    return [row for row in found if row.offset < stop]


@settings(max_examples=examples(300))
@given(histories(), st.data())
def test_only_committed_rows_are_read(history: History, data: st.DataObject) -> None:
    """I12, KR-07: the rows are the committed ones, from any offset to any other, in any order of the
    aborted transactions.
    """
    offsets = history.offsets
    start = data.draw(st.sampled_from(offsets) | st.integers(offsets[0], offsets[-1]))
    stop = data.draw(st.just(END) | st.integers(start, offsets[-1] + 2))
    answer, aborted = history.fetched_at(start)
    told = data.draw(st.permutations([(each.producer_id, each.first_offset) for each in aborted]))
    expected = [row for row in history.committed if start <= row.offset < stop]
    decoded = decode(answer, start, stop, source=SOURCE, aborted=told, headers=True)
    assert rows_of(decoded) == expected
    assert decoded.next_offset == min(stop, history.end)
    assert by_kafka_python(answer, start, stop, aborted) == expected
    assert in_steps(answer, start, stop, told, data.draw(st.sampled_from([1, 80, 300]))) == expected
