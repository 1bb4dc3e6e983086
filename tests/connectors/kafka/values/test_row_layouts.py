"""The columns of a query's rows, by its options and by its schema."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from flip27_stream.api import WatermarkStrategy
from flip27_stream.connectors.kafka.records.record_batches import RecordColumns
from flip27_stream.connectors.kafka.records.record_headers import HEADERS
from flip27_stream.connectors.kafka.source import KafkaSource, KafkaSourceFactory
from flip27_stream.connectors.kafka.split import TopicPartition
from flip27_stream.connectors.kafka.values.row_layouts import records_schema, row_layout
from flip27_stream.connectors.kafka.values.rows import SCHEMA, RowMaker
from flip27_stream.connectors.kafka.values.value_decoder import ValueFormat
from flip27_stream.connectors.kafka.values.value_options import ValueOptions
from flip27_stream.errors import OptionError, RecordFormatError

RAW, STRING, JSON = (ValueOptions(kind) for kind in (ValueFormat.RAW, ValueFormat.STRING, ValueFormat.JSON))
AVRO = ValueOptions(
    ValueFormat.AVRO,
    avro_schema=json.dumps(
        {
            "type": "record",
            "name": "r",
            "fields": [{"name": "a", "type": "int"}, {"name": "photo", "type": "bytes"}],
        }
    ),
)
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
TIMESTAMP = pa.timestamp("us", tz="UTC")
LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
HEADER_LISTS = [None, [("a", b"1"), ("a", None)]]


def records(values: list[bytes | None]) -> RecordColumns:
    """Returns records from offset 5 on. Records after the first one have headers."""
    count = len(values)
    return RecordColumns(
        offsets=np.arange(5, 5 + count),
        timestamps=np.full(count, 1000, np.int64),
        timestamp_types=np.zeros(count, np.int32),
        keys=pa.array([b"k"] + [None] * (count - 1), pa.binary()),
        values=pa.array(values, pa.binary()),
        headers=pa.array([HEADER_LISTS[min(i, 1)] for i in range(count)], HEADERS),
    )


def made(schema: pa.Schema, values: ValueOptions, rows: list[bytes | None]) -> pa.RecordBatch:
    layout = pickle.loads(pickle.dumps(row_layout(schema, values)))
    batch = RowMaker(TopicPartition("t", 3), layout).rows(records(rows))
    batch.validate(full=True)
    assert batch.schema == schema
    return batch


def test_headers_are_a_column_more() -> None:
    """SK-22: with headers the schema is that of Spark's source with headers."""
    schema = records_schema(RAW, include_headers=True)
    assert schema.names == [*SCHEMA.names, "headers"]
    headers = made(schema, RAW, [b"x", b"y"])["headers"].to_pylist()
    assert headers == [None, [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]]


def test_a_schema_prunes_in_any_case_and_order() -> None:
    schema = pa.schema([("Timestamp", TIMESTAMP), ("VALUE", pa.binary()), ("partition", pa.int32())])
    layout = row_layout(schema, RAW)
    assert (layout.needs_keys, layout.needs_values, layout.needs_headers) == (False, True, False)
    batch = made(schema, RAW, [b"x", None])
    assert batch["VALUE"].to_pylist() == [b"x", None]
    assert batch["partition"].to_pylist() == [3, 3]


def test_a_count_needs_no_column() -> None:
    layout = row_layout(pa.schema([]), RAW)
    assert [layout.needs_keys, layout.needs_values, layout.needs_headers] == [False] * 3
    assert made(pa.schema([]), RAW, [b"x", None, b"z"]).num_rows == 3


