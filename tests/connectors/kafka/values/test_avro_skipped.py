"""Avro fields that a query leaves out may have any content, but their bytes must be there."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 16}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
NOT_UTF8 = b"\x04\xc3\x28"
READERS = ["none", "lacks the field", "has the field"]
KINDS: dict[str, tuple[Any, Any]] = {
    "boolean": ("boolean", True),
    "float": ("float", 1.5),
    "double": ("double", 2.5),
    "long": ("long", 2**40),
    "string": ("string", "abcdef"),
    "bytes": ("bytes", b"abcdef"),
    "fixed": (FIXED, b"x" * 16),
    "enum": (ENUM, "B"),
    "union": (["null", "string"], "abcdef"),
    "array": ({"type": "array", "items": "double"}, [1.5, 2.5]),
    "map": ({"type": "map", "values": "string"}, {"a": "bcdef"}),
    "record": ({"type": "record", "name": "Q", "fields": [{"name": "z", "type": FIXED}]}, {"z": b"y" * 16}),
}


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def decoder(kind: Any, reader: str) -> AvroDecoder:
    """Returns a decoder of field ``id`` of records that have a field ``x`` behind it."""
    written = record(("id", "long"), ("x", kind))
    read = record(("id", "long")) if reader == "lacks the field" else written | {"doc": "the reader's"}
    text = None if reader == "none" else json.dumps(read)
    return AvroDecoder(pa.schema([("id", pa.int64())]), json.dumps(written), False, text)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("kind", "value"), KINDS.values(), ids=KINDS)
def test_a_value_that_ends_within_a_skipped_field_is_bad(kind: Any, value: Any, reader: str) -> None:
    data = BytesIO()
    fastavro.schemaless_writer(data, record(("id", "long"), ("x", kind)), {"id": 7, "x": value})
    whole = data.getvalue()
    decoding = decoder(kind, reader)
    found = decoding.decode(pa.array([*(whole[:i] for i in range(len(whole))), whole, whole + b"\0"]))
    assert found.bad is not None
    assert found.bad.to_pylist() == [True] * len(whole) + [False, True]
    assert found.columns[0].to_pylist() == [None] * len(whole) + [7, None]
    assert "ends within a field" in decoding.explain(whole[:-1])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("kind", "damage", "why"),
    [
        ("string", b"\x05abc", "a length is -3"),
        ("bytes", b"\x01", "a length is -1"),
        (["null", "bytes"], b"\x02\x05abcdef", "a length is -3"),
        (["null", "int"], b"\x04\x02", "union of 2 types is 2"),
        (["null", "int"], b"\x01\x02", "union of 2 types is -1"),
        (ENUM, b"\x04", "2 symbols is 2"),
        (ENUM, b"\x01", "2 symbols is -1"),
        ({"type": "map", "values": "int"}, b"\x02\x05abc\x02\x00", "a length is -3"),
    ],
    ids=str,
)
def test_a_value_with_damage_in_a_skipped_field_is_bad(
    kind: Any, damage: bytes, why: str, reader: str
) -> None:
    decoding = decoder(kind, reader)
    value = b"\x0e" + damage
    found = decoding.decode(pa.array([value]))
    assert (found.bad, found.columns[0].to_pylist()) == (pa.array([True]), [None])
    assert why in decoding.explain(value)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("string", NOT_UTF8),
        (["null", "string"], b"\x02" + NOT_UTF8),
        ({"type": "array", "items": "string"}, b"\x02" + NOT_UTF8 + b"\x00"),
        ({"type": "map", "values": "string"}, b"\x02" + NOT_UTF8 * 2 + b"\x00"),
        (record(("t", "string"), ("e", ENUM)) | {"name": "S"}, NOT_UTF8 + b"\x02"),
        (DECIMAL, b"\x08\x7f\xff\xff\xff"),
    ],
    ids=["text", "union", "array", "map", "record", "decimal"],
)
def test_a_skipped_field_may_have_any_content(kind: Any, content: bytes, reader: str) -> None:
    decoding = decoder(kind, reader)
    found = decoding.decode(pa.array([b"\x0e" + content]))
    assert (found.bad, found.columns[0].to_pylist()) == (None, [7])
    assert decoding.explain(b"\x0e" + content) == ""


def test_a_field_within_a_wanted_record_may_be_skipped() -> None:
    inner = record(("t", "string"), ("x", "int")) | {"name": "S"}
    wanted = pa.schema([("a", pa.list_(pa.struct([("x", pa.int32())])))])
    decoding = AvroDecoder(wanted, json.dumps(record(("a", {"type": "array", "items": inner}))), False)
    found = decoding.decode(pa.array([b"\x02" + NOT_UTF8 + b"\x0e\x00"]))
    assert (found.bad, found.columns[0].to_pylist()) == (None, [[{"x": 7}]])


def test_text_that_is_wanted_must_be_utf8() -> None:
    fields = pa.schema([("id", pa.int64()), ("x", pa.string())])
    decoding = AvroDecoder(fields, json.dumps(record(("id", "long"), ("x", "string"))), False)
    assert decoding.decode(pa.array([b"\x0e" + NOT_UTF8])).bad == pa.array([True])


def test_a_skipped_field_may_have_a_symbol_that_the_reader_lacks() -> None:
    writer, reader = (record(("id", "long"), ("x", ENUM | {"symbols": s})) for s in (["A", "B"], ["A"]))
    decoding = AvroDecoder(pa.schema([("id", pa.int64())]), json.dumps(writer), False, json.dumps(reader))
    found = decoding.decode(pa.array([b"\x0e\x02"]))
    assert (found.bad, found.columns[0].to_pylist()) == (None, [7])


@pytest.mark.parametrize("reader", [False, True])
def test_only_one_is_true(reader: bool) -> None:
    """Spark reads booleans of other bytes than 0 and 1 as false."""
    schema = record(("a", "boolean"), ("b", ["null", {"type": "array", "items": "boolean"}]))
    read = json.dumps(
        schema | {"fields": [*schema["fields"], {"name": "c", "type": "boolean", "default": True}]}
    )
    fields = pa.schema([("a", pa.bool_()), ("b", pa.list_(pa.bool_()))])
    if reader:
        fields = fields.append(pa.field("c", pa.bool_()))
    decoding = AvroDecoder(fields, json.dumps(schema), False, read if reader else None)
    values = [bytes([byte, 2, 4, byte, 1, 0]) for byte in (0, 1, 2, 0x80, 0xFF)]
    found = decoding.decode(pa.array([*values, b"\x01\x02\x02"]))
    assert found.bad is not None
    assert found.bad.to_pylist() == [False] * 5 + [True]
    expected = [False, True, False, False, False]
    assert found.columns[0].to_pylist() == [*expected, None]
    assert found.columns[1].to_pylist() == [*([value, True] for value in expected), None]
    if reader:
        assert found.columns[2].to_pylist() == [True] * 5 + [None]


@pytest.mark.parametrize(
    "items", ["double", "boolean", FIXED, {**record(("a", "float"), ("b", "double")), "name": "Q"}]
)
def test_a_skipped_array_with_a_damaged_count_ends_with_the_bytes(items: Any) -> None:
    """fastavro would skip as many items as the count says: here it would take hours."""
    decoding = decoder({"type": "array", "items": items}, "lacks the field")
    count = b"\xfe" + 5 * b"\xff" + b"\x7f"
    found = decoding.decode(pa.array([b"\x0e" + count + 40 * b"\1", b"\x0e\0"]))
    assert found.columns[0].to_pylist() == [None, 7]
