"""Avro values are decoded into columns."""

from __future__ import annotations

import json
import pickle
import re
import struct
from datetime import date, datetime, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder
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


def test_fields_of_a_record_are_columns() -> None:
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


def test_values_in_confluent_s_framing_are_decoded() -> None:
    """Confluent's framing is a zero byte, and the id of a schema in 4 bytes."""
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
def test_columns_that_the_record_does_not_have_are_refused(name: str, kind: pa.DataType) -> None:
    with pytest.raises(OptionError) as refused:
        decoder(pa.schema([(name, kind)]))
    assert f"Column '{name}'" in str(refused.value)
    assert str(refused.value).endswith("and 7 more."), "the nearest five of twelve fields are listed"
    own = {"id": "id (int64)", "either": "either (not supported)", "at": "at (timestamp[ms, tz=UTC])"}
    assert f"Its fields: {own.get(name, '')}" in str(refused.value)


def single(kind: Any, wanted: pa.DataType, *extra: dict[str, Any]) -> AvroDecoder:
    """Returns a decoder of records with a field ``a``. Other fields are not wanted."""
    fields = [{"name": "a", "type": kind}, *extra]
    schema = {"type": "record", "name": "r", "namespace": "n.s", "fields": fields}
    return AvroDecoder(pa.schema([("a", wanted)]), json.dumps(schema), False)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
TOO_LONG = b"\xfe" * 9 + b"\x03"
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("kind", "wanted", "good", "value", "why"),
    [
        (
            "int",
            pa.int32(),
            b"\x02",
            b"\x80\x80\x80\x80\x80\x40",
            "field 'a' is not within the bounds of int32",
        ),
        (
            "int",
            pa.int64(),
            b"\x02",
            b"\x80\x80\x80\x80\x80\x40",
            "field 'a' is not within the bounds of int32",
        ),
        ("long", pa.int64(), b"\x02", TOO_LONG, "more than 64 bits"),
        (["null", "long"], pa.int64(), b"\x02\x02", b"\x02" + TOO_LONG, "more than 64 bits"),
        (["null", "long"], pa.int64(), b"\x02\x02", b"\x01\x02", "union of 2 types is -1"),
        (ENUM, pa.string(), b"\x02", b"\x01", "2 symbols is -1"),
        (
            DECIMAL,
            pa.decimal128(4, 2),
            b"\x02\x01",
            b"\x08" + (123456).to_bytes(4, "big"),
            "decimal128(4, 2)",
        ),
        (MILLIS, pa.timestamp("us", tz="UTC"), b"\x02", b"\xfe" * 9 + b"\x01", "timestamp[us, tz=UTC]"),
        (
            {"type": "array", "items": "int"},
            pa.list_(pa.int32()),
            b"\x00",
            b"\x02" + b"\xfe" * 5 + b"\x01\x00",
            "list",
        ),
    ],
    ids=["int", "int as long", "long", "long in union", "union", "enum", "decimal", "millis", "items"],
)
def test_a_value_out_of_bounds_is_bad(
    kind: Any, wanted: pa.DataType, good: bytes, value: bytes, why: str
) -> None:
    """A value out of bounds is bad: the decoder raises no error, gives no other number, and decodes
    the values around it.
    """
    decoder = single(kind, wanted)
    found = decoder.decode(pa.array([good, value, None, good]))
    assert found.bad is not None
    assert found.bad.to_pylist() == [False, True, False, False]
    first, *others = found.columns[0].to_pylist()
    assert first is not None
    assert others == [None, None, first]
    assert why in decoder.explain(value)
    assert decoder.explain(good) == ""


def test_numbers_of_64_bits_are_good() -> None:
    """Numbers of 64 bits are good, also beside long runs of bytes that look like the start of a longer number."""
    decoder = single("string", pa.string(), {"name": "b", "type": "long"})
    values = [
        bytes([2 * 30]) + "\u4e2d".encode() * 10 + end
        for end in (b"\xff" * 9 + b"\x01", b"\xfe" * 9 + b"\x01")
    ]
    found = decoder.decode(pa.array([*values, values[0][:-1] + b"\x02", values[1]]).slice(1))
    assert found.bad is not None
    assert found.bad.to_pylist() == [False, True, False]
    assert found.columns[0].to_pylist() == ["\u4e2d" * 10, None, "\u4e2d" * 10]


