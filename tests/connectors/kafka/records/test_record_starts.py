"""Where records begin in batches (magic 2) is found in lanes, by comparison with the first batch, and by a loop."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from flip27_stream.connectors.kafka.records import record_lanes, record_starts, records_scalar
from flip27_stream.connectors.kafka.records.record_lanes import BatchSpans
from flip27_stream.connectors.kafka.records.varints import MalformedError
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import (
    T0,
    BatchRow,
    all_rows,
    patched,
    some_rows,
    v2,
)


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_values_that_look_like_records_are_values(batch_size: int) -> None:
    """Values and keys contain whole records, zeros, and bytes as at the end of a record. All rows are right."""
    decoy = v2([BatchRow(i, T0 + i, None, b"x" * (50 + i)) for i in range(4)])[61:]
    values = [
        decoy,
        b"plain" * 20,
        bytes(30),
        None,
        b"\x00" + decoy,
        decoy[:-1],
        b"y" * 70 + b"\x00",
        b"z" * 64,
    ]
    rows = [
        BatchRow(i, T0 + i, decoy[:40] if i % 11 == 3 else None, values[i * i % 8] if i % 3 else b"v" * 90)
        for i in range(256)
    ]
    log = b"".join(v2(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size))
    assert all_rows(log) == rows


def test_a_value_that_ends_like_a_record_is_a_value() -> None:
    """The length of the first record takes three bytes, and another record seems to begin in its value."""
    decoy = (
        b"\x00" + bytes([0x90, 0x01]) + b"\x00" + b"y" * 70
    )  # 72 bytes with the header count behind the value
    rows = [BatchRow(0, T0, None, b"x" * 9000 + decoy), *some_rows(40, 1)]
    assert all_rows(v2(rows)) == rows


@pytest.mark.parametrize("headers", [(), (("trace", b"0123456789abcdef"), ("null", None))])
@pytest.mark.parametrize("batch_size", [100, 500, 2000])
def test_lanes_and_loop_find_the_same_records(
    monkeypatch: pytest.MonkeyPatch, headers: tuple[tuple[str, bytes | None], ...], batch_size: int
) -> None:
    """Records of many sizes are found without the loop, and the loop alone finds the same records."""
    monkeypatch.setattr(record_lanes, "_RECORDS_OF_STEP", 1)
    rows = [BatchRow(i, T0 + i // 3, b"key", b"v" * (i * 37 % 200), headers) for i in range(4000)]
    log = b"".join(v2(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size))
    with monkeypatch.context() as patch:
        patch.setattr(record_starts, "_follow", None)
        assert all_rows(log) == rows
    monkeypatch.setattr(record_lanes, "_LONGEST_PAIR", 0)
    assert all_rows(log) == rows


def test_a_lane_begins_where_a_record_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes within values look like the beginnings of records. Their paths lead to records, from which lanes begin."""
    monkeypatch.setattr(record_lanes, "_RECORDS_OF_STEP", 1)
    monkeypatch.setattr(record_starts, "_follow", None)
    decoy = bytes([2 * 46, 0]) + b"y" * 40 + bytes([2 * 30, 0]) + b"y" * 20
    rows = [BatchRow(i, T0 + i, None, decoy[i % 7 :]) for i in range(3000)]
    assert all_rows(v2(rows)) == rows


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of records of each batch that the loop has read."""
    counts: list[int] = []
    follow = record_starts._follow

    def watched(data: memoryview, at: int, count: int, bodies: array[int], ends: array[int]) -> None:
        counts.append(count)
        follow(data, at, count, bodies, ends)

    monkeypatch.setattr(record_starts, "_follow", watched)
    return counts


def test_batches_are_laid_out_like_the_first_one_or_not(looped: list[int]) -> None:
    """The loop reads the first batch, and a batch of the same size whose records have other sizes."""
    rows = [BatchRow(i, T0, None, b"v" * (20 if i // 60 != 3 else 10 + 20 * (i % 2))) for i in range(600)]
    assert all_rows(b"".join(v2(rows[i : i + 60]) for i in range(0, len(rows), 60))) == rows
    assert looped == [60, 60]


@pytest.mark.parametrize("size", [7_000, 8_180, 9_000, 70_000, 1_100_000])
def test_large_records_are_laid_out_like_those_of_the_first_batch(
    monkeypatch: pytest.MonkeyPatch, looped: list[int], size: int
) -> None:
    """Lengths of two, three and four bytes are compared. The loop reads the first batch only."""
    monkeypatch.setattr(records_scalar, "FEW", 0)
    rows = [BatchRow(i, T0, None, bytes([97 + i]) * (size + 300 * (i % 3))) for i in range(12)]
    assert all_rows(b"".join(v2(rows[i : i + 3]) for i in range(0, len(rows), 3))) == rows
    assert looped == [3]


@pytest.mark.parametrize("largest", [4_000, 9_500])
def test_values_of_many_sizes_are_found_in_lanes(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    """Records of some kilobytes, each of another size, are found without the loop, also if some lengths take three
    bytes.
    """
    sizes = np.random.default_rng(27).integers(200, largest, 2000).tolist()
    rows = [BatchRow(i, T0 + i, None, b"v" * size) for i, size in enumerate(sizes)]
    log = b"".join(v2(rows[i : i + 20]) for i in range(0, len(rows), 20))
    monkeypatch.setattr(record_starts, "_follow", None)
    assert all_rows(log) == rows


@pytest.mark.parametrize("length", [b"\x13", b"\x93\x01", b"\x93\x81\x01", b"\xff\xff\xff\xff\x0f"])
def test_a_negative_length_is_refused(length: bytes) -> None:
    """The loop refuses a record of negative length, however many bytes the number takes."""
    with pytest.raises(MalformedError, match="negative length"):
        record_starts._follow(memoryview(length + bytes(40)), 0, 1, array("q"), array("q"))


def test_a_length_beyond_32_bits_is_not_its_remainder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of n bytes whose length field says 2**32 + n, in five bytes, is refused."""
    monkeypatch.setattr(records_scalar, "FEW", 0)
    record = bytes([0x80 | 2 * 26, 0x80, 0x80, 0x80, 0x00, 0, 0, 0, 1, 40]) + b"v" * 20 + b"\x00"
    logs = [patched(v2(some_rows(1, i)), count=1, records=record) for i in range(3)]
    assert len(all_rows(b"".join(logs))) == 3
    damaged = bytearray(record)
    damaged[4] |= 0x20
    logs[2] = patched(logs[2], records=bytes(damaged))
    with pytest.raises(CorruptRecordError, match="offset 2 of"):
        all_rows(b"".join(logs))


