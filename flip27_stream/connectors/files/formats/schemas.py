"""The conversion of the columns of files to types that Spark has."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from flip27_stream.connectors.files.layout.columns import find_column, find_columns, is_list
from flip27_stream.decoding.datetime_text import INSTANT, LOCAL
from flip27_stream.errors import RecordFormatError

log = logging.getLogger(__name__)

_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_SUFFIX = re.compile(r"(?<=[\d.])[dDfF]$")
_BLANKS = "".join(map(chr, range(33)))
"""The characters around a number that Java ignores."""
_SAME = {pa.bool_(), *_SIGNED, pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(), pa.null()}
_INSTEAD = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_MOST_DIGITS = 38


def spark_schema(schema: pa.Schema, what: str) -> pa.Schema:
    """Returns ``schema`` in types that Spark has, all nullable. A column of type null becomes a string.

    Raises:
        RecordFormatError: Spark has no type for a column of ``what``.
    """
    refuse_same_names(schema.names, what)
    fields = []
    for field in schema:
        kind = spark_type(field.type)
        if kind is None:
            raise RecordFormatError(
                f"Column '{field.name}' of {what} is {field.type}, for which Spark has no type. Leave it out: name "
                "the wanted columns with .schema(...)."
            )
        fields.append(pa.field(field.name, pa.string() if pt.is_null(kind) else kind))
    return pa.schema(fields)


def spark_type(kind: pa.DataType) -> pa.DataType | None:
    """Returns Spark's Arrow type for ``kind``, or ``None`` if Spark has no such type.

    Unsigned integers become the next larger signed type.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return spark_type(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return spark_type(kind.value_type)
    if kind in _SAME:
        return kind
    if kind in _INSTEAD:
        return _INSTEAD[kind]
    if pt.is_fixed_size_binary(kind):
        return pa.binary()
    if pt.is_timestamp(kind):
        return LOCAL if kind.tz is None else INSTANT
    if pt.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _MOST_DIGITS else None
    return _spark_nested(kind)


def _spark_nested(kind: pa.DataType) -> pa.DataType | None:
    if is_list(kind):
        inner = spark_type(kind.value_type)
        return None if inner is None else pa.list_(_or_string(inner))
    if pt.is_map(kind):
        key, item = spark_type(kind.key_type), spark_type(kind.item_type)
        return None if key is None or item is None else pa.map_(_or_string(key), _or_string(item))
    if pt.is_struct(kind):
        inners = [(f.name, spark_type(f.type)) for f in kind]
        if any(inner is None for _, inner in inners):
            return None
        return pa.struct([(name, _or_string(inner)) for name, inner in inners if inner is not None])
    return None


def _or_string(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pt.is_null(kind) else kind


def can_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Returns whether values of ``given`` can be read as ``wanted``: Spark's rules for Parquet, and wider numbers.

    Times are truncated to microseconds. Local times are taken as UTC. Binary becomes string if it is UTF-8.
    """
    spark = spark_type(given)
    if spark is None:
        return False
    if spark == wanted or pt.is_null(spark):
        return True
    if spark in _SIGNED:
        return _number_fits(_SIGNED.index(spark), wanted)
    if spark == LOCAL:
        return bool(wanted == INSTANT)
    if pt.is_decimal(spark) and pt.is_decimal(wanted):
        finer = wanted.scale - spark.scale
        return bool(finer >= 0 and wanted.precision - spark.precision >= finer)
    if is_list(spark) and pt.is_list(wanted):
        return can_become(spark.value_type, wanted.value_type)
    if pt.is_map(spark) and pt.is_map(wanted):
        return can_become(spark.key_type, wanted.key_type) and can_become(spark.item_type, wanted.item_type)
    if pt.is_struct(spark) and pt.is_struct(wanted):
        names = [f.name for f in spark]
        found = ((find_column(names, f.name), f.type) for f in wanted)
        return all(at is None or can_become(spark.field(at).type, kind) for at, kind in found)
    return (spark, wanted) in {
        (pa.float32(), pa.float64()),
        (pa.string(), pa.binary()),
        (pa.binary(), pa.string()),
        (pa.date32(), LOCAL),
    }


def _number_fits(size: int, wanted: pa.DataType) -> bool:
    """Returns whether integers of 2 ** ``size`` bytes fit ``wanted``."""
    if wanted in _SIGNED:
        return size <= _SIGNED.index(wanted)
    if pt.is_decimal(wanted):
        return bool(wanted.precision - wanted.scale >= (3, 5, 10, 20)[size])
    return bool(wanted == pa.float64() and size <= 2)


def refuse_same_names(names: Iterable[str], what: str) -> None:
    """Checks that no two names are equal in Spark, which ignores upper and lower case.

    Raises:
        RecordFormatError: Two names are equal.
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise RecordFormatError(
                f"Columns '{seen[name.lower()]}' and '{name}' of {what} differ only in upper and lower case, which "
                "Spark does not distinguish. Name the wanted columns with .schema(...)."
            )
        seen[name.lower()] = name


@dataclass(frozen=True)
class Projection:
    """The conversion of batches with a file's columns to batches with the wanted columns.

    Attributes:
        wanted: The wanted columns.
        sources: The name in the file for each wanted column; ``None`` if the file lacks it.
        what: The file, for errors.
    """

    wanted: pa.Schema
    sources: tuple[str | None, ...]
    what: str

    @classmethod
    def of(cls, file: pa.Schema, wanted: pa.Schema, what: str) -> Projection:
        """Returns the projection from the columns of ``file`` to ``wanted``.

        Raises:
            RecordFormatError: A column has a type that cannot be converted, or the file lacks a column that is NOT
                NULL.
        """
        sources: list[str | None] = []
        names = file.names
        for field, index in zip(wanted, find_columns(names, wanted.names), strict=True):
            if index is not None and not can_become(file.field(index).type, field.type):
                raise RecordFormatError(
                    f"Column '{field.name}' of {what} is {file.field(index).type}, and the schema has "
                    f"{field.type}. Declare the type of the file and convert it in the query; to skip files that do "
                    "not fit, set option ignoreCorruptFiles to true."
                )
            sources.append(None if index is None else names[index])
        projection = cls(wanted, tuple(sources), what)
        projection.refuse_missing()
        return projection

    @property
    def columns(self) -> list[str]:
        """The columns to read from the file."""
        return [name for name in self.sources if name is not None]

    @property
    def missing(self) -> list[str]:
        """The wanted columns that the file lacks."""
        return [field.name for field, name in zip(self.wanted, self.sources, strict=True) if name is None]

    def refuse_missing(self) -> None:
        """Checks that the file has all columns that are NOT NULL.

        Raises:
            RecordFormatError: The file lacks such a column.
        """
        for name in self.missing:
            if not self.wanted.field(name).nullable:
                raise RecordFormatError(
                    f"Column '{name}' is NOT NULL, but {self.what} does not have this column."
                )

    def warn_of_missing(self) -> None:
        """Logs the columns that the file lacks, once per process. They are null, as in Spark's own sources."""
        if self.missing:
            _warn_once(tuple(self.missing), self.what.split(" ")[0], self.what)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the wanted columns of a batch that has at least :attr:`columns`.

        Raises:
            RecordFormatError: A column that is NOT NULL has a null, or a value cannot be converted.
        """
        arrays = [
            pa.nulls(batch.num_rows, field.type) if name is None else self._column(batch.column(name), field)
            for field, name in zip(self.wanted, self.sources, strict=True)
        ]
        if not arrays:
            return without_columns(batch.num_rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.wanted)

    def _column(self, array: pa.Array, field: pa.Field) -> pa.Array:
        if array.null_count and not field.nullable:
            raise RecordFormatError(f"Column '{field.name}' is NOT NULL, but {self.what} has a null in it.")
        return cast(array, field, self.what)


_warned: set[tuple[str, ...]] = set()


def _warn_once(columns: tuple[str, ...], kind: str, what: str) -> None:
    if (kind, *columns) not in _warned:
        _warned.add((kind, *columns))
        log.warning(
            "%s has no column %s, which is null in its rows. Other files may also lack it.",
            what,
            ", ".join(columns),
        )


def cast(array: pa.Array, field: pa.Field, what: str) -> pa.Array:
    """Returns ``array`` with the type of ``field``; see :func:`can_become`.

    Raises:
        RecordFormatError: A value cannot be converted.
    """
    if array.type == field.type:
        return array
    if isinstance(array.type, pa.BaseExtensionType):
        return cast(array.storage, field, what)
    named = _in_case_of(array.type, field.type)
    if named != array.type:
        array = array.view(named)
    try:
        return array.cast(options=pa.compute.CastOptions(field.type, allow_time_truncate=True))
    except pa.ArrowException as error:
        raise RecordFormatError(
            f"Column '{field.name}' of {what} does not convert to {field.type}: {error}"
        ) from error


def _in_case_of(given: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Returns ``given`` with the names of its struct fields in the upper and lower case of ``wanted``."""
    if pt.is_struct(given) and pt.is_struct(wanted):
        names, own = [f.name for f in wanted], {f.name for f in given}
        return pa.struct([_field_in_case_of(f, wanted, find_column(names, f.name), own) for f in given])
    if pt.is_list(given) and pt.is_list(wanted):
        return pa.list_(given.value_field.with_type(_in_case_of(given.value_type, wanted.value_type)))
    if pt.is_map(given) and pt.is_map(wanted):
        return pa.map_(
            given.key_field.with_type(_in_case_of(given.key_type, wanted.key_type)),
            given.item_field.with_type(_in_case_of(given.item_type, wanted.item_type)),
        )
    return given


def _field_in_case_of(field: pa.Field, wanted: pa.StructType, at: int | None, own: set[str]) -> pa.Field:
    if at is None:
        return field
    name = wanted.field(at).name
    kind = _in_case_of(field.type, wanted.field(at).type)
    return field.with_type(kind).with_name(field.name if name in own else name)


def constants(values: Mapping[str, str | None], schema: pa.Schema, what: str) -> Mapping[str, pa.Scalar]:
    """Returns the values of partition columns with the types of ``schema``, by the names in ``schema``.

    Raises:
        RecordFormatError: A value cannot be converted.
    """
    found = {}
    for name, text in values.items():
        index = find_column(schema.names, name)
        if index is not None:
            field = schema.field(index)
            found[field.name] = _constant(text, field, what)
    return found


def _constant(text: str | None, field: pa.Field, what: str) -> pa.Scalar:
    if text is None:
        if not field.nullable:
            raise RecordFormatError(
                f"Column '{field.name}' is NOT NULL, but the partition of {what} has no value."
            )
        return pa.scalar(None, field.type)
    if pt.is_binary(field.type):
        raise RecordFormatError(
            f"Column '{field.name}' is a partition column of {what} and binary: the form of such values differs "
            "between writers, so they are not read. Leave it out: name the wanted columns with .schema(...)."
        )
    try:
        local = pa.scalar(text).cast(LOCAL) if field.type == INSTANT and text[-1:].isdigit() else None
        if local is not None:
            return local.cast(INSTANT)
        return pa.scalar(_without_suffix(text) if pt.is_floating(field.type) else text).cast(field.type)
    except pa.ArrowException as error:
        raise RecordFormatError(
            f"Column '{field.name}' of the partition of {what} is {text!r}, which is not a value of {field.type}."
        ) from error


def _without_suffix(number: str) -> str:
    """Returns a number in Java's form, such as ``7f`` with blanks around it, in the form that Arrow casts."""
    return _SUFFIX.sub("", number.strip(_BLANKS))


def with_constants(
    batch: pa.RecordBatch, values: Mapping[str, pa.Scalar], schema: pa.Schema
) -> pa.RecordBatch:
    """Returns ``batch`` with a column of equal values for each of ``values``, in the order of ``schema``."""
    arrays = [
        pa.repeat(values[name], batch.num_rows) if name in values else batch.column(name)
        for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def without_columns(rows: int) -> pa.RecordBatch:
    """Returns a record batch with ``rows`` rows and no columns."""
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))
