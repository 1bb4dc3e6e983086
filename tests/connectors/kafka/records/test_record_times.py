"""The offsets and timestamps of the batches of many logs are those of decoding each of them."""

from __future__ import annotations

from random import Random

import pytest

from flip27_stream.connectors.kafka.records import record_times as module
from flip27_stream.connectors.kafka.records.compression import CODECS
from flip27_stream.connectors.kafka.records.record_batches import decode
from flip27_stream.connectors.kafka.records.record_times import record_times
from flip27_stream.connectors.kafka.records.varints import MalformedError
from tests.connectors.kafka.support.batch_bytes import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    SOURCE,
    T0,
    BatchRow,
    patched,
    v2,
)
from tests.support.exploring import examples


def some_batch(rng: Random) -> bytes:
    offset, rows = rng.randrange(1 << 40), list[BatchRow]()
    for _ in range(rng.choice([1, 2, 5, 40])):
        time = rng.choice([T0 + rng.randrange(10_000), rng.randrange(100), -1])
        key = rng.choice([None, b"k", b"k" * 70])
        headers = (("h", b"x" * rng.randrange(80)),) * rng.choice([0, 0, 2])
        rows.append(BatchRow(offset, time, key, b"v" * rng.randrange(200), headers))
        offset += rng.choice([1, 1, 1, 2, 300])
    codec = rng.choice([0, 0, 0, *range(1, len(CODECS))])
    return v2(rows, codec, attributes=rng.choice([0, 0, LOG_APPEND_TIME, DELETE_HORIZON]))


@pytest.mark.parametrize("group", [1, 1000, module._GROUP_BYTES])
def test_times_of_many_batches_are_those_of_each_batch(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GROUP_BYTES", group)
    for seed in range(examples(200)):
        rng = Random(seed)
        batches = [some_batch(rng) for _ in range(rng.choice([1, 2, 9]))]
        found = record_times([memoryview(batch) if rng.random() < 0.5 else batch for batch in batches])
        expected = [decode(batch, 0, 2**62, source=SOURCE).records for batch in batches]
        assert found.counts.tolist() == [len(records) for records in expected]
        assert found.offsets.tolist() == [at for records in expected for at in records.offsets.tolist()]
        times = [max(time, -1) for records in expected for time in records.timestamps.tolist()]
        assert found.times.tolist() == times


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 3},
        {"count": 1},
        {"last_delta": 0},
        {"records": b""},
        {"records": b"\x0c\x00\x00\x04\x01\x01\x00\x0c\x00\x00\x02\x01\x01\x00"},  # offsets fall
        {"records": b"\xff" * 14},
        {"attributes": 4},
        {"attributes": 5},
    ],
    ids=str,
)
def test_batch_that_is_no_batch_is_refused(changes: dict[str, object]) -> None:
    rows = [BatchRow(7, T0, None, None), BatchRow(8, T0, None, None)]
    wrong = patched(v2(rows), base_offset=7, **changes)  # type: ignore[arg-type]
    with pytest.raises(MalformedError):
        record_times([v2(rows), wrong, v2(rows)])
