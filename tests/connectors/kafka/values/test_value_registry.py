"""Values with the id of a schema in front are decoded with the schemas of a registry."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from flip27_stream.connectors.kafka.schema_registry.registered_schemas import SchemaCache
from flip27_stream.connectors.kafka.schema_registry.registry import SchemaRegistry
from flip27_stream.connectors.kafka.values import value_registry
from flip27_stream.connectors.kafka.values.value_decoder import DecodedValues, ValueDecoder
from flip27_stream.connectors.kafka.values.value_registry import (
    AvroRegistryDecoder,
    JsonRegistryDecoder,
)
from flip27_stream.errors import AuthenticationError, OptionError, UnreachableError
from tests.connectors.kafka.support.registry_server import (
    RegistryServer,
    framed,
    missing,
    registry_server,
    written,
)


def record(*fields: dict[str, Any], name: str = "shop.Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def of(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
FIRST = record(of("id", "int"), of("gone", "string"), of("at", MILLIS))
SECOND = record(of("at", MILLIS), of("note", ["null", "string"], default=None), of("id", "long"))
READER = record(of("id", "long"), of("note", ["null", "string"], default=None), of("at", MILLIS))
FIELDS = pa.schema([("id", pa.int64()), ("note", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    """A registry. Nothing is kept of an earlier one, which may have had the same port."""
    monkeypatch.setattr(value_registry, "SCHEMAS", SchemaCache())
    monkeypatch.setattr(value_registry, "_WARNED", set())
    with registry_server() as running:
        yield running


def decoder(
    server: RegistryServer, fields: pa.Schema = FIELDS, reader: Any = READER, timeout_ms: int = 20_000
) -> AvroRegistryDecoder:
    made = AvroRegistryDecoder(
        fields, SchemaRegistry((server.url,), timeout_ms=timeout_ms), json.dumps(reader)
    )
    copy: AvroRegistryDecoder = pickle.loads(pickle.dumps(made))
    return copy


def rows(found: DecodedValues) -> list[tuple[Any, ...]]:
    return list(zip(*(column.cast(_plain(column.type)).to_pylist() for column in found.columns), strict=True))


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def bad(found: DecodedValues) -> list[int]:
    return [] if found.bad is None else [i for i, wrong in enumerate(found.bad.to_pylist()) if wrong]


def test_each_value_is_decoded_with_the_schema_of_its_id(server: RegistryServer) -> None:
    """Values have reordered, promoted, removed and added fields. Rows keep their order, and each
    id is asked for once.
    """
    first, second = server.register("orders-value", FIRST), server.register("orders-value", SECOND)
    values: list[bytes | None] = []
    for i in range(20):
        values.append(written(FIRST, {"id": i, "gone": "x", "at": 1000 * i}, first))
        values.append(written(SECOND, {"id": 2**40 + i, "note": f"n{i}", "at": 5}, second))
        values.append(None)
    decoding = decoder(server)
    for _ in range(2):
        found = decoding.decode(pa.array(values, pa.binary()).slice(3))
        assert found.bad is None
        assert [column.type for column in found.columns] == FIELDS.types
        expected = [(1, None, 1_000_000), (2**40 + 1, "n1", 5000), (None, None, None)]
        assert rows(found)[:3] == expected
        assert rows(found)[-1] == (None, None, None)
        assert len(rows(found)) == 57
    decoder(server).decode(pa.array(values, pa.binary()))
    assert sorted(server.paths) == ["/schemas/ids/1", "/schemas/ids/2"]


EVOLUTIONS: list[tuple[str, Any, Any, Any, pa.DataType, Any]] = [
    ("int to double", "int", 7, "double", pa.float64(), 7.0),
    ("long to float", "long", 7, "float", pa.float32(), 7.0),
    ("float to double", "float", 0.5, "double", pa.float64(), 0.5),
    ("string to bytes", "string", "é", "bytes", pa.binary(), "é".encode()),
    ("bytes to string", "bytes", "é".encode(), "string", pa.string(), "é"),
    ("to a union", "int", 7, ["null", "long"], pa.int64(), 7),
    ("from a union", ["null", "int"], 7, "long", pa.int64(), 7),
    (
        "symbol that was added",
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        "B",
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
        pa.string(),
        "A",
    ),
    (
        "inside an array",
        {"type": "array", "items": record(of("x", "int"), of("y", "int"), name="P")},
        [{"x": 1, "y": 2}],
        {"type": "array", "items": record(of("z", "string", default="-"), of("x", "long"), name="P")},
        pa.list_(pa.struct([("x", pa.int64()), ("z", pa.string())])),
        [{"x": 1, "z": "-"}],
    ),
    (
        "inside a map",
        {"type": "map", "values": "int"},
        {"a": 1},
        {"type": "map", "values": ["null", "long"]},
        pa.map_(pa.string(), pa.int64()),
        [("a", 1)],
    ),
]


@pytest.mark.parametrize(
    ("writer", "value", "reader", "kind", "expected"),
    [case[1:] for case in EVOLUTIONS],
    ids=[case[0] for case in EVOLUTIONS],
)
def test_a_schema_is_resolved_to_that_of_the_reader(
    server: RegistryServer, writer: Any, value: Any, reader: Any, kind: pa.DataType, expected: Any
) -> None:
    schema = record(of("a", writer), of("b", "string"))
    id_ = server.register("t-value", schema)
    found = decoder(server, pa.schema([("a", kind)]), record(of("a", reader))).decode(
        pa.array([written(schema, {"a": value, "b": "x"}, id_)])
    )
    assert found.bad is None
    assert found.columns[0].to_pylist() == [expected]


@pytest.mark.parametrize(
    ("kind", "default", "wanted", "expected"),
    [
        ("int", 7, pa.int32(), 7),
        (["null", "string"], None, pa.string(), None),
        ("bytes", "\u00ff", pa.binary(), b"\xff"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\u0001",
            None,
            Decimal("0.01"),
        ),
        ({"type": "array", "items": "int"}, [1], pa.list_(pa.int32()), [1]),
    ],
    ids=["int", "null", "bytes", "decimal", "array"],
)
def test_an_added_field_has_its_default(
    server: RegistryServer, kind: Any, default: Any, wanted: pa.DataType | None, expected: Any
) -> None:
    schema = record(of("a", "int"))
    id_ = server.register("t-value", schema)
    fields = pa.schema([("new", wanted or pa.decimal128(4, 2))])
    reader = record(of("a", "int"), of("new", kind, default=default))
    found = decoder(server, fields, reader).decode(pa.array([written(schema, {"a": 1}, id_)]))
    assert (found.bad, found.columns[0].to_pylist()) == (None, [expected])


def test_a_renamed_field_is_found_by_its_alias(server: RegistryServer) -> None:
    schema = record(of("old", "int"))
    id_ = server.register("t-value", schema)
    fields = pa.schema([("new", pa.int32())])
    found = decoder(server, fields, record(of("new", "int", aliases=["old"]))).decode(
        pa.array([written(schema, {"old": 7}, id_)])
    )
    assert (found.bad, found.columns[0].to_pylist()) == (None, [7])


@pytest.mark.parametrize(
    ("writer", "reader", "why"),
    [
        (record(of("a", "string")), record(of("a", "int")), "Schema mismatch"),
        (record(of("b", "int")), record(of("a", "int")), "No default value for field a"),
        (record(of("a", "int"), name="Other"), record(of("a", "int")), "Schema mismatch"),
        (
            record(of("a", MILLIS)),
            record(of("a", {"type": "long", "logicalType": "timestamp-micros"})),
            "'a' is timestamp",
        ),
        ("string", record(of("a", "int")), "an Avro schema of a record"),
        (record(of("a", "shop.Unknown")), record(of("a", "int")), "not an Avro schema"),
    ],
    ids=["type", "no default", "name", "unit of time", "no record", "no schema"],
)
def test_a_schema_that_is_not_readable_spoils_its_own_values_only(
    server: RegistryServer, writer: Any, reader: Any, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    other, same = server.register("t-value", writer), server.register("t-value", reader)
    kind = reader["fields"][0]["type"]
    wanted = pa.int32() if kind == "int" else pa.timestamp("us", tz="UTC")
    values = [framed(other, b"\x02\x02"), framed(same, b"\x0e"), framed(other, b"\x02\x02")]
    decoding = decoder(server, pa.schema([("a", wanted)]), reader)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            found = decoding.decode(pa.array(values))
    assert bad(found) == [0, 2]
    assert rows(found) == [(None,), (7,), (None,)]
    said = decoding.explain(values[0])
    assert f"with schema {other} of the registry, " in said
    assert why in said
    assert [line.getMessage() for line in caplog.records if line.name.endswith("value_registry")] == [
        f"A value of schema registry {server.url} could not be decoded: {said}"
    ]


def test_values_that_are_damaged_or_have_no_known_id(server: RegistryServer) -> None:
    id_ = server.register("orders-value", READER)
    proto = server.register("other-value", "message X {}", kind="PROTOBUF")
    good = written(READER, {"id": 7, "note": None, "at": 5}, id_)
    cases = {
        b"": "does not begin with a zero byte and a schema id",
        b"\x00\x00\x00": "does not begin with a zero byte and a schema id",
        b"\x01" + good[1:]: "does not begin with a zero byte and a schema id",
        good[:5]: "ends within a field",
        good[:-1]: "",
        good + b"x": "the record ends before",
        framed(id_, b"\xff" * 30): "",
        framed(77, good[5:]): "requested schema",
        framed(2**32 - 1, good[5:]): "31 bits",
        framed(proto, good[5:]): "it is PROTOBUF, not AVRO",
    }
    values = [value for case in cases for value in (case, good)]
    decoding = decoder(server)
    found = decoding.decode(pa.array([None, *values], pa.binary()).slice(1))
    assert bad(found) == list(range(0, len(values), 2))
    for i, why in enumerate(cases.values()):
        assert rows(found)[2 * i] == (None, None, None)
        assert rows(found)[2 * i + 1] == (7, None, 5000)
        said = decoding.explain(values[2 * i])
        assert said
        assert why in said
    assert decoding.explain(good) == ""
    assert server.paths.count("/schemas/ids/77") == 1


def test_empty_and_null_arrays_are_decoded(server: RegistryServer) -> None:
    for values in ([], [None, None]):
        found = decoder(server).decode(pa.array(values, pa.binary()))
        assert found.bad is None
        assert [len(column) for column in found.columns] == [len(values)] * 3
    assert server.asked == []


def test_schemas_with_references_are_resolved(server: RegistryServer) -> None:
    """A schema refers to another one, which refers to a third, in the writer's schema and in a type of two fields."""
    currency = {"type": "enum", "name": "shop.Currency", "symbols": ["EUR", "USD"]}
    money = record(of("amount", "long"), of("currency", "shop.Currency"), name="shop.Money")
    server.register("currency", currency)
    server.register("money", money, references=[("shop.Currency", "currency", 1)])
    order = record(of("price", "shop.Money"), of("tax", ["null", "Money"]), of("kind", "shop.Currency"))
    id_ = server.register("orders-value", order, references=[("shop.Money", "money", 1)])
    payload = b"\x0e\x00" + b"\x02\x06\x02" + b"\x02"
    inner = record(of("amount", "long"), of("currency", currency), name="shop.Money")
    reader = record(of("tax", ["null", inner]), of("kind", "shop.Currency"))
    fields = pa.schema(
        [("tax", pa.struct([("amount", pa.int64()), ("currency", pa.string())])), ("kind", pa.string())]
    )
    found = decoder(server, fields, reader).decode(pa.array([framed(id_, payload)]))
    assert found.bad is None
    assert rows(found) == [({"amount": 3, "currency": "USD"}, "USD")]


