"""Tests of the parser of Protocol Buffers messages."""

from __future__ import annotations

import pytest

from flip27_stream.decoding.protobuf import DamagedMessageError, fields, varints


def test_fields_of_all_wire_types_are_read() -> None:
    message = bytes([0x08, 0x96, 0x01, 0x12, 2, *b"ab", 0x19, *range(8), 0x25, *range(4), 0x08, 0])
    assert list(fields(message)) == [(1, 150), (2, b"ab"), (3, bytes(range(8))), (4, bytes(range(4))), (1, 0)]
    assert list(varints(bytes([1, 0x96, 0x01]))) == [1, 150]


def test_the_greatest_number_is_read() -> None:
    assert list(fields(bytes([0x08, *[0xFF] * 9, 1]))) == [(1, 2**64 - 1)]


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\x08", "cut off"),
        (b"\x08\x80", "cut off"),
        (b"\x12\x03ab", "cut off"),
        (b"\x19\x00", "cut off"),
        (b"\x0b\x00", "wire type 3"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "more than 64 bits"),
    ],
)
def test_damaged_messages_are_refused(message: bytes, why: str) -> None:
    with pytest.raises(DamagedMessageError, match=why):
        list(fields(message))
