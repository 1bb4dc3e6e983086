"""Determines the columns of a query, from the options and from the schema that the user gave with ``.schema(...)``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

import pyarrow as pa

from flip27_stream.connectors.kafka.records.record_headers import HEADERS
from flip27_stream.connectors.kafka.schema_registry.registered_schemas import latest_schema
from flip27_stream.connectors.kafka.schema_registry.registry import UnknownSchemaError
from flip27_stream.connectors.kafka.schema_registry.registry_options import SUBJECT
from flip27_stream.connectors.kafka.values.rows import SCHEMA, RowLayout
from flip27_stream.connectors.kafka.values.value_decoder import StringDecoder, ValueDecoder, ValueFormat
from flip27_stream.connectors.kafka.values.value_options import ValueOptions
from flip27_stream.errors import OptionError

_WITHOUT_ZONE = pa.timestamp("us")
_SPARK_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    _WITHOUT_ZONE: "timestamp_ntz",
}
_TAGGED = ("variant", "geometry", "geography")


def records_schema(values: ValueOptions, include_headers: bool) -> pa.Schema:
    """Returns the schema of a query whose user gave no schema.

    Args:
        values: The options of values.
        include_headers: Whether there is a column ``headers``.

    Raises:
        OptionError: The format of values needs a schema.
    """
    if values.format.has_fields:
        raise OptionError(
            f"Option 'value.format' {values.format.value} needs a schema that names the columns: "
            '.schema("id bigint, name string").'
        )
    own = _own_columns(values.format)
    return pa.schema([own[name] for name in SCHEMA.names] + ([own["headers"]] if include_headers else []))


def row_layout(schema: pa.Schema, values: ValueOptions) -> RowLayout:
    """Returns the layout of rows for a schema.

    Columns of the record are matched by name, in any case and order. The other columns are fields of the value.

    Args:
        schema: The schema of the query.
        values: The options of values.

    Raises:
        OptionError: A column does not exist, or has another type; or the schema registry does not have the subject.
        ConnectorError: The schema registry refuses the request, or does not answer in time.
    """
    values = _with_readers_schema(values)
    _refuse_duplicates(schema.names, "of the schema")
    for field in schema:
        _refuse_inside(field.name, field.type)
    own = _own_columns(values.format)
    if any(name.lower().startswith(values.fields_prefix.lower()) for name in own if values.fields_prefix):
        raise OptionError.of(
            "value.fields-prefix",
            values.fields_prefix,
            f"Choose a prefix with which none of these columns begins: {', '.join(own)}.",
        )
    corrupt = _corrupt_column(schema, own, values)
    sources = tuple(_record_column(field, own, values) for field in schema)
    made = [
        f for i, (f, name) in enumerate(zip(schema, sources, strict=True)) if name is None and i != corrupt
    ]
    if values.format is ValueFormat.STRING and "value" in sources:
        sources = tuple(None if name == "value" else name for name in sources)
        return RowLayout(schema, sources, StringDecoder(), values.fail_fast, corrupt)
    decoder = _decoder(pa.schema(made), values) if made or corrupt is not None else None
    return RowLayout(schema, sources, decoder, values.fail_fast, corrupt)


def _own_columns(kind: ValueFormat) -> dict[str, pa.Field]:
    """Returns the columns of a record by name."""
    fields = {field.name: field for field in SCHEMA} | {"headers": pa.field("headers", HEADERS)}
    if kind is ValueFormat.STRING:
        fields["value"] = pa.field("value", pa.string())
    return fields


def _record_column(field: pa.Field, own: dict[str, pa.Field], values: ValueOptions) -> str | None:
    """Returns the name of the record's column that ``field`` copies; ``None`` if the column is made from the value."""
    if values.corrupt_column is not None and field.name.lower() == values.corrupt_column.lower():
        return None
    if values.format.has_fields and values.fields_prefix and field.name.startswith(values.fields_prefix):
        return None
    name = {known.lower(): known for known in own}.get(field.name.lower())
    if values.format.has_fields and not values.fields_prefix and name in (None, "value"):
        return None
    if name is None:
        _refuse_unknown(field, own, values)
    if not _same_type(field.type, own[name].type):
        remedy = "Convert it in the query, or decode values with option 'value.format'."
        if name == "timestamp" and field.type == _WITHOUT_ZONE:
            remedy = "Write timestamp_ltz if Spark's setting spark.sql.timestampType is TIMESTAMP_NTZ."
        raise OptionError(
            f"Column '{field.name}' of the schema is {type_name(field.type)}; allowed: "
            f"{type_name(own[name].type)}. {remedy}"
        )
    return name


def _same_type(given: pa.DataType, own: pa.DataType) -> bool:
    """Returns whether two types are the same to Spark. Arrow's names of list elements do not count."""
    if pa.types.is_list(given) and pa.types.is_list(own):
        return bool(given.value_type == own.value_type)
    return bool(given == own)


