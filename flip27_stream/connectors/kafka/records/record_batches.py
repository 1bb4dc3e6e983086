"""Decodes the records of a FetchResponse into columns, without an object per record.

A broker answers a fetch with whole record batches as they are in its log. The first batch may begin before the offset
of the fetch, the last one may be cut off, and transaction markers and records of aborted transactions are included.
:func:`decode` treats them as Kafka's consumer does (``CompletedFetch``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from flip27_stream.connectors.kafka.records import records_scalar, records_v0_v1
from flip27_stream.connectors.kafka.records.batch_headers import (
    CRC_FROM,
    HEADER_SIZE,
    BatchHeader,
    batch_headers,
    corrupt,
)
from flip27_stream.connectors.kafka.records.compression import (
    LARGEST_BATCH,
    DecompressionBuffer,
    expected_room,
)
from flip27_stream.connectors.kafka.records.data_batches import (
    RECORD_COLUMNS_BYTES,
    DataBatches,
    plain_batches,
)
from flip27_stream.connectors.kafka.records.record_columns import (
    LocatedRecords,
    RecordColumns,
    WantedColumns,
)
from flip27_stream.connectors.kafka.records.records_scalar import are_few, read_few
from flip27_stream.connectors.kafka.records.varints import Bytes, MalformedError
from flip27_stream.errors import CorruptRecordError

__all__ = ["BatchHeader", "DecodedRecords", "RecordColumns", "batch_headers", "decode"]

_ARROW_LIMIT = 2**31 - 1
_ABORT = b"\x00\x00"


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """The decoded records, and the offset of the next fetch.

    Attributes:
        records: The data records.
        next_offset: The offset after the last complete batch, even if that batch has no data records (markers,
            aborted or compacted records), but not above ``stop``. It is ``start`` if the data has no complete batch;
            a larger fetch may then have one.
        end: The offset after the last part of a large batch, if ``records`` are a part of one; else ``next_offset``.
        more: Decodes the next part of a large batch, if ``records`` are a part of one; ``None`` after the last part.
    """

    records: RecordColumns
    next_offset: int
    end: int
    more: Callable[[], DecodedRecords] | None = None


def decode(
    data: bytes | memoryview,
    start: int,
    stop: int,
    *,
    source: str,
    aborted: Sequence[tuple[int, int]] | None = None,
    headers: bool = False,
    keys: bool = True,
    values: bool = True,
    check_crcs: bool = True,
    enough: int | None = None,
) -> DecodedRecords:
    """Returns the records with ``start`` <= offset < ``stop``.

    Damaged data is refused before any row is returned, and before more memory is taken than the data justifies. Only
    the headers of records in the later parts of a large batch are checked later.

    Args:
        data: The records of one partition in a FetchResponse.
        start: The first offset to return.
        stop: The end of the offsets to return (exclusive).
        source: The partition, for errors.
        aborted: The aborted transactions of the response, each as (producer id, first offset), whose records are left
            out; ``None`` to keep them (``read_uncommitted``).
        headers: Whether the column of headers is wanted; headers that are not wanted are not checked.
        keys: Whether the column of keys is wanted.
        values: Whether the column of values is wanted.
        check_crcs: Whether checksums are checked.
        enough: Decoding stops after the batch with which this number of bytes is reached. Counted are the decompressed
            bytes of batches, and :data:`RECORD_COLUMNS_BYTES` for each record. The rest is left for the next call with
            the same data, from ``next_offset`` on. If a large batch makes it a fourth more, the records are copied in
            parts, see :attr:`DecodedRecords.more`. By default the number is 256 MiB.

    Raises:
        CorruptRecordError: The bytes do not follow the format; the message names the offset.
    """
    view = memoryview(data)[:_ARROW_LIMIT]
    enough = LARGEST_BATCH if enough is None else enough
    wanted = WantedColumns(start, stop, keys, values, headers)
    if not aborted and (plain := _plain(view, wanted, source, enough, check_crcs)) is not None:
        return plain
    batches, next_offset = _data_batches(view, start, stop, source, aborted, check_crcs, enough)
    parts, read, inflated, rest = [], 0, 0, None
    while read < len(batches) and inflated < enough and rest is None:
        group = _alike(batches[read:])
        if group[0].magic == 2:
            part, taken, size, rest = _read_v2(view, group, wanted, source, enough)
        else:
            before = batches[read - 1].last_offset if read else -1
            part, taken, size = _read_v0_v1(view, group, wanted, source, check_crcs, enough, before)
        parts.append(part)
        read += taken
        inflated += size
    if read < len(batches):
        next_offset = batches[read - 1].last_offset + 1
    end = min(max(next_offset, start), stop)
    return _with_rest(_concatenated(parts, wanted), rest, end, source, enough)


def _plain(
    view: memoryview, wanted: WantedColumns, source: str, enough: int, check_crcs: bool
) -> DecodedRecords | None:
    """Returns the result of :func:`decode`, made from columns of headers.

    Returns ``None`` if :func:`plain_batches` does, or if a batch is damaged; then :func:`decode` looks at each header.
    """
    few = records_scalar.FEW
    found = plain_batches(view, wanted.start, wanted.stop, enough, more_than=few, check_crcs=check_crcs)
    if found is None:
        return None
    batches, next_offset = found
    try:
        located = LocatedRecords(np.frombuffer(view, np.uint8), batches, wanted)
        records = located.take(enough)
    except MalformedError:
        return None  # It is not known yet which batch is damaged.
    end = min(max(next_offset, wanted.start), wanted.stop)
    return _with_rest(records, located, end, source, enough)


def _with_rest(
    records: RecordColumns, rest: LocatedRecords | None, end: int, source: str, enough: int
) -> DecodedRecords:
    """Returns ``records``, with a function that decodes those of ``rest``. ``end`` is the offset of the next fetch."""
    offset = None if rest is None else rest.next_offset
    if rest is None or offset is None:
        return DecodedRecords(records, end, end)
    return DecodedRecords(records, offset, end, partial(_next_part, rest, offset, end, source, enough))


def _next_part(rest: LocatedRecords, offset: int, end: int, source: str, enough: int) -> DecodedRecords:
    try:
        records = rest.take(enough)
    except MalformedError as error:
        raise corrupt(source, offset, error) from error
    return _with_rest(records, rest, end, source, enough)


def _data_batches(
    view: memoryview,
    start: int,
    stop: int,
    source: str,
    aborted: Sequence[tuple[int, int]] | None,
    check_crcs: bool,
    enough: int,
) -> tuple[list[BatchHeader], int]:
    """Returns the complete batches that may have wanted records, and the offset after the last complete batch."""
    batches: list[BatchHeader] = []
    next_offset = size = 0
    transactions = None if aborted is None else _Transactions(aborted)
    for batch in batch_headers(view, source):
        if not batch.complete:
            break
        if batch.base_offset < next_offset:
            raise corrupt(source, batch.base_offset, f"the batch before it ends at offset {next_offset - 1}")
        if batch.base_offset >= stop and (batch.magic == 2 or not batch.codec):
            next_offset = stop
            break
        next_offset = batch.last_offset + 1
        if check_crcs and batch.magic == 2 and batch.last_offset >= start:
            _check_crc(view, batch, source)
        skip = transactions is not None and batch.magic == 2 and transactions.skip(view, batch, source)
        if not (skip or batch.control or batch.last_offset < start or batch.record_count == 0):
            batches.append(batch)
            size += batch.size + _columns_bytes([batch])
        if next_offset >= stop or size >= enough:
            break
    return batches, next_offset


class _Transactions:
    """Finds the batches that belong to aborted transactions, for isolation level ``read_committed`` (KIP-98)."""

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._to_come = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()  # The ids of producers whose current transaction was aborted.

    def skip(self, view: memoryview, batch: BatchHeader, source: str) -> bool:
        """Returns whether ``batch`` is left out. It must be called for each batch in order, markers included."""
        while self._to_come and self._to_come[-1][1] <= batch.last_offset:
            self._open.add(self._to_come.pop()[0])
        if batch.control:
            if batch.producer_id in self._open and _is_abort_marker(view, batch, source):
                self._open.remove(batch.producer_id)
            return True
        return batch.transactional and batch.producer_id in self._open


def _is_abort_marker(view: memoryview, batch: BatchHeader, source: str) -> bool:
    """Returns whether a transaction marker is ABORT.

    The key of its only record has a version and a type (``ControlRecordType``). Compaction may remove the record.
    """
    if batch.record_count == 0:
        return False
    marker, *_ = _read_v2(view, [batch], WantedColumns(0, batch.last_offset + 1, values=False), source)
    key = marker.keys[0].as_py() if marker.keys else None
    if key is None or len(key) < 4:
        raise corrupt(source, batch.base_offset, f"a transaction marker with key {key!r}")
    return bytes(key[2:4]) == _ABORT


def _alike(batches: list[BatchHeader]) -> list[BatchHeader]:
    """Returns the leading ones of ``batches`` that have the same format, so that one decoder can read them."""
    return list(next(groupby(batches, lambda batch: batch.magic == 2))[1])


def _check_crc(view: memoryview, batch: BatchHeader, source: str) -> None:
    if crc32c(view[batch.position + CRC_FROM : batch.position + batch.size]) != batch.crc:
        raise corrupt(source, batch.base_offset, "its checksum (CRC-32C) doesn't match")


def _read_v2(
    view: memoryview,
    batches: list[BatchHeader],
    wanted: WantedColumns,
    source: str,
    enough: int = LARGEST_BATCH,
) -> tuple[RecordColumns, int, int, LocatedRecords | None]:
    """Returns the records, the number of decoded batches, their size in bytes, and the records that are left.

    The size is that of the decompressed bytes and of the columns. It is 0 without
    compression, since :func:`_data_batches` has limited it before. Records are left if not all were copied; otherwise
    that is ``None``.
    """
    buffer, spans = _payloads(view, batches, source, enough)
    taken = batches[: len(spans)]
    inflated = len(buffer) + _columns_bytes(taken) if any(batch.codec for batch in taken) else 0
    try:
        if are_few(spans, taken, wanted):
            return read_few(buffer, spans, taken, wanted), len(taken), inflated, None
        located = LocatedRecords(buffer, DataBatches.of(taken, spans), wanted)
        records = located.take(enough)
        return records, len(taken), inflated, located if located.next_offset is not None else None
    except MalformedError as error:
        raise _damage(buffer, spans, taken, wanted, source) or corrupt(
            source, taken[0].base_offset, error
        ) from error


def _damage(
    buffer: Bytes,
    spans: list[tuple[int, int]],
    batches: list[BatchHeader],
    wanted: WantedColumns,
    source: str,
) -> CorruptRecordError | None:
    """Returns the error of the first batch that cannot be read; ``None`` for a single batch, or if all can be read."""
    if len(batches) == 1:
        return None
    for i, batch in enumerate(batches):
        try:
            located = LocatedRecords(buffer, DataBatches.of([batch], spans[i : i + 1]), wanted)
            while located.next_offset is not None:
                located.take(LARGEST_BATCH)
        except MalformedError as error:  # noqa: PERF203
            return corrupt(source, batch.base_offset, error)
    return None


def _payloads(
    view: memoryview, batches: list[BatchHeader], source: str, enough: int
) -> tuple[Bytes, list[tuple[int, int]]]:
    """Returns a buffer with the decompressed records of the batches, and the span of each batch in it.

    There are fewer spans than batches if batches are compressed, and the first ones take ``enough`` bytes, decompressed
    and with their columns.
    """
    data = np.frombuffer(view, np.uint8)
    spans = [(batch.position + HEADER_SIZE, batch.position + batch.size) for batch in batches]
    if not any(batch.codec for batch in batches):
        return data, spans
    buffer, columns = DecompressionBuffer(expected_room([high - low for low, high in spans], enough)), 0
    found: list[tuple[int, int]] = []
    try:
        while len(found) < len(batches) and buffer.used + columns < enough:
            columns += _columns_bytes(batches[len(found) : len(found) + 1])
            low, high = spans[len(found)]
            found.append(buffer.add(batches[len(found)].codec, data[low:high]))
    except MalformedError as error:
        raise corrupt(source, batches[len(found)].base_offset, error) from error
    return buffer.bytes, found


def _columns_bytes(batches: Sequence[BatchHeader]) -> int:
    return RECORD_COLUMNS_BYTES * sum(batch.record_count for batch in batches)


def _read_v0_v1(
    view: memoryview,
    batches: list[BatchHeader],
    wanted: WantedColumns,
    source: str,
    check_crcs: bool,
    enough: int,
    before: int,
) -> tuple[RecordColumns, int, int]:
    """Returns the same as :func:`_read_v2`, for batches of magic 0 and 1, which are always decoded whole.

    Raises:
        CorruptRecordError: The data is damaged, or an offset is not above ``before``. The header of compressed messages
            does not have their first offset, so this is checked here.
    """
    messages: list[records_v0_v1.Message] = []
    inflated = taken = 0
    try:
        while taken < len(batches) and inflated < enough:
            found = records_v0_v1.read_messages(view, batches[taken], check_crcs)
            if found[0].offset <= before:
                raise MalformedError(
                    f"it begins at offset {found[0].offset}, the one before it ends at {before}"
                )
            before = batches[taken].last_offset
            messages += found
            inflated += sum(len(message.key or b"") + len(message.value or b"") for message in found)
            inflated += RECORD_COLUMNS_BYTES * len(found)
            taken += 1
    except MalformedError as error:
        raise corrupt(source, batches[taken].base_offset, error) from error
    return records_v0_v1.records(messages, wanted), taken, inflated


def _concatenated(parts: list[RecordColumns], wanted: WantedColumns) -> RecordColumns:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return records_v0_v1.records([], wanted)
    # fmt: off
    return RecordColumns(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.timestamps for part in parts]),
        np.concatenate([part.timestamp_types for part in parts]),
        pa.concat_arrays([part.keys for part in parts]) if wanted.keys else None,
        pa.concat_arrays([part.values for part in parts]) if wanted.values else None,
        pa.concat_arrays([part.headers for part in parts]) if wanted.headers else None,
    )
    # fmt: on
