"""Ordinary batches are found in columns. The rows are those of the way that looks at one header after the other."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.records import compression, record_batches, records_scalar
from flip27_stream.connectors.kafka.records.data_batches import plain_batches
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.errors import CorruptRecordError
from flip27_stream.testing.kafka.bulk import encode_batch
from tests.connectors.kafka.support.batch_bytes import END, SOURCE, rows_of
from tests.connectors.kafka.support.damage import logs
from tests.support.exploring import examples


@pytest.fixture(autouse=True)
def _many_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_scalar, "FEW", 0)
    monkeypatch.setattr(compression, "LARGEST_BATCH", 8 << 20)
    monkeypatch.setattr(record_batches, "LARGEST_BATCH", 8 << 20)


def outcome(log: bytes, start: int, stop: int, **options: Any) -> Any:
    """Returns rows and next offset, or the text of the error."""
    try:
        decoded = decode(log, start, stop, source=SOURCE, headers=True, **options)
    except CorruptRecordError as error:
        return str(error)
    return rows_of(decoded), decoded.next_offset


@settings(max_examples=examples(400))
@given(logs(), st.sampled_from([None, 1, 200]))
def test_both_ways_give_the_same_rows_offsets_and_errors(
    log: tuple[bytes, int, int], enough: int | None
) -> None:
    quick = outcome(*log, enough=enough)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_batches, "plain_batches", lambda *_, **__: None)
        assert quick == outcome(*log, enough=enough)


def ordinary(*, count: int = 3, size: int = 4) -> bytes:
    """Returns a log of ``count`` batches of ``size`` records, with offsets from 0."""
    log = b""
    for number in range(count):
        batch = bytearray(encode_batch(np.arange(size) + 1_000, pa.array([b"v"] * size, pa.binary())))
        batch[:8] = (number * size).to_bytes(8, "big")
        log += batch
    return log


@pytest.mark.parametrize(
    ("start", "stop", "enough", "batches", "next_offset"),
    [
        (0, END, 1 << 20, [0, 4, 8], 12),
        (4, END, 1 << 20, [4, 8], 12),
        (5, 8, 1 << 20, [4], 8),
        (0, 6, 1 << 20, [0, 4], 6),
        (0, END, 1, [0], 4),
    ],
)
def test_the_batches_of_a_range_are_found(
    start: int, stop: int, enough: int, batches: list[int], next_offset: int
) -> None:
    found = plain_batches(memoryview(ordinary()), start, stop, enough, check_crcs=True)
    assert found is not None
    assert found[0].first_offsets.tolist() == batches
    assert min(found[1], stop) == next_offset


def test_a_batch_that_is_cut_off_is_left_out() -> None:
    found = plain_batches(memoryview(ordinary()[:-1]), 0, END, 1 << 20, check_crcs=True)
    assert found is not None
    assert found[0].first_offsets.tolist() == [0, 4]


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(lambda log: log[:100], id="a batch that is cut off"),
        pytest.param(lambda log: log[:16] + b"\x09" + log[17:100], id="a cut-off batch of unknown magic"),
        pytest.param(
            lambda log: log[:57] + b"\xff" * 4 + log[61:100], id="a cut-off batch with a negative count"
        ),
        pytest.param(lambda log: log[:16] + b"\x09" + log[17:40], id="a cut-off header of unknown magic"),
        pytest.param(lambda _: old_message(), id="a small message of magic 1"),
    ],
)
def test_what_follows_ordinary_batches_is_not_overlooked(
    tail: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ordinary(count=2) + tail(ordinary(count=3)[len(ordinary(count=2)) :])
    quick = outcome(log, 0, END)
    monkeypatch.setattr(record_batches, "plain_batches", lambda *_, **__: None)
    assert quick == outcome(log, 0, END)


def old_message() -> bytes:
    """Returns a message of magic 1 with offset 8, and with null key and value."""
    checked = struct.pack(">bbqii", 1, 0, 1_000, -1, -1)
    return struct.pack(">qiI", 8, len(checked) + 4, zlib.crc32(checked)) + checked


def test_a_few_records_are_left_to_the_decoder_of_few() -> None:
    """Columns take some hundred microseconds even for a single record."""
    assert plain_batches(memoryview(ordinary()), 0, END, 1 << 20, more_than=11) is not None
    assert plain_batches(memoryview(ordinary()), 0, END, 1 << 20, more_than=12) is None


@pytest.mark.parametrize(
    ("place", "byte"),
    [(7, 9), (11, 1), (16, 1), (17, 0xAA), (22, 0x20), (22, 0x04), (26, 0xFF), (60, 0)],
    ids=["offset", "size", "magic", "crc", "marker", "codec", "last offset", "count"],
)
def test_batches_that_are_not_ordinary_are_left_to_the_other_way(place: int, byte: int) -> None:
    log = bytearray(ordinary())
    log[place] = byte
    assert plain_batches(memoryview(log), 0, END, 1 << 20, check_crcs=place == 17) is None
