"""Avro values are read with another schema than they were written with."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
PAIR = {"type": "fixed", "name": "Pair", "size": 2}
CENTS = {"logicalType": "decimal", "precision": 4, "scale": 2}
TIME = pa.timestamp("us", tz="UTC")
BINARY = pa.binary()
MONEY = pa.decimal128(5, 2)


def record(*fields: dict[str, Any], name: str = "r") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def decoder(writer: Any, reader: Any, wanted: pa.DataType) -> AvroDecoder:
    """Returns a decoder of field ``a``; ``writer`` and ``reader`` are the schemas of records."""
    return AvroDecoder(pa.schema([("a", wanted)]), json.dumps(writer), False, json.dumps(reader))


def read(writer: Any, reader: Any, wanted: pa.DataType, value: Any) -> Any:
    """Returns what is read of a value of field ``a``; ``writer`` and ``reader`` are its type, or all fields."""
    theirs, ours = (
        record(*kind) if isinstance(kind, tuple) else record(of("a", kind)) for kind in (writer, reader)
    )
    data = BytesIO()
    fastavro.schemaless_writer(data, theirs, {"a": value, "b": b"\x00\x01"})
    decoding = decoder(theirs, ours, wanted)
    found = decoding.decode(pa.array([data.getvalue()]))
    assert found.bad is None, decoding.explain(data.getvalue())
    return found.columns[0].to_pylist()[0]


def inner(field: dict[str, Any], name: str = "S") -> dict[str, Any]:
    return record(field, name=name)


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


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
    with pytest.raises(ValueError, match=why):
        decoder(record(of("a", writer)), record(of("a", reader)), wanted)


def test_a_type_of_the_union_that_is_never_read_may_have_another_unit() -> None:
    """No ``Other`` is read as an ``S``, so its unit does not matter."""
    writer = [inner(of("t", MILLIS), name="Other"), inner(of("t", MICROS))]
    found = read(writer, inner(of("t", MICROS)), pa.struct([("t", TIME)]), ("S", {"t": 7}))
    assert found["t"].microsecond == 7


@pytest.mark.parametrize(
    ("kind", "default", "wanted", "expected"),
    [
        (
            record(of("x", "int"), of("b", "bytes"), name="S"),
            {"x": 1, "b": "\u00ff"},
            pa.struct([("b", BINARY)]),
            {"b": b"\xff"},
        ),
        (
            record(of("b", "bytes", default="\u00ff"), name="S"),
            {},
            pa.struct([("b", BINARY)]),
            {"b": b"\xff"},
        ),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], pa.list_(BINARY), [b"\xff"]),
        (
            {"type": "map", "values": PAIR},
            {"k": "\u00ff\u0001"},
            pa.map_(pa.string(), BINARY),
            [("k", b"\xff\x01")],
        ),
        (
            {"type": "array", "items": decimal(4, 2)},
            ["\u0001"],
            pa.list_(pa.decimal128(4, 2)),
            [Decimal("0.01")],
        ),
        (decimal(38, 2), "\u0001" * 13, pa.decimal128(38, 2), Decimal("795388611907908644076362795.53")),
        (["null", "bytes"], "\u00ff", BINARY, b"\xff"),
        ("double", "-Infinity", pa.float64(), float("-inf")),
        (["null", MICROS], 0, TIME, datetime(1970, 1, 1, tzinfo=timezone.utc)),
    ],
    ids=["record", "empty record", "array", "map", "decimal", "29 digits", "union", "infinity", "time"],
)
def test_a_default_is_a_value_of_its_type(
    kind: Any, default: Any, wanted: pa.DataType, expected: Any
) -> None:
    assert read((of("b", "bytes"),), (of("a", kind, default=default),), wanted, None) == expected


def test_a_default_that_looks_like_a_decimal_is_data() -> None:
    pairs = {"logicalType": "decimal", "a": "b"}
    reader = of("a", {"type": "map", "values": "string"}, default=pairs)
    assert read((of("b", "bytes"),), (reader,), pa.map_(pa.string(), pa.string()), None) == [*pairs.items()]


def test_a_default_of_a_type_that_was_defined_earlier() -> None:
    reader = (of("c", ["null", PAIR], default=None), of("a", "Pair", default="\u00ff\u0001"))
    assert read((of("b", "bytes"),), reader, BINARY, None) == b"\xff\x01"


def test_a_default_of_a_field_of_a_record_that_was_written() -> None:
    reader = inner(of("t", "int")) | {"fields": [of("t", "int"), of("b", "bytes", default="\u00ff")]}
    found = read(inner(of("t", "int")), reader, pa.struct([("t", pa.int32()), ("b", BINARY)]), {"t": 3})
    assert found == {"t": 3, "b": b"\xff"}


@pytest.mark.parametrize(
    ("kind", "default", "wanted"),
    [
        ("bytes", "\u4e2d", BINARY),
        (PAIR, "\u00ff", BINARY),
        (inner(of("t", "int")), {}, pa.struct([("t", pa.int32())])),
        (["null", MILLIS], "now", TIME),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "NOPE", pa.string()),
    ],
    ids=["character", "size", "field", "text", "symbol"],
)
def test_a_default_of_another_type_is_refused(kind: Any, default: Any, wanted: pa.DataType) -> None:
    text = re.escape(json.dumps(default))
    with pytest.raises(
        ValueError, match=f"field 'a' of the reader's schema has a default of another type: {text}"
    ):
        decoder(record(of("b", "int")), record(of("a", kind, default=default)), wanted)


@pytest.mark.parametrize(
    ("writer", "reader", "wanted", "value", "expected"),
    [
        ("bytes", decimal(5, 2), MONEY, b"\x7b", Decimal("1.23")),
        (decimal(5, 2), "bytes", BINARY, Decimal("1.23"), b"\x7b"),
        (decimal(5, 2), decimal(8, 2), pa.decimal128(8, 2), Decimal("1.23"), Decimal("1.23")),
        (["null", "int", "bytes"], ["null", decimal(5, 2)], MONEY, b"\x7b", Decimal("1.23")),
        (
            {"type": "array", "items": "bytes"},
            {"type": "array", "items": decimal(5, 2)},
            pa.list_(MONEY),
            [b"\x7b"],
            [Decimal("1.23")],
        ),
        (
            {"type": "map", "values": decimal(5, 2)},
            {"type": "map", "values": "bytes"},
            pa.map_(pa.string(), BINARY),
            {"k": Decimal("1.23")},
            [("k", b"\x7b")],
        ),
        (
            inner(of("t", "bytes")),
            inner(of("u", ["null", decimal(5, 2)], aliases=["t"])),
            pa.struct([("u", MONEY)]),
            {"t": b"\x7b"},
            {"u": Decimal("1.23")},
        ),
        (PAIR, PAIR | CENTS, pa.decimal128(4, 2), b"\x01\x00", Decimal("2.56")),
        (PAIR | CENTS, PAIR, BINARY, Decimal("2.56"), b"\x01\x00"),
    ],
    ids=["bytes", "decimal", "wider", "union", "array", "map", "record", "fixed", "fixed decimal"],
)
def test_bytes_are_read_with_the_decimals_of_the_reader(
    writer: Any, reader: Any, wanted: pa.DataType, value: Any, expected: Any
) -> None:
    assert read(writer, reader, wanted, value) == expected


def test_a_fixed_type_that_is_mentioned_again() -> None:
    writer = (of("b", PAIR), of("a", {"type": "array", "items": "Pair"}))
    reader = (of("a", {"type": "array", "items": ["null", PAIR | CENTS]}),)
    wanted = pa.list_(pa.decimal128(4, 2))
    assert read(writer, reader, wanted, [b"\x00\x7b"] * 2) == [Decimal("1.23")] * 2


@pytest.mark.parametrize("reader", [decimal(5, 3), decimal(4, 2)], ids=["scale", "precision"])
def test_a_decimal_of_another_scale_is_refused(reader: Any) -> None:
    wanted = pa.decimal128(reader["precision"], reader["scale"])
    with pytest.raises(ValueError, match=r"'a' is decimal\(5, 2\) in the writer's schema and decimal\("):
        decoder(record(of("a", decimal(5, 2))), record(of("a", reader)), wanted)


@pytest.mark.parametrize(
    ("writer", "reader", "value"),
    [
        (MILLIS, MICROS, 5),
        (NANOS, MICROS, 5),
        (["null", "int", MILLIS], ["null", MICROS], 5),
        (
            {"type": "int", "logicalType": "time-millis"},
            {"type": "long", "logicalType": "time-micros"},
            5,
        ),
        (decimal(50, 2), decimal(50, 3), Decimal("1.23")),
    ],
    ids=["unit", "nanoseconds", "union", "time of day", "50 digits"],
)
@pytest.mark.parametrize("inside", [False, True], ids=["column", "field of a record"])
def test_a_field_that_is_not_wanted_may_have_another_unit(
    writer: Any, reader: Any, value: Any, inside: bool
) -> None:
    theirs: list[Any]
    ours: list[Any]
    theirs, ours = ([of("c", kind), of("a", "long")] for kind in (writer, reader))
    wanted: pa.DataType = pa.int64()
    written: Any = {"c": value, "a": 1}
    if inside:
        theirs, ours = ([of("a", record(*fields, name="S"))] for fields in (theirs, ours))
        wanted, written = pa.struct([("a", wanted)]), {"a": written}
    data = BytesIO()
    fastavro.schemaless_writer(data, record(*theirs), written)
    found = decoder(record(*theirs), record(*ours), wanted).decode(pa.array([data.getvalue()]))
    assert found.columns[0].to_pylist() == [{"a": 1} if inside else 1]


@pytest.mark.parametrize("wanted", ["a", "q"])
def test_each_mention_of_a_record_has_its_own_decimals(wanted: str) -> None:
    writer = record(of("a", inner(of("x", decimal(6, 2)))), of("q", "S"))
    other = inner(of("x", "bytes"), name="S2") | {"aliases": ["S"]}
    reader = record(of("a", inner(of("x", decimal(6, 2)))), of("q", other))
    data = BytesIO()
    fastavro.schemaless_writer(data, writer, {"a": {"x": Decimal("1.23")}, "q": {"x": Decimal("4.56")}})
    kinds = {"a": pa.decimal128(6, 2), "q": BINARY}
    fields = pa.schema([(wanted, pa.struct([("x", kinds[wanted])]))])
    decoding = AvroDecoder(fields, json.dumps(writer), False, json.dumps(reader))
    found = decoding.decode(pa.array([data.getvalue()]))
    expected = {"a": Decimal("1.23"), "q": b"\x01\xc8"}
    assert found.columns[0].to_pylist() == [{"x": expected[wanted]}]


def test_a_refusal_names_the_writers_own_type() -> None:
    writer = record(of("c", inner(of("x", decimal(6, 2)))), of("a", "S"))
    ours = record(of("c", inner(of("x", "bytes"))), of("a", inner(of("x", decimal(6, 3)), name="n.S")))
    with pytest.raises(ValueError, match=r"'a\.x' is decimal\(6, 2\) in the writer's .* decimal\(6, 3\)"):
        decoder(writer, ours, pa.struct([("x", pa.decimal128(6, 3))]))


WRONG_DEFAULTS = [
    pytest.param("bytes", "\u4e2d", id="character"),
    pytest.param(PAIR, "", id="size"),
    pytest.param(inner(of("t", "int")), {}, id="record"),
    pytest.param({"type": "array", "items": "long"}, [None], id="array"),
    pytest.param("int", True, id="number"),
]


@pytest.mark.parametrize(("kind", "default"), WRONG_DEFAULTS)
def test_a_wrong_default_of_a_field_that_is_not_wanted_is_ignored(kind: Any, default: Any) -> None:
    reader = (of("a", "long"), of("c", kind, default=default))
    assert read((of("a", "long"),), reader, pa.int64(), 1) == 1
    nested = tuple(of("a", record(*fields, name="R2")) for fields in ((reader[0],), reader))
    assert read(nested[:1], nested[1:], pa.struct([("a", pa.int64())]), {"a": 1}) == {"a": 1}


def test_a_wrong_default_is_ignored_if_the_writer_has_the_field() -> None:
    assert read("bytes", (of("a", "bytes", default="\u4e2d"),), BINARY, b"x") == b"x"
    renamed = record(of("new", "bytes", default="\u4e2d", aliases=["old"]), name="S")
    found = read(inner(of("old", "bytes")), renamed, pa.struct([("new", BINARY)]), {"old": b"x"})
    assert found == {"new": b"x"}


def test_a_wrong_default_within_a_wanted_record_is_refused() -> None:
    reader = record(of("t", "int"), of("b", "bytes", default="\u4e2d"), name="S")
    wanted = pa.struct([("t", pa.int32()), ("b", BINARY)])
    with pytest.raises(
        ValueError, match=r"field 'a\.b' of the reader's schema has a default of another type"
    ):
        decoder(record(of("a", inner(of("t", "int")))), record(of("a", reader)), wanted)


def test_a_default_that_contains_itself_is_refused_only_where_it_is_needed() -> None:
    node = record(of("n", ["null", "N"], default={}), of("x", "int", default=1), name="N")
    reader = record(of("b", "int"), of("a", node, default={}))
    fields = pa.schema([("b", pa.int32())])
    AvroDecoder(fields, json.dumps(record(of("b", "int"))), False, json.dumps(reader))
    with pytest.raises(ValueError, match="field 'a' of the reader's schema has a default of another type"):
        decoder(record(of("b", "int")), reader, pa.struct([("x", pa.int32())]))


@pytest.mark.parametrize("wrong", [{}, {"precision": 0}, {"precision": 2, "scale": 3}], ids=str)
def test_a_decimal_that_is_invalid_is_bytes(wrong: Any) -> None:
    """Avro: a reader ignores a logical type that is invalid."""
    invalid = {"type": "bytes", "logicalType": "decimal"} | wrong
    values = pa.array([b"\x02\x7b"])  # One byte.
    for ours, kind, expected in (
        (decimal(5, 2), MONEY, Decimal("1.23")),
        ("bytes", BINARY, b"\x7b"),
        (invalid, BINARY, b"\x7b"),
    ):
        found = decoder(record(of("a", invalid)), record(of("a", ours)), kind).decode(values)
        assert found.columns[0].to_pylist() == [expected]