def test_times_after_the_year_9999_are_read() -> None:
    """Arrow and Spark have times after the year 9999, and Python does not."""
    day = single({"type": "int", "logicalType": "date"}, pa.date32())
    millis = single(MILLIS, pa.timestamp("us", tz="UTC"))
    value = b"\xfe\xff\xff\xff\x0f"
    assert day.decode(pa.array([value])).bad is None
    found = millis.decode(pa.array([b"\xfe" + b"\xff" * 6 + b"\x01"]))
    assert found.bad is None
    assert found.columns[0].cast(pa.int64()).to_pylist() == [(2**49 - 1) * 1000]


def test_a_field_outside_the_schema_is_not_checked() -> None:
    """A field that is not wanted may have any value, but its bytes must be there."""
    extra = {"name": "b", "type": {"type": "string", "logicalType": "uuid"}}
    found = single("int", pa.int32(), extra).decode(pa.array([b"\x02\x04no"]))
    assert (found.bad, found.columns[0].to_pylist()) == (None, [1])


def test_a_type_that_contains_itself() -> None:
    """A value whose nesting would exhaust the stack, and end the process, is bad."""
    node = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    decoder = single("int", pa.int32(), {"name": "b", "type": node})
    found = decoder.decode(pa.array([b"\x02" * 50 + b"\x00", b"\x02" * 1_000_000 + b"\x00", b"\x02" * 50]))
    assert found.bad is not None
    assert found.bad.to_pylist() == [False, True, True]
    assert "nested too deeply" in decoder.explain(b"\x02" * 1_000_000)


TEXT = st.text(st.sampled_from("a\u00e9\u4e2d\U0001f600"), max_size=12)
ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "count": st.integers(-(2**31), 2**31 - 1),
        "name": TEXT | st.none(),
        "price": st.integers(-(10**8) + 1, 10**8 - 1).map(lambda n: Decimal(n).scaleb(-2)),
        "at": st.just(ORDER["at"]),
        "day": st.dates(),
        "kind": st.sampled_from("AB"),
        "again": st.sampled_from("AB"),
        "tags": st.lists(TEXT, max_size=3),
        "sizes": st.dictionaries(TEXT, st.integers(-9, 9), max_size=2),
        "place": st.fixed_dictionaries({"x": st.floats()}),
        "either": st.integers(-9, 9) | TEXT,
    }
).map(written)


ODD = st.sampled_from([b"", b"\x01", b"\xff", b"\x80" * 9 + b"\x7f", b"\xff" * 12]) | st.binary(max_size=3)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    value = bytearray(draw(ORDERS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, max(0, len(value) - 1)))
        value[at : at + draw(st.integers(0, 3))] = draw(ODD)
    return bytes(value)


def accepted(value: bytes) -> dict[str, Any] | None:
    """Returns the record that fastavro reads, or ``None`` if it does not read the whole value."""
    data = BytesIO(value)
    try:
        record: Any = fastavro.schemaless_reader(data, SCHEMA, None)
    except (ArithmeticError, EOFError, LookupError, MemoryError, struct.error, TypeError, ValueError):
        return None
    return dict(record) if data.tell() == len(value) else None


@given(st.lists(mutated() | st.none(), max_size=6))
def test_damaged_bytes_are_bad_or_what_fastavro_reads(values: list[bytes | None]) -> None:
    found = decoder().decode(pa.array(values, pa.binary()))
    for column in found.columns:
        column.validate(full=True)
    bad = found.bad.to_pylist() if found.bad is not None else [False] * len(values)
    rows = list(zip(*(column for column in found.columns), strict=True))
    for value, wrong, row in zip(values, bad, rows, strict=True):
        record = accepted(value) if value is not None else None
        if wrong or value is None:
            assert not any(cell.is_valid for cell in row)
            assert not wrong or decoder().explain(value or b"")
        elif record is not None:
            expected = pa.array([record], pa.struct(list(FIELDS)))
            assert repr([cell.as_py() for cell in row]) == repr(list(expected[0].as_py().values()))
        # A good value that fastavro refuses has a time that Python does not have.
        if value is not None and not wrong and record is None:
            assert re.search("year|date|range", _why(value))
        if record is not None and wrong:
            assert re.search("bounds|64 bits|index", decoder().explain(value or b""))


def _why(value: bytes) -> str:
    with pytest.raises((ArithmeticError, ValueError)) as refused:
        fastavro.schemaless_reader(BytesIO(value), SCHEMA, None)
    return str(refused.value)
