"""Few records, read one by one, have the same offsets and times as in numpy's columns, or the same error. No JVM."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.records import record_batches, records_scalar
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import (
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    BatchRow,
    batches,
    patched,
    rows_of,
    some_rows,
    v2,
)
from tests.connectors.kafka.support.damage import logs
from tests.support.exploring import examples

END = 2**63 - 1


def times(data: bytes, start: int = 0, stop: int = END) -> object:
    decoded = decode(data, start, stop, source="t-0", keys=False, values=False, check_crcs=False)
    r = decoded.records
    return decoded.next_offset, r.offsets.tolist(), r.timestamps.tolist(), r.timestamp_types.tolist()


def rows(data: bytes, start: int = 0, stop: int = END) -> object:
    decoded = decode(data, start, stop, source="t-0", headers=True, check_crcs=False)
    return decoded.next_offset, decoded.records.timestamp_types.tolist(), rows_of(decoded)


Reading = Callable[[bytes, int, int], object]


def both(data: bytes, start: int = 0, stop: int = END, read: Reading = times) -> tuple[object, object]:
    """Returns the outcomes with and without the path for few records."""
    found = []
    for are_few in (records_scalar.are_few, lambda *_: False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_batches, "are_few", are_few)
            try:
                found.append(read(data, start, stop))
            except CorruptRecordError:
                found.append("corrupt")
    return found[0], found[1]


@given(batches(most_rows=5), st.data())
def test_rows_are_those_of_the_columnar_path(groups: list[list[BatchRow]], data: st.DataObject) -> None:
    log = b"".join(v2(rows) for rows in groups)
    first, last = groups[0][0].offset, groups[-1][-1].offset
    low = data.draw(st.integers(max(first - 2, 0), last + 2))
    high = data.draw(st.integers(low, last + 2))
    for read in (times, rows):
        few, columns = both(log, low, high, read)
        assert few == columns


@given(batches(most_rows=3), st.sampled_from([GZIP, SNAPPY, LZ4, ZSTD]))
def test_rows_of_compressed_batches_are_those_of_the_columnar_path(
    groups: list[list[BatchRow]], codec: int
) -> None:
    few, columns = both(b"".join(v2(each, codec) for each in groups), read=rows)
    assert few == columns


@settings(max_examples=examples(300))
@given(logs())
def test_both_paths_refuse_the_same_batches(log: tuple[bytes, int, int]) -> None:
    """Both paths refuse the same batches when keys, values and headers are wanted."""
    few, columns = both(*log, read=rows)
    assert few == columns


def test_large_values_are_read_in_columns() -> None:
    """Large values are read in columns, for records that are read one by one are copied once more."""
    assert len(v2(some_rows(2, value=bytes(40_000)))) > records_scalar._SMALL
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "read_few", None)
        assert rows(v2(some_rows(2, value=bytes(40_000))))
        with pytest.raises(TypeError):
            times(v2(some_rows(2, value=bytes(40_000))))


@given(st.data())
def test_damaged_bytes_never_give_wrong_times(data: st.DataObject) -> None:
    """Batches that the columns refuse are refused. Wrong lengths are never followed out of the batch."""
    damaged = bytearray(v2(some_rows(3, value=b"v" * 9)))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(61, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    few, columns = both(bytes(damaged))
    assert few == columns or columns == "corrupt"


def test_times_wrap_as_in_kafka() -> None:
    batch = v2([BatchRow(0, 2**62, None, b"")], base_timestamp=-(2**62))
    delta = bytes([0xFF] * 9 + [0x01])
    few, columns = both(patched(batch, base_timestamp=-5, records=bytes([30, 0]) + delta + batch[64:]))
    assert few == columns == (1, [0], [2**63 - 5], [0])


def test_times_of_the_broker_are_those_of_the_columnar_path() -> None:
    few, columns = both(v2(some_rows(3), attributes=0x08))
    assert few == columns