def _refuse_unknown(field: pa.Field, own: dict[str, pa.Field], values: ValueOptions) -> NoReturn:
    allowed = ", ".join(f"{name} {type_name(column.type)}" for name, column in own.items())
    hint = "To have fields of the value as columns, set option 'value.format' to json or avro."
    if values.format.has_fields:
        hint = f"Fields of the value begin with '{values.fields_prefix}' (option 'value.fields-prefix')."
    raise OptionError(
        f"Column '{field.name}' {type_name(field.type)} of the schema is not a column of the record. "
        f"Allowed: {allowed}. {hint}"
    )


def _refuse_duplicates(names: Iterable[str], where: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) is not name:
            raise OptionError(f"Columns '{other}' and '{name}' {where} have the same name.")


def _refuse_inside(column: str, kind: pa.DataType) -> None:
    """Checks that decoders can make the type of a column, at any depth.

    Raises:
        OptionError: No decoder makes such a type.
    """
    if tagged := _tagged(kind):
        raise OptionError(
            f"Column '{column}' of the schema is {tagged} or has it inside; values cannot be decoded into that type. "
            "Declare it as string or binary, and convert it in the query."
        )
    inner = [kind.field(i) for i in range(kind.num_fields)]
    if pa.types.is_struct(kind):
        _refuse_duplicates((field.name for field in inner), f"inside column '{column}' of the schema")
    if pa.types.is_map(kind):
        inner = [kind.item_field]
    for child in inner:
        if not child.nullable:
            raise OptionError(
                f"Column '{column}' of the schema has NOT NULL inside; NOT NULL is supported for whole columns only."
            )
        _refuse_inside(column, child.type)


def _tagged(kind: pa.DataType) -> str | None:
    """Returns the name of a Spark type that is a struct with a tag in its metadata in Arrow; ``None`` for others."""
    if not pa.types.is_struct(kind):
        return None
    tags = {tag for i in range(kind.num_fields) for tag in kind.field(i).metadata or {}}
    return next((name for name in _TAGGED if name.encode() in tags), None)


def _corrupt_column(schema: pa.Schema, own: Iterable[str], values: ValueOptions) -> int | None:
    wanted = values.corrupt_column
    if wanted is None:
        return None
    found = [i for i, name in enumerate(schema.names) if name.lower() == wanted.lower()]
    if not found or schema.field(found[0]).type != pa.binary():
        given = type_name(schema.field(found[0]).type) if found else "not there"
        raise OptionError.of(
            "value.corrupt-column",
            wanted,
            f"Allowed: a column of the schema that is binary; this is {given}. Columns: {', '.join(schema.names)}.",
        )
    if wanted.lower() in map(str.lower, own):
        raise OptionError.of(
            "value.corrupt-column",
            wanted,
            "Allowed: a name that no other column has; this is a column of the record.",
        )
    if _is_field(schema.names[found[0]], values):
        raise OptionError.of(
            "value.corrupt-column",
            wanted,
            "Allowed: a name that no other column has; this is a field of the value.",
        )
    return found[0]


def _is_field(column: str, values: ValueOptions) -> bool:
    """Returns whether a column is known to be a field of the value."""
    if values.fields_prefix:
        return column.startswith(values.fields_prefix)
    if values.avro_schema is None:
        return False
    return any(field["name"] == column for field in json.loads(values.avro_schema)["fields"])


def _decoder(fields: pa.Schema, values: ValueOptions) -> ValueDecoder:
    named = pa.schema([field.with_name(field.name[len(values.fields_prefix) :]) for field in fields])
    # Imported on use: a query needs only one of the decoders, and that of Avro needs an optional library.
    if values.registry is not None:
        from flip27_stream.connectors.kafka.values.value_registry import (
            AvroRegistryDecoder,
            JsonRegistryDecoder,
        )

        if values.avro_schema is None:
            return JsonRegistryDecoder(named, values.registry.registry)
        return AvroRegistryDecoder(named, values.registry.registry, values.avro_schema)
    if values.format is ValueFormat.AVRO:
        from flip27_stream.connectors.kafka.values.value_avro import AvroDecoder

        assert values.avro_schema is not None
        return AvroDecoder(named, values.avro_schema, values.confluent_framing)
    from flip27_stream.connectors.kafka.values.value_json import JsonValueDecoder

    return JsonValueDecoder(named)


def _with_readers_schema(values: ValueOptions) -> ValueOptions:
    """Returns the options with the text of the reader's schema, which is requested if they name a subject."""
    if values.registry is None or values.registry.subject is None:
        return values
    from flip27_stream.connectors.kafka.values.avro_schema import with_references

    subject = values.registry.subject
    try:
        latest = latest_schema(values.registry.registry, subject)
        latest.check_type("AVRO")
        text = with_references(latest.text, latest.references)
        return replace(values, avro_schema=text)
    except (UnknownSchemaError, ValueError) as error:
        raise OptionError.of(SUBJECT.name, subject, f"Its latest schema cannot be used: {error}.") from None


def type_name(kind: pa.DataType) -> str:
    """Returns Spark's name of a type, as in DDL."""
    if pa.types.is_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        return f"struct<{','.join(f'{f.name}:{type_name(f.type)}' for f in fields)}>"
    return _SPARK_NAMES.get(kind, str(kind))
