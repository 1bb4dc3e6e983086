"""Avro schemas may define a named type at any of its mentions, and name it at the others."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

ENUM = {"type": "enum", "name": "n.E", "symbols": ["A", "B"]}
RECORD = {"type": "record", "name": "n.E", "fields": [{"name": "x", "type": "int"}]}
FIXED = {"type": "fixed", "name": "n.E", "size": 2}


def record(*fields: tuple[str, Any] | tuple[str, Any, Any]) -> dict[str, Any]:
    """Returns the schema of a record with fields of names, types and perhaps defaults."""
    made = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    return {"type": "record", "name": "n.top", "fields": made}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def read(writer: Any, reader: Any, fields: pa.Schema, value: dict[str, Any]) -> list[Any]:
    """Returns the columns that are read of one value."""
    data = BytesIO()
    fastavro.schemaless_writer(data, writer, value)
    decoding = AvroDecoder(fields, json.dumps(writer), False, json.dumps(reader))
    found = decoding.decode(pa.array([data.getvalue()]))
    assert found.bad is None, decoding.explain(data.getvalue())
    return [column.to_pylist()[0] for column in found.columns]


@pytest.mark.parametrize(
    ("kind", "value", "default", "wanted"),
    [
        (ENUM, "B", "A", pa.string()),
        (RECORD, {"x": 5}, {"x": 0}, pa.struct([("x", pa.int32())])),
        (FIXED, b"ab", "\0\0", pa.binary()),
    ],
    ids=["enum", "record", "fixed"],
)
def test_a_type_may_be_defined_in_another_place_than_in_the_writers_schema(
    kind: Any, value: Any, default: Any, wanted: pa.DataType
) -> None:
    one, two = pa.schema([("b", wanted)]), pa.schema([("a", wanted), ("b", wanted)])
    new = "a", kind, default
    null = "a", ["null", kind], None
    both = {"a": value, "b": value}
    optional = ["null", "n.E"]
    assert read(record(("b", kind)), record(new, ("b", optional)), one, {"b": value}) == [value]
    assert read(record(("b", ["null", kind])), record(new, ("b", "n.E")), one, {"b": value}) == [value]
    moved = record(("b", ["null", kind]), ("a", "n.E"))
    assert read(record(("a", kind), ("b", "n.E")), moved, two, both) == [value] * 2
    moved = record(("b", ["null", kind]), ("a", optional))
    assert read(record(("a", kind), ("b", optional)), moved, two, both) == [value] * 2
    items = record(null, ("b", array(optional)))
    of_items = pa.schema([("b", pa.list_(wanted))])
    assert read(record(("b", array(kind))), items, of_items, {"b": [value]}) == [[value]]
    optional_items = record(("b", array(optional)), ("a", ["null", "n.E"], None))
    optional_items["fields"].insert(0, {"name": "c", "type": kind, "default": default})
    assert read(record(("b", array(kind))), optional_items, of_items, {"b": [value]}) == [[value]]


def test_a_record_that_contains_itself_may_have_wanted_and_other_fields() -> None:
    fields: list[Any] = [
        {"name": "x", "type": "int"},
        {"name": "kind", "type": ENUM},
        {"name": "next", "type": ["null", "n.N"]},
    ]
    node = {"type": "record", "name": "n.N", "fields": fields}
    value = {"x": 1, "kind": "A", "next": {"x": 2, "kind": "B", "next": None}}
    wanted = pa.schema([("node", pa.struct([("x", pa.int64()), ("kind", pa.string())]))])
    writer = record(("other", node), ("node", "n.N"))
    for reader in (writer, record(("node", ["null", node]))):
        assert read(writer, reader, wanted, {"other": value, "node": value}) == [{"x": 1, "kind": "A"}]
    alone = AvroDecoder(wanted, json.dumps(writer), False)
    data = BytesIO()
    fastavro.schemaless_writer(data, writer, {"other": value, "node": value})
    assert alone.decode(pa.array([data.getvalue()])).columns[0].to_pylist() == [{"x": 1, "kind": "A"}]


def test_a_field_that_is_skipped_is_no_alias_of_a_wanted_field() -> None:
    """The reader has a field ``old`` of its own, so the writer's ``old`` is not the reader's ``new``."""
    reader = record(("old", "int"), ("new", "int", 7))
    reader["fields"][1]["aliases"] = ["old"]
    assert read(record(("old", "int")), reader, pa.schema([("new", pa.int32())]), {"old": 1}) == [7]
