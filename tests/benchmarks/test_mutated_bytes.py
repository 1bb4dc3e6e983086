"""Tests of ``benchmarks.mutated_bytes``: a short run finds no wrong row, and errors in the decoder are found."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.mutated_bytes import run
from benchmarks.mutated_bytes.healthy import ASKED, TP, frames
from benchmarks.mutated_bytes.run import PLACES, Cases, compare
from flip27_stream.connectors.kafka.fetching.fetch_responses import read_fetch_response
from flip27_stream.connectors.kafka.records.record_batches import DecodedRecords, decode
from flip27_stream.errors import CorruptRecordError


def test_no_wrong_row_in_damaged_responses() -> None:
    """The decoder reads no wrong row from 6,000 damaged fetch responses.

    ``python -m benchmarks.mutated_bytes`` reads as many as its option ``--responses`` says.
    """
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
    """A frame around records of any size is read as a fetch response, also where the length of the records takes
    another byte.
    """
    for frame in frames():
        for size in (0, 126, 127, 200, 20_000):
            response = read_fetch_response(memoryview(frame.around(bytes(size))), frame.version, ASKED)
            assert bytes(response.partitions[TP].records) == bytes(size)


def crash(*_: object, **__: object) -> DecodedRecords:
    raise struct.error("an error of the decoder's own")


def refuse(*_: object, **__: object) -> DecodedRecords:
    raise CorruptRecordError("everything")


def misplace(*arguments: Any, **options: Any) -> DecodedRecords:
    decoded = decode(*arguments, **options)
    return replace(decoded, records=replace(decoded.records, offsets=decoded.records.offsets + 1))


@pytest.mark.parametrize("wrong", [crash, refuse, misplace])
def test_a_wrong_row_is_found(monkeypatch: pytest.MonkeyPatch, wrong: object) -> None:
    monkeypatch.setattr(run, "decode", wrong)
    findings = compare(3000, seed=1)
    assert len(findings.wrong) >= 20
    assert "damage in" in findings.wrong[0]
