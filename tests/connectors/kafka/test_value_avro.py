"""Avro values into columns."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.value_avro import AvroDecoder
from flip27_stream.errors import OptionError

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": "Kind"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
        {
            "name": "place",
            "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]},
        },
        {"name": "either", "type": ["int", "string"]},
    ],
}
ORDER = {
    "id": 7,
    "count": 3,
    "name": None,
    "price": Decimal("1.50"),
    "at": datetime(2026, 1, 2, tzinfo=timezone.utc),
    "day": date(2026, 1, 2),
    "kind": "B",
    "again": "A",
    "tags": ["x"],
    "sizes": {"m": 1},
    "place": {"x": 0.5},
    "either": "e",
}
FIELDS = pa.schema(
    [
        ("sizes", pa.map_(pa.string(), pa.int32())),
        ("id", pa.int64()),
        ("count", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("kind", pa.string()),
        ("again", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64())])),
    ]
)


def written(order: dict[str, Any]) -> bytes:
    data = BytesIO()
    fastavro.schemaless_writer(data, SCHEMA, order)
    return data.getvalue()


def decoder(fields: pa.Schema = FIELDS, framed: bool = False) -> AvroDecoder:
    made: AvroDecoder = pickle.loads(pickle.dumps(AvroDecoder(fields, json.dumps(SCHEMA), framed)))
    return made


def test_records_are_columns() -> None:
    found = decoder().decode(pa.array([written(ORDER), None], pa.binary()))
    assert found.bad is None
    first = {f.name: column[0].as_py() for f, column in zip(FIELDS, found.columns, strict=True)}
    assert first == {name: ORDER[name] for name in FIELDS.names} | {"sizes": [("m", 1)]}
    assert [column[1].as_py() for column in found.columns] == [None] * len(FIELDS)
    assert [column.type for column in found.columns] == FIELDS.types


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "ends within a field"),
        (written(ORDER)[:-1], ""),
        (written(ORDER) + b"x", "the record ends before"),
        (b"\xff" * 30, ""),
    ],
    ids=["empty", "cut", "longer", "noise"],
)
def test_a_bad_value_spoils_no_other(value: bytes, why: str) -> None:
    good = written(ORDER)
    found = decoder().decode(pa.array([good, value, good]))
    assert found.bad is not None
    assert found.bad.to_pylist() == [False, True, False]
    assert found.columns[1].to_pylist() == [7, None, 7]
    said = decoder().explain(value)
    assert said
    assert why in said


def test_framed_values() -> None:
    """Confluent's framing: a zero byte, and the id of a schema in 4 bytes."""
    framed = b"\x00\x00\x00\x01\x02" + written(ORDER)
    found = decoder(framed=True).decode(pa.array([framed, written(ORDER), b"\x00\x00"]))
    assert found.bad is not None
    assert found.bad.to_pylist() == [False, True, True]
    assert found.columns[1][0].as_py() == 7
    assert "zero byte and a schema id" in decoder(framed=True).explain(b"x")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nothing", pa.int64()),
        ("id", pa.int32()),
        ("id", pa.string()),
        ("either", pa.string()),
        ("at", pa.int64()),
    ],
)
def test_columns_that_the_record_has_not(name: str, kind: pa.DataType) -> None:
    with pytest.raises(OptionError) as refused:
        decoder(pa.schema([(name, kind)]))
    assert f"Column '{name}'" in str(refused.value)
    assert "id (int64)" in str(refused.value)
    assert "either (not supported)" in str(refused.value)
