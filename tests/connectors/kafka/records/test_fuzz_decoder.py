"""Mutated record batches: the decoder gives kafka-python's rows, or raises CorruptRecordError.

It never gives wrong rows, hangs, crashes, or takes more memory than the input justifies. ``FLIP27_EXPLORE=1`` draws
other examples in each run.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from benchmarks.mutated_bytes.damage import bombs
from flip27_stream.connectors.kafka.records import (
    binary_columns,
    compression,
    record_batches,
    record_headers,
    record_lanes,
    record_starts,
    records_scalar,
)
from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords, decode
from flip27_stream.errors import CorruptRecordError
from tests.connectors.kafka.support.batch_bytes import END, SOURCE, BatchRow, rows_of
from tests.connectors.kafka.support.damage import logs, old_logs
from tests.connectors.kafka.support.reference_decoder import by_kafka_python
from tests.support.exploring import examples

_MORE_MEMORY = 4 << 30


@pytest.fixture(autouse=True, scope="module")
def _bounded_memory() -> Iterator[None]:
    """Limits the memory of the process: a decoder that takes far more than the input justifies gets a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MORE_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LARGEST_BATCH", 8 << 20)
    monkeypatch.setattr(record_batches, "LARGEST_BATCH", 8 << 20)


@pytest.fixture(params=["few", "many", "large"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the decoder read few records as it reads many or large ones."""
    if request.param != "few":
        monkeypatch.setattr(records_scalar, "FEW", 0)
        monkeypatch.setattr(record_lanes, "_RECORDS_OF_STEP", 0)
        monkeypatch.setattr(record_lanes, "_RECORDS_OF_LANE", 2)
        monkeypatch.setattr(record_lanes, "_HOPS", 1)
        monkeypatch.setattr(record_headers, "_FEW_RECORDS", 1)
    if request.param == "large":
        monkeypatch.setattr(record_starts, "_MANY", 1)
        monkeypatch.setattr(record_starts, "_FEWEST_RUNS", 3)
        monkeypatch.setattr(record_starts, "_SHORT_RUN", 2)
        monkeypatch.setattr(binary_columns, "_LARGE", 0)


def check(log: bytes, start: int, stop: int, **options: Any) -> None:
    """Checks that rows and the next position are right. The decoder may also raise CorruptRecordError."""
    try:
        decoded = decode(log, start, stop, source=SOURCE, headers=True, **options)
    except CorruptRecordError:
        return
    # The decoder did not read behind ``next_offset``.
    assert rows_of(decoded) == by_kafka_python(log, start, min(stop, decoded.next_offset))
    assert start <= decoded.next_offset <= max(start, stop)
    check_columns(log, start, stop, decoded)


def check_columns(log: bytes, start: int, stop: int, whole: DecodedRecords) -> None:
    """Checks that offsets and times are the same when they are read alone, and rows the same when they are
    read a few at a time.
    """
    alone = decode(log, start, stop, source=SOURCE, keys=False, values=False)
    assert alone.next_offset == whole.next_offset
    assert alone.records.offsets.tolist() == whole.records.offsets.tolist()
    assert alone.records.timestamps.tolist() == whole.records.timestamps.tolist()
    found: list[BatchRow] = []
    more = None
    while start < whole.next_offset:
        some = decode(log, start, stop, source=SOURCE, headers=True, enough=1) if more is None else more()
        more = some.more
        found += rows_of(some)
        assert some.next_offset > start
        start = some.next_offset
    assert found == rows_of(whole)


@pytest.mark.usefixtures("small_batches", "ways")
@settings(max_examples=examples(400))
@given(logs())
def test_damaged_record_batches_never_crash_the_decoder(log: tuple[bytes, int, int]) -> None:
    check(*log)


@pytest.mark.usefixtures("small_batches")
@settings(max_examples=examples(300))
@given(old_logs())
def test_damaged_messages_of_older_formats_never_crash_the_decoder(log: bytes) -> None:
    check(log, 0, 2**63 - 1)


def test_most_damage_gets_past_the_checksums() -> None:
    """Most damage is found behind the checksums. Otherwise the tests above would only test checksums."""
    found: Counter[str] = Counter()

    @settings(max_examples=200)  # fewer would not tell a share
    @given(logs().map(lambda drawn: drawn[0]) | old_logs())
    def look(log: bytes) -> None:
        try:
            found["rows"] += len(decode(log, 0, END, source=SOURCE, headers=True).records) > 0
        except CorruptRecordError as error:
            found["checksum" if "checksum" in str(error) else "deeper"] += 1

    look()
    assert found["deeper"] > 3 * found["checksum"], found
    assert min(found["rows"], found["deeper"]) > found.total() / 5


@pytest.mark.long
@pytest.mark.parametrize("codec", compression.CODECS[1:])
def test_a_decompression_bomb_is_refused(codec: str) -> None:
    """A batch that is small enough for a fetch is refused if it decompresses to more than 256 MiB."""
    bomb = bombs(2 * compression.LARGEST_BATCH)[codec]
    with pytest.raises(CorruptRecordError, match=f"offset 0 of {SOURCE}.*more than 268435456 bytes"):
        decode(bomb, 0, END, source=SOURCE)
