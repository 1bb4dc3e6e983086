"""Avro values are read with another schema than they were written with."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
TIME = pa.timestamp("us", tz="UTC")


def record(*fields: dict[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def read(writer: Any, reader: Any, wanted: pa.DataType, value: Any) -> Any:
    """Returns what is read of a value; ``writer`` and ``reader`` are the type of field ``a``, or all fields."""
    schemas = [
        record(*kind) if isinstance(kind, tuple) else record(of("a", kind)) for kind in (writer, reader)
    ]
    data = BytesIO()
    fastavro.schemaless_writer(data, schemas[0], {"a": value})
    fields = pa.schema([("a", wanted)])
    decoder = AvroDecoder(fields, json.dumps(schemas[0]), False, json.dumps(schemas[1]))
    found = decoder.decode(pa.array([data.getvalue()]))
    assert found.bad is None, decoder.explain(data.getvalue())
    return found.columns[0].to_pylist()[0]


def inner(field: dict[str, Any], name: str = "S") -> dict[str, Any]:
    return record(field, name=name)


@pytest.mark.parametrize(
    ("writer", "reader", "wanted", "why"),
    [
        (["null", "string", MILLIS], ["null", MICROS], TIME, "'a' is timestamp-millis in the writer's"),
        (MILLIS, ["null", MICROS], TIME, "'a' is timestamp-millis"),
        (NANOS, MICROS, TIME, "'a' is timestamp-nanos .* and timestamp-micros in the reader's"),
        (
            inner(of("t", MILLIS)),
            inner(of("u", MICROS, aliases=["t"])),
            pa.struct([("u", TIME)]),
            r"'a\.t' is timestamp-millis",
        ),
        (
            {"type": "array", "items": ["null", "string", inner(of("t", MILLIS))]},
            {"type": "array", "items": inner(of("t", MICROS), name="n.S")},
            pa.list_(pa.struct([("t", TIME)])),
            r"'a\.t' is timestamp-millis",
        ),
        (
            {"type": "map", "values": inner(of("t", MILLIS), name="Old")},
            {"type": "map", "values": inner(of("t", MICROS), name="S") | {"aliases": ["Old"]}},
            pa.map_(pa.string(), pa.struct([("t", TIME)])),
            r"'a\.t' is timestamp-millis",
        ),
    ],
    ids=["union", "null", "nanoseconds", "alias", "array", "map"],
)
def test_a_time_of_another_unit_is_refused(writer: Any, reader: Any, wanted: pa.DataType, why: str) -> None:
    fields = pa.schema([("a", wanted)])
    with pytest.raises(ValueError, match=why):
        AvroDecoder(fields, json.dumps(record(of("a", writer))), False, json.dumps(record(of("a", reader))))


def test_a_type_of_the_union_that_is_never_read_may_have_another_unit() -> None:
    """No ``Other`` is read as an ``S``, so its unit does not matter."""
    writer = [inner(of("t", MILLIS), name="Other"), inner(of("t", MICROS))]
    found = read(
        writer, inner(of("t", MICROS)), pa.struct([("t", pa.timestamp("us", tz="UTC"))]), ("S", {"t": 7})
    )
    assert found["t"].microsecond == 7