@pytest.mark.parametrize(
    ("schema", "values", "words"),
    [
        ([("value", pa.string())], RAW, ["'value'", "is string", "allowed: binary"]),
        ([("offset", pa.int32())], JSON, ["'offset'", "is int", "allowed: bigint"]),
        (
            [("timestamp", pa.timestamp("us"))],
            RAW,
            ["is timestamp_ntz", "allowed: timestamp.", "timestamp_ltz"],
        ),
        ([("headers", pa.list_(pa.string()))], RAW, ["'headers'", "array<struct<key:string,value:binary>>"]),
        ([("id", pa.int64())], RAW, ["'id' bigint", "not a column of the record", "value.format"]),
        ([("id", pa.int64())], STRING, ["'id'", "value string"]),
        ([("key", pa.binary()), ("Key", pa.binary())], RAW, ["'key'", "'Key'", "same name"]),
        ([("x", pa.time64("us"))], JSON, ["'x'", "time64", "value.format json"]),
        ([("x", pa.list_(pa.field("e", pa.int32(), nullable=False)))], JSON, ["'x'", "NOT NULL inside"]),
        (
            [("x", pa.int32())],
            replace(JSON, corrupt_column="bad"),
            ["value.corrupt-column", "'bad'", "not there"],
        ),
        (
            [("bad", pa.int32())],
            replace(JSON, corrupt_column="bad"),
            ["value.corrupt-column", "binary", "int"],
        ),
        *(
            ([("a", pa.int32()), (name, kind)], replace(options, corrupt_column=name.upper()), words)
            for name, kind, options, words in [
                ("key", pa.binary(), JSON, ["value.corrupt-column", "'KEY'", "column of the record"]),
                ("value", pa.binary(), JSON, ["value.corrupt-column", "'VALUE'", "column of the record"]),
                ("v_bad", pa.binary(), replace(JSON, fields_prefix="v_"), ["'V_BAD'", "field of the value"]),
                ("photo", pa.binary(), AVRO, ["value.corrupt-column", "'PHOTO'", "field of the value"]),
            ]
        ),
        (
            [pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False)])))],
            RAW,
            ["'headers'", "NOT NULL inside"],
        ),
        ([("x", VARIANT)], JSON, ["'x'", "variant", "string"]),
        ([("x", pa.list_(pa.struct([("y", VARIANT)])))], JSON, ["'x'", "variant", "inside"]),
        (
            [("x", pa.list_(pa.struct([("y", pa.int32()), ("Y", pa.int32())])))],
            JSON,
            ["'y'", "'Y'", "inside column 'x'", "same name"],
        ),
        ([("v_x", pa.int32()), ("y", pa.int32())], replace(JSON, fields_prefix="v_"), ["'y'", "'v_'"]),
        ([("time", pa.int32())], replace(JSON, fields_prefix="time"), ["value.fields-prefix", "'time'"]),
    ],
    ids=lambda value: "" if not isinstance(value, list) or not isinstance(value[0], str) else value[0],
)
def test_a_schema_that_does_not_fit_is_refused(
    schema: list[object], values: ValueOptions, words: list[str]
) -> None:
    """Fact 25: the error names the column, its type and the allowed types."""
    with pytest.raises(OptionError) as refused:
        row_layout(pa.schema(schema), values)
    assert [word for word in words if word not in str(refused.value)] == []


