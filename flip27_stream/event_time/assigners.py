"""The timestamp assigners of option ``scan.watermark.event-time``: a column, a JSON pointer or a function.

A JSON pointer (RFC 6901) refers to the source's column of documents. Event times are int64 milliseconds since the
epoch; a null or negative number means that the record has no event time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.errors import EventTimeError, OptionError, listed
from flip27_stream.event_time.json_pointer import JsonPointer
from flip27_stream.event_time.units import MILLISECONDS, to_milliseconds

_FUNCTION: Final = re.compile(r"([A-Za-z_][\w.]*):([A-Za-z_][\w.]*)")


def timestamp_assigner(
    spec: str,
    schema: pa.Schema,
    option: str = "scan.watermark.event-time",
    record_timestamp_column: str | None = "timestamp",
    value_column: str = "value",
    unit: str | None = None,
) -> TimestampAssigner:
    """Returns the assigner that ``spec`` describes.

    Args:
        spec: A column of ``schema`` in any case (a timestamp, or int64 in ms); a JSON pointer into its column
            ``value_column``, to an integer (ms) or a date and time in text (UTC where it has no zone); or
            ``module:function``, which gets a record batch and returns as many event times (ms, or timestamps).
        schema: The schema of the record batches.
        option: The name of the option, for errors.
        record_timestamp_column: The column of the times that the external system gave the records. If ``spec`` names
            it, the result is a :class:`RecordTimestampAssigner`, so that a connector may use the system's own index;
            if the records have no times of the system, the column is read.
        value_column: The column of JSON documents.
        unit: The unit of event times that are integers, one of :data:`UNITS`; ``None`` for milliseconds.

    Raises:
        OptionError: ``spec`` is not a column, a JSON pointer or a function, or does not fit ``schema``; or it names a
            column of timestamps and ``unit`` is given.
    """
    if (column := _column(spec, schema)) is not None:
        if not _is_time(column.type):
            wrong = f"column '{column.name}' is {column.type}, not timestamp or int64"
            raise _refused(option, spec, wrong, schema, value_column)
        if unit is not None and pa.types.is_timestamp(column.type):
            raise OptionError(
                f"Option '{option}.unit' has no effect: event time is column '{column.name}', a timestamp, which has a "
                "unit of its own. Leave it out. A JSON integer in a timestamp column counts seconds, as in Spark; "
                "where it counts another unit, declare the column as bigint, and set this option. Timestamps that were "
                "written in a wrong unit are corrected where they are written, or by module:function."
            )
        if record_timestamp_column is not None and column.name.lower() == record_timestamp_column.lower():
            return RecordTimestampAssigner(
                otherwise=ColumnTimestampAssigner(column.name, unit or MILLISECONDS)
            )
        return ColumnTimestampAssigner(column.name, unit or MILLISECONDS)
    if spec.startswith("/"):
        return _pointer_assigner(spec, schema, option, value_column, unit or MILLISECONDS)
    if ":" in spec:
        return _function_assigner(spec, schema, option, value_column, unit or MILLISECONDS)
    missing = "there is no such column; if the query has .schema(...), name the column there, too"
    raise _refused(option, spec, missing, schema, value_column)


@dataclass(frozen=True)
class ColumnTimestampAssigner(TimestampAssigner):
    """Takes event times from a column.

    Attributes:
        name: The name of the column, which is a timestamp, rounded down to ms, or int64.
        unit: The unit of int64 numbers.
    """

    name: str
    unit: str = MILLISECONDS

    @property
    def column(self) -> str | None:
        """The name of the column, whose statistics are event times; ``None`` if its numbers are not milliseconds."""
        return self.name if self.unit == MILLISECONDS else None

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        return _milliseconds(records.column(self.name), self.unit)


@dataclass(frozen=True)
class JsonTimestampAssigner(TimestampAssigner):
    """Takes event times from the values that a JSON pointer finds in a column of documents."""

    pointer: JsonPointer
    document_column: str = "value"

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        return self.pointer.times(records.column(self.document_column))


@dataclass(frozen=True)
class FunctionTimestampAssigner(TimestampAssigner):
    """Takes event times from the result of a function, which is imported in the process that calls it.

    Attributes:
        spec: ``module:function``. The function gets a record batch and returns as many event times.
        unit: The unit of returned integers.
    """

    spec: str
    unit: str = MILLISECONDS

    def extract_timestamps(self, records: pa.RecordBatch, timestamps: pa.Int64Array | None) -> pa.Int64Array:
        try:
            returned = _load(self.spec)(records)
        except Exception as error:
            raise EventTimeError(
                f"Event-time function {self.spec!r}: {type(error).__name__}: {error}"
            ) from error
        array = returned.combine_chunks() if isinstance(returned, pa.ChunkedArray) else returned
        if isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iuM":
            array = pa.array(array)
        if not isinstance(array, pa.Array) or len(array) != records.num_rows:
            raise self._useless(returned, records)
        if pa.types.is_integer(array.type) or pa.types.is_null(array.type):
            try:
                array = array.cast(pa.int64())
            except pa.ArrowInvalid as error:
                raise self._useless(returned, records) from error
        if not _is_time(array.type):
            raise self._useless(returned, records)
        return _milliseconds(array, self.unit)

    def _useless(self, returned: Any, records: pa.RecordBatch) -> EventTimeError:
        kind = getattr(returned, "type", getattr(returned, "dtype", None))
        what = f"{type(returned).__name__}{'' if kind is None else f' of {kind}'}"
        length = f"{len(returned)} long" if hasattr(returned, "__len__") else "without a length"
        return EventTimeError(
            f"Event-time function {self.spec!r} returned {what}, {length}; expected an Arrow or NumPy "
            f"array of {records.num_rows} 64-bit integers (ms) or timestamps, null for a row without event time."
        )


def _column(name: str, schema: pa.Schema) -> pa.Field | None:
    """Returns the column called ``name``, ignoring case if only one column matches; ``None`` if no column matches."""
    found = [column for column in schema if column.name.lower() == name.lower()]
    exact = [column for column in found if column.name == name]
    return exact[0] if exact else found[0] if len(found) == 1 else None


def _pointer_assigner(
    spec: str, schema: pa.Schema, option: str, document_column: str, unit: str
) -> TimestampAssigner:
    if document_column not in schema.names:
        wrong = f"a JSON pointer needs a column '{document_column}'"
        raise _refused(option, spec, wrong, schema, document_column)
    kind = schema.field(document_column).type
    if not any(is_kind(kind) for is_kind in (pa.types.is_binary, pa.types.is_string)):
        wrong = f"a JSON pointer needs '{document_column}' to be binary or string, not {kind}"
        raise _refused(option, spec, wrong, schema, document_column)
    try:
        return JsonTimestampAssigner(JsonPointer(spec, unit), document_column)
    except ValueError as error:
        raise _refused(option, spec, str(error), schema, document_column) from error


def _function_assigner(
    spec: str, schema: pa.Schema, option: str, document_column: str, unit: str
) -> TimestampAssigner:
    try:
        function = _load(spec)
    except Exception as error:
        wrong = f"the function cannot be imported ({type(error).__name__}: {error})"
        raise _refused(option, spec, wrong, schema, document_column) from error
    if not callable(function):
        wrong = f"the name refers to an object of type {type(function).__name__}, not a function"
        raise _refused(option, spec, wrong, schema, document_column)
    return FunctionTimestampAssigner(spec, unit)


def _load(spec: str) -> Callable[[pa.RecordBatch], Any]:
    if (parts := _FUNCTION.fullmatch(spec)) is None:
        raise ValueError("expected module:function")
    function: Callable[[pa.RecordBatch], Any] = attrgetter(parts[2])(import_module(parts[1]))
    return function


def _refused(option: str, spec: str, wrong: str, schema: pa.Schema, document_column: str) -> OptionError:
    columns = listed({column.name: f"{column.name} ({column.type})" for column in schema}, spec)
    return OptionError.of(
        option,
        spec,
        f"Expected a timestamp or int64 column, a JSON pointer into '{document_column}' such as '/event/time', or "
        f"'module:function'; {wrong}. Columns: {columns}.",
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def _milliseconds(times: pa.Array, unit: str) -> pa.Int64Array:
    """Returns timestamps, or int64 numbers of ``unit``, in ms; null for times before the epoch."""
    own = times.type.unit if pa.types.is_timestamp(times.type) else unit
    return to_milliseconds(times.cast(pa.int64()), own)