def test_a_walk_takes_no_longer_than_a_loop() -> None:
    """The only lane waits at every second record. The walk stops early, because the loop is faster there."""
    rows = [BatchRow(i, T0, None, b"v" * (9_000 if i % 2 else 10 + i % 5)) for i in range(2_000)]
    buffer = np.frombuffer(v2(rows)[61:], np.uint8)
    visited = record_lanes._walk(buffer, np.array([0]), np.array([len(buffer)]), len(rows))
    assert visited.shape[1] <= len(rows) / record_lanes._RECORDS_OF_STEP + 2 * record_lanes._STEPS


@pytest.mark.parametrize("value", [b"\x0e\x00" * 1000, b"\x0e\x00\x00\x00" * 500, bytes(2000)])
def test_batches_of_large_records_are_not_searched_for_cuts(
    monkeypatch: pytest.MonkeyPatch, value: bytes
) -> None:
    """Binary values of some kilobytes may have thousands of places that look like the beginning of a record."""
    monkeypatch.setattr(record_lanes, "_RECORDS_OF_STEP", 1)
    monkeypatch.setattr(record_lanes, "_starts_near", None)
    rows = [BatchRow(i, T0, None, value[i % 50 :]) for i in range(600)]
    assert all_rows(v2(rows)) == rows


@pytest.mark.parametrize("wrong", [-1, 1])
def test_records_must_fill_their_batch(wrong: int) -> None:
    """Records whose lengths do not add up to the size of their batch are refused."""
    rows = [BatchRow(i, T0 + i, None, b"v" * (100 + 13 * i)) for i in range(20)]
    data = np.frombuffer(b"".join(v2(rows[i : i + 10])[61:] for i in (0, 10)) + bytes(8), np.uint8)
    middle = len(v2(rows[:10])) - 61
    spans = BatchSpans(np.array([0, middle]), np.array([middle, len(data) - 8 + wrong]), np.array([10, 10]))
    with pytest.raises(MalformedError, match="contradict"):
        record_starts.find_records(data, spans)
