"""A short run of the mutated responses, and that it would tell if something were wrong."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.mutated_bytes import run
from benchmarks.mutated_bytes.healthy import ASKED, TP, frames
from benchmarks.mutated_bytes.run import PLACES, Cases, compare
from flip27_stream.connectors.kafka.fetching.fetch_responses import read_fetch_response
from flip27_stream.connectors.kafka.records.record_batches import Decoded, decode
from flip27_stream.errors import CorruptRecordError


def test_no_wrong_row_in_damaged_responses() -> None:
    """``python -m benchmarks.mutated_bytes`` reads ten million of them; here it is a fixed start of such a run."""
    findings = compare(6000, seed=13)
    assert findings.wrong == []
    assert findings.responses == 6000
    assert findings.rows > 1000
    outcomes = findings.outcomes
    for place in PLACES:
        assert outcomes[place, "read"] > 100
        assert place == "nowhere" or outcomes[place, "refused"] > 100


def test_the_same_seed_makes_the_same_responses() -> None:
    one, same, other = Cases(1), Cases(1), Cases(2)
    made = [[cases.next() for _ in range(50)] for cases in (one, same, other)]
    assert made[0] == made[1] != made[2]


def test_frames_are_those_of_brokers() -> None:
    """Whatever the size of the records is; from some size on it takes another byte."""
    for frame in frames():
        for size in (0, 126, 127, 200, 20_000):
            response = read_fetch_response(memoryview(frame.around(bytes(size))), frame.version, ASKED)
            assert bytes(response.partitions[TP].records) == bytes(size)


def crash(*_: object, **__: object) -> Decoded:
    raise struct.error("an error of the decoder's own")


def refuse(*_: object, **__: object) -> Decoded:
    raise CorruptRecordError("everything")


def misplace(*arguments: Any, **options: Any) -> Decoded:
    decoded = decode(*arguments, **options)
    return replace(decoded, records=replace(decoded.records, offsets=decoded.records.offsets + 1))


@pytest.mark.parametrize("wrong", [crash, refuse, misplace])
def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    monkeypatch.setattr(run, "decode", wrong)
    findings = compare(3000, seed=1)
    assert len(findings.wrong) >= 20
    assert "damage in" in findings.wrong[0]
