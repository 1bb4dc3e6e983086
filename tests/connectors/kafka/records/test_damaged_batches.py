"""Damaged record batches give a clear error or the rows that are there, and never wrong rows, a
crash or unbounded memory.
"""

from __future__ import annotations

import contextlib
import pickle
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.records import compression
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import (
    END,
    GZIP,
    LZ4,
    SNAPPY,
    SOURCE,
    T0,
    ZSTD,
    BatchRow,
    all_rows,
    batches,
    one_by_one,
    patched,
    rows_of,
    some_rows,
    v2,
)
from tests.support.exploring import examples


def test_checksum_is_checked_unless_told_otherwise() -> None:
    batch = bytearray(v2(some_rows(2, 40)))
    batch[-10] ^= 1
    with pytest.raises(CorruptRecordError, match=f"offset 40 of {SOURCE}: its checksum") as caught:
        all_rows(bytes(batch))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert len(all_rows(bytes(batch), check_crcs=False)) == 2


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"count": 2**31 - 1}, "2147483647 records can't be in"),
        ({"count": -1}, "record count of -1"),
        ({"count": 1}, "lengths contradict"),
        ({"count": 3}, "exceeds its batch|contradict|bytes are left"),
        ({"last_delta": 0}, "don't rise"),
        ({"last_delta": -1}, "last offset is 99"),
        ({"attributes": 5}, "the compression codec 5 is not known"),
        ({"attributes": ZSTD}, "zstd data is damaged"),
        ({"attributes": LZ4}, "lz4 data is damaged"),
        ({"attributes": GZIP}, "gzip data is damaged"),
        ({"attributes": SNAPPY}, "snappy data is damaged"),
        ({"records": bytes([12, 0, 0, 0, 1, 1, 1]) * 2}, "header|fields"),
        ({"records": bytes([12, 0, 0, 0, 1, 1, 0]) * 2}, "don't rise"),
        ({"records": b"\xff" * 40}, "more than 5 bytes"),
        ({"records": bytes([11, 0, 0, 0, 1, 1, 0]) * 2}, "negative length"),
    ],
)
def test_an_error_names_the_damaged_batch(changes: dict[str, Any], wrong: str) -> None:
    """The error names the damaged batch, and not the one before it. The checksum of the batch is right."""
    log = v2(some_rows(90)) + patched(v2(some_rows(2, 100)), **changes)
    with pytest.raises(CorruptRecordError, match=f"offset 100 of {SOURCE}.*({wrong})"):
        all_rows(log)


def test_unknown_magic_and_impossible_sizes_are_refused() -> None:
    batch = bytearray(v2(some_rows(2, 100)))
    batch[16] = 3
    with pytest.raises(CorruptRecordError, match="unknown magic 3"):
        all_rows(bytes(batch))
    batch[16] = 2
    struct.pack_into(">i", batch, 8, 10)
    with pytest.raises(CorruptRecordError, match="size of 22 bytes"):
        all_rows(bytes(batch))


def test_batches_out_of_order_are_refused() -> None:
    with pytest.raises(CorruptRecordError, match=r"offset 4 .*ends at offset 4"):
        all_rows(v2(some_rows(5)) + v2(some_rows(1, 4)))


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_batch_that_is_too_large_when_decompressed_is_refused(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch that is too large when it is decompressed is refused. Of several that are too large together, the
    later ones are left for the next fetch.
    """
    monkeypatch.setattr(compression, "LARGEST_BATCH", 1 << 20)
    monkeypatch.setattr("flip27_stream.connectors.kafka.records.record_batches.LARGEST_BATCH", 1 << 20)
    with pytest.raises(CorruptRecordError, match="more than 1048576 bytes"):
        all_rows(v2([BatchRow(0, T0, None, bytes(2 << 20))], codec))
    rows = [BatchRow(i, T0, None, bytes(700_000)) for i in range(5)]
    log = b"".join(v2([row], codec) for row in rows)
    decoded = decode(log, 0, END, source=SOURCE, headers=True)
    assert rows_of(decoded) == rows[:2]
    assert decoded.next_offset == 2
    assert all_rows(log, 2) == rows[2:4]


@settings(max_examples=examples(300))
@given(batches(most_rows=50), st.data())
def test_damaged_bytes_give_their_rows_or_an_error(groups: list[list[BatchRow]], data: st.DataObject) -> None:
    """The checksum is made to fit the damage. The decoder gives the rows that are there or an
    error, and never crashes.
    """
    rows = groups[0]
    batch = v2(rows)
    records = bytearray(batch[61:])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, min(len(records) - 1, 400)))
        records[at] = data.draw(st.integers(0, 255))
    codec = data.draw(st.sampled_from([0, GZIP, ZSTD]))
    mutated = patched(batch, base_offset=rows[0].offset, codec=codec, records=bytes(records))
    try:
        found = all_rows(mutated)
    except CorruptRecordError:
        return
    assert found == one_by_one(bytes(records), rows, len(rows))


@settings(max_examples=examples(200))
@given(st.binary(max_size=200), st.integers(0, 4), st.integers(0, 40))
def test_random_records_give_an_error(records: bytes, codec: int, count: int) -> None:
    """Random bytes in place of records, compressed or not, are an error unless they are records by chance."""
    batch = v2(some_rows(1))
    log = patched(batch, codec=codec, records=records, count=count, last_delta=2**31 - 1)
    try:
        found = all_rows(log)
    except CorruptRecordError:
        return
    assert not count or found == one_by_one(records, some_rows(1), count)


@settings(max_examples=examples(200))
@given(st.binary(max_size=300))
def test_random_responses_never_crash_the_decoder(noise: bytes) -> None:
    for check in (True, False):
        with contextlib.suppress(CorruptRecordError):
            decode(noise, 0, END, source=SOURCE, aborted=[(0, 0)], headers=True, check_crcs=check)
