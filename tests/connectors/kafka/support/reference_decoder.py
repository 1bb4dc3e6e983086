"""The rows that kafka-python reads from a response, or Java if kafka-python cannot read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import decode_varint

from tests.connectors.kafka.support.batch_bytes import BatchRow

_NOTHING = 2**63 - 1


def by_kafka_python(
    log: bytes, start: int, stop: int, aborted: Sequence[tuple[int, int]] | None = None
) -> list[BatchRow]:
    """Returns the rows that kafka-python reads, with times as Java computes them, or those of :func:`as_java` if it
    cannot.

    ``aborted`` are transactions (producer id, first offset) whose rows are left out; ``None`` keeps them.
    """
    found: list[BatchRow] = []
    records = MemoryRecords(log)
    reached, transactions = start, None if aborted is None else _Aborted(aborted)
    while reached < stop and (batch := records.next_batch()) is not None and batch.base_offset < stop:
        is_new = isinstance(batch, DefaultRecordBatch)
        reached = batch.last_offset + 1 if is_new else batch.base_offset + 1
        is_aborted = is_new and transactions is not None and transactions.has(batch)
        if reached <= start or is_aborted:
            continue  # batches before ``start`` and aborted ones are not decoded
        if not is_new:
            found += [_row(record, ()) for record in batch]
        elif not batch.is_control_batch:
            found += _rows_of_batch(batch, start, stop)
    return [row for row in found if start <= row.offset < stop]


class _Aborted:
    """Tells which batches belong to aborted transactions (Java's ``CompletedFetch``)."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._to_come = sorted(aborted, key=lambda transaction: transaction[1])
        self._open: set[int] = set()

    def has(self, batch: Any) -> bool:
        while self._to_come and self._to_come[0][1] <= batch.last_offset:
            self._open.add(self._to_come.pop(0)[0])
        if batch.is_control_batch:
            marker = as_java(batch, _NOTHING, _NOTHING) if batch.producer_id in self._open else []
            if marker and (marker[0].key or b"")[2:4] == b"\0\0":
                self._open.remove(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._open


def _rows_of_batch(batch: DefaultRecordBatch, start: int, stop: int) -> list[BatchRow]:
    try:
        again = DefaultRecordBatch(bytes(batch._buffer))
        rows = [_row(record, tuple(record.headers)) for record in again]
    except (CorruptRecordError, UnicodeDecodeError):
        return as_java(batch, start, stop)
    return as_java(batch, start, stop) if _has_wide_attributes(again) else rows


def _has_wide_attributes(batch: DefaultRecordBatch) -> bool:
    """Returns whether the attributes of a record, which are one byte, would extend to the next byte
    if they were a varint.
    """
    data, at = batch._buffer, 0 if batch.compression_type else DefaultRecordBatch.HEADER_STRUCT.size
    for _ in range(batch.records_count):
        size, at = decode_varint(data, at)
        if data[at] >= 0x80:
            return True
        at += size
    return False


def as_java(batch: DefaultRecordBatch, start: int, stop: int) -> list[BatchRow]:
    """Returns the rows that Java reads. kafka-python takes the attributes for a varint, and refuses header names that
    are not text.

    Headers of records outside of the range are skipped.
    """
    batch._maybe_uncompress()
    records, at, found = bytes(batch._buffer), batch._pos, []

    def number() -> int:
        nonlocal at
        value, at = decode_varint(records, at)
        return int(value)

    def piece() -> bytes | None:
        nonlocal at
        size = number()
        at += max(size, 0)
        assert at <= len(records)
        return records[at - size : at] if size >= 0 else None

    def header() -> tuple[str, bytes | None]:
        name = piece()
        assert name is not None
        return name.decode(errors="replace"), piece()

    for _ in range(batch.records_count):
        end = number() + at
        at += 1
        time = batch.first_timestamp + number()
        offset = batch.base_offset + number()
        row = BatchRow(
            offset, batch.max_timestamp if batch.timestamp_type else _wrapped(time), piece(), piece()
        )
        if start <= offset < stop:
            row = row._replace(headers=tuple([header() for _ in range(number())]))
            assert at == end
        at = end
        found.append(row)
    assert at == len(records)
    return found


def _wrapped(time: int) -> int:
    return (time + 2**63) % 2**64 - 2**63


def _row(record: Any, headers: tuple[tuple[str, bytes | None], ...]) -> BatchRow:
    time = -1 if record.timestamp is None else _wrapped(record.timestamp)
    return BatchRow(record.offset, time, record.key, record.value, headers)