def test_a_registry_that_is_down_or_refuses_is_an_error_and_no_null(server: RegistryServer) -> None:
    id_ = server.register("orders-value", READER)
    values = pa.array([written(READER, {"id": 7, "note": None, "at": 5}, id_)])
    server.fault = lambda *_: (503, b"")
    with pytest.raises(UnreachableError, match=r"did not answer within 200 ms .* the server answers 503"):
        decoder(server, timeout_ms=200).decode(values)
    server.fault = lambda *_: (401, b"")
    with pytest.raises(AuthenticationError, match=r"refused .* with 401"):
        decoder(server).decode(values)
    server.fault = lambda *_: None
    assert rows(decoder(server).decode(values)) == [(7, None, 5000)]


def test_columns_that_the_reader_s_schema_does_not_have_are_refused(server: RegistryServer) -> None:
    with pytest.raises(
        OptionError, match=r"Column 'no' .* not a field of the Avro record 'shop.Order'.*id \(int64\)"
    ):
        decoder(server, pa.schema([("no", pa.int64())]))


def test_json_values_with_an_id_are_decoded(server: RegistryServer) -> None:
    first = server.register("t-value", {"type": "object"}, kind="JSON")
    second = server.register("t-value", {"type": "object", "title": "x"}, kind="JSON")
    avro = server.register("t-value", READER)
    fields = pa.schema([("id", pa.int64()), ("name", pa.string())])
    decoding: ValueDecoder = pickle.loads(
        pickle.dumps(JsonRegistryDecoder(fields, SchemaRegistry((server.url,))))
    )
    values = [
        framed(second, b'{"id": 2, "name": "b"}'),
        framed(first, b'{"id": 1}'),
        framed(first, b'{"id": '),
        framed(avro, b"{}"),
        b'{"id": 3}',
        None,
    ]
    found = decoding.decode(pa.array(values, pa.binary()))
    assert rows(found)[:2] == [(2, "b"), (1, None)]
    assert bad(found) == [2, 3, 4]
    assert "it is AVRO, not JSON" in decoding.explain(values[3] or b"")
    assert decoding.explain(values[2] or b"")


def test_an_id_that_is_registered_later_is_found(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that the registry did not have is asked for again after a minute."""
    now = [0.0]
    monkeypatch.setattr(value_registry, "SCHEMAS", SchemaCache(lambda: now[0]))
    server.fault = lambda *_: missing(40403)
    decoding = decoder(server)
    values = pa.array([written(READER, {"id": 7, "note": None, "at": 5}, 1)])
    assert bad(decoding.decode(values)) == [0]
    server.fault = lambda *_: None
    server.register("orders-value", READER)
    assert bad(decoding.decode(values)) == [0]
    now[0] = 61
    assert decoding.decode(values).bad is None
