"""Tests of values with the frame of a schema registry."""

from __future__ import annotations

import struct

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.decoding.frames import payloads, schema_ids, without_frames
from flip27_stream.event_time.json_pointer import JsonPointer


def framed(id_: int, payload: bytes) -> bytes:
    return struct.pack(">bI", 0, id_) + payload


def test_schema_ids_of_sliced_arrays_are_read() -> None:
    values = pa.array(
        [framed(1, b""), None, b"\x00", framed(2**31, b"x"), b"\x01\x00\x00\x00\x01"], pa.binary()
    )
    assert schema_ids(values).tolist() == [1, -1, -1, 2**31, -1]
    assert schema_ids(values.slice(2, 2)).tolist() == [-1, 2**31]
    assert schema_ids(values.slice(5)).tolist() == []


@given(st.lists(st.binary(max_size=9)), st.integers(0, 9), st.integers(0, 9))
def test_payloads_of_sliced_arrays_are_read(contents: list[bytes], start: int, length: int) -> None:
    values = pa.array([framed(1, content) for content in contents], pa.binary()).slice(start, length)
    found = payloads(values)
    found.validate(full=True)
    assert found.to_pylist() == contents[start : start + length]


def test_only_framed_values_lose_their_frame() -> None:
    values = pa.array([framed(1, b"a"), None, b"{}", b"\x00", framed(7, b"")], pa.binary())
    assert without_frames(values).to_pylist() == [b"a", None, b"{}", b"\x00", b""]
    assert without_frames(values.slice(1, 3)).to_pylist() == [None, b"{}", b"\x00"]
    assert without_frames(values.slice(5)).to_pylist() == []


def test_a_json_pointer_sees_through_frames() -> None:
    """A JSON pointer finds the event time in values with the id of a JSON Schema and in plain values beside them."""
    documents = [
        framed(9, b'{"at": 5}'),
        b'{"at": 6}',
        None,
        framed(9, b"no"),
        framed(9, b'{"at": "1970-01-01"}'),
    ]
    assert JsonPointer("/at").times(pa.array(documents, pa.binary())).to_pylist() == [5, 6, None, None, 0]
    texts = pa.array(['{"at": 7}', None])
    assert JsonPointer("/at").times(texts).to_pylist() == [7, None]