def test_not_null_holds_or_fails() -> None:
    """Fact 26: a NOT NULL column has no nulls or fails, because Spark relies on it."""
    schema = pa.schema(
        [pa.field("offset", pa.int64(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    )
    assert made(schema, RAW, [b"x"]).num_rows == 1
    with pytest.raises(RecordFormatError, match=r"t-3 at offset 6 has no value for column 'value'.*NOT NULL"):
        made(schema, RAW, [b"x", None])


def test_columns_of_the_record_come_before_fields_of_the_value() -> None:
    """A column of the record hides a field of the value with the same name. The field is read with a prefix."""
    value = b'{"timestamp": "2026-01-02", "value": 7, "key": "k"}'
    plain = pa.schema([("timestamp", TIMESTAMP), ("value", pa.int64()), ("key", pa.binary())])
    row = made(plain, JSON, [value]).to_pylist()[0]
    assert (row["timestamp"].timestamp(), row["value"], row["key"]) == (1.0, 7, b"k")
    prefixed = pa.schema([("v_timestamp", pa.date32()), ("timestamp", TIMESTAMP), ("value", pa.binary())])
    row = made(prefixed, replace(JSON, fields_prefix="v_"), [value]).to_pylist()[0]
    assert (str(row["v_timestamp"]), row["timestamp"].timestamp(), row["value"]) == ("2026-01-02", 1.0, value)


@pytest.mark.parametrize(
    ("kind", "column", "bad", "why"),
    [
        (JSON, "a", b'{"a": ', "Expecting value at character"),
        (STRING, "value", b"\xff", "byte 0 is not UTF-8"),
    ],
    ids=["json", "string"],
)
def test_a_bad_value_is_null_or_an_error_by_mode(
    kind: ValueOptions, column: str, bad: bytes, why: str
) -> None:
    """In permissive mode a bad value has nulls and its bytes. In failfast mode the error has topic,
    partition and offset.
    """
    good = b'{"a": "x"}'
    schema = pa.schema([("raw", pa.binary()), (column, pa.string()), ("offset", pa.int64())])
    rows = made(schema, replace(kind, corrupt_column="RAW"), [good, bad, None]).to_pylist()
    assert [row["raw"] for row in rows] == [None, bad, None]
    assert [row[column] is None for row in rows] == [False, True, True]
    failing = pa.schema([(column, pa.string())])
    with pytest.raises(RecordFormatError) as error:
        made(failing, replace(kind, fail_fast=True), [good, bad])
    assert "t-3 at offset 6" in str(error.value)
    assert why in str(error.value)


def test_the_source_describes_its_rows() -> None:
    wanted = pa.schema([("id", pa.int64()), ("offset", pa.int64())])
    options = {**LEAST, "value.format": "JSON"}
    assert KafkaSource(options, schema=wanted).schema == wanted
    factory = KafkaSourceFactory()
    factory.check(options)
    with pytest.raises(OptionError, match=r"'value\.format' json needs a schema"):
        factory.schema(options)
    assert factory.schema({**LEAST, "value.format": "string"}).field("value").type == pa.string()
    assert factory.schema({**LEAST, "includeHeaders": "true"}).field("headers").type == HEADERS
    assert factory.create(options, WatermarkStrategy(), schema=wanted).schema == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value.format": "xml"}, ["value.format", "xml", "raw, string, json, avro"]),
        ({"value.format": "json", "value.mode": "dropmalformed"}, ["value.mode", "permissive, failfast"]),
        ({"value.mode": "failfast"}, ["value.mode", "value.format", "raw"]),
        ({"value.format": "string", "value.fields-prefix": "v_"}, ["value.fields-prefix", "json or avro"]),
        ({"value.format": "json", "value.avro.schema": "{}"}, ["value.avro.schema", "avro", "json"]),
        ({"value.format": "avro"}, ["value.avro.schema", "must be given"]),
        (
            {"value.format": "avro", "value.avro.schema": "{"},
            ["value.avro.schema", "Avro schema of a record"],
        ),
        ({"value.format": "avro", "value.avro.schema": '"string"'}, ["value.avro.schema", "of a record"]),
        ({"value.format": "json", "value.mode": "failfast", "value.corrupt-column": "c"}, ["permissive"]),
        ({"value.format": "json", "value.corrupt-column": " "}, ["value.corrupt-column", "name of a column"]),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_wrong_options_of_values_are_refused(options: dict[str, str], words: list[str]) -> None:
    with pytest.raises(OptionError) as refused:
        KafkaSourceFactory().check(LEAST | options)
    assert [word for word in words if word not in str(refused.value)] == []


def test_an_avro_value_out_of_bounds_is_null_or_an_error_by_mode() -> None:
    """One bad value does not stop a permissive query. A failfast query names the record."""
    good, bad = b"\x02\x00", b"\x80\x80\x80\x80\x80\x40\x00"
    schema = pa.schema([("a", pa.int32()), ("raw", pa.binary())])
    assert made(schema, replace(AVRO, corrupt_column="raw"), [good, bad]).to_pylist() == [
        {"a": 1, "raw": None},
        {"a": None, "raw": bad},
    ]
    with pytest.raises(RecordFormatError, match=r"t-3 at offset 6 .* field 'a' is not within the bounds"):
        made(pa.schema([("a", pa.int32())]), replace(AVRO, fail_fast=True), [good, bad])


def test_a_long_value_is_not_repeated_whole() -> None:
    schema = '{"type": "nothing", "name": "' + "n" * 100_000 + '"}'
    with pytest.raises(OptionError) as refused:
        KafkaSourceFactory().check(LEAST | {"value.format": "avro", "value.avro.schema": schema})
    assert "value.avro.schema" in str(refused.value)
    assert "n…" in str(refused.value)
    assert len(str(refused.value)) < 700
