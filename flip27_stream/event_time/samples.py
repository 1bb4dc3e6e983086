"""Describes a record without an event time, by the names of its fields and never by their values."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from flip27_stream.api import RecordTimestampAssigner, TimestampAssigner
from flip27_stream.decoding.frames import without_frames
from flip27_stream.decoding.json_documents import DocumentError, Number, parse_document
from flip27_stream.errors import shortened
from flip27_stream.event_time.assigners import ColumnTimestampAssigner, JsonTimestampAssigner
from flip27_stream.event_time.json_pointer import JsonPointer

_MOST_KEYS: Final = 20
_KINDS: Final = {list: "an array", tuple: "an object", bool: "a boolean", type(None): "null", str: "a text"}


def sample_of(assigner: TimestampAssigner, records: pa.RecordBatch, row: int) -> str:
    """Returns a sentence or two about a record without its values, for a message; "" if nothing is known about it.

    Args:
        assigner: The assigner that found no event time in the record.
        records: A record batch.
        row: The index of the record in the batch.
    """
    if isinstance(assigner, JsonTimestampAssigner):
        # The query may not have selected the column.
        if assigner.document_column not in records.schema.names:
            return ""
        document = records.column(assigner.document_column).slice(row, 1).cast(pa.binary())
        return _of_document(without_frames(document)[0].as_py(), assigner.pointer)
    column = assigner.otherwise if isinstance(assigner, RecordTimestampAssigner) else assigner
    if not isinstance(column, ColumnTimestampAssigner):
        return ""
    said = f"Its event-time column '{column.name}' is null or before 1970. {_columns(records, row)}"
    if column.name in records.schema.names and pa.types.is_timestamp(records.schema.field(column.name).type):
        said += (
            " A value that cannot be decoded is null, too: a JSON integer in a timestamp column counts seconds, so a "
            "number of microseconds is too great. Declare a column of such numbers as bigint."
        )
    return said


def _columns(records: pa.RecordBatch, row: int) -> str:
    there = [name for name in records.schema.names if records.column(name)[row].is_valid]
    if not there:
        return "All its columns are null."
    more = f" and {len(there) - _MOST_KEYS} more" if len(there) > _MOST_KEYS else ""
    names = ", ".join(repr(name) for name in there[:_MOST_KEYS])
    return f"One of these records has values in the columns {shortened(names)}{more}."


def _of_document(document: bytes | None, pointer: JsonPointer) -> str:
    if document is None:
        return "The value of one of these records is null."
    try:
        value: Any = parse_document(document)
    except DocumentError:
        return "The value of one of these records is not JSON."
    except RecursionError:
        return "The value of one of these records is JSON that is nested too deeply."
    if type(value) is tuple and value:
        names = list(dict.fromkeys(name for name, _ in value))
        keys = ", ".join(map(repr, names[:_MOST_KEYS]))
        more = f" and {len(names) - _MOST_KEYS} more" if len(names) > _MOST_KEYS else ""
        said = f"The top-level keys of one of these records: {shortened(keys)}{more}."
    elif type(value) is tuple:
        return "One of them is empty: {}."
    else:
        said = f"The value of one of these records is JSON, but not an object: {_KINDS.get(type(value), 'a number')}."
    return f"{said} {_at(pointer, value)}".rstrip()


def _at(pointer: JsonPointer, value: Any) -> str:
    """Returns a sentence about the value that the pointer finds in a document; "" if it finds no field at all."""
    place = ""
    for token, escaped in zip(pointer.tokens, pointer.text[1:].split("/"), strict=True):
        if place and type(value) not in (tuple, list):
            json_in_text = " Use module:function for JSON in a text." if type(value) is str else ""
            return f"At '{place}' it has {_KINDS.get(type(value), 'a number')}, not an object.{json_in_text}"
        found, value = _step(value, token)
        above, place = place, f"{place}/{escaped}"
        if not found:
            return f"It has {_KINDS[type(value)]} at '{above}', with nothing at '{place}'." if above else ""
    return f"At '{place}' it has {_kind(value)}."


def _step(value: Any, token: str) -> tuple[bool, Any]:
    """Returns true and the part of ``value`` that ``token`` names, or false and ``value`` if it has no such part."""
    if type(value) is tuple:
        fields = dict(value)  # Of fields with the same name, the last one counts.
        return (token in fields, fields.get(token, value))
    if type(value) is list and token in map(str, range(len(value))):
        return True, value[int(token)]
    return False, value


def _kind(value: Any) -> str:
    """Returns a description of a value that is not an event time."""
    if type(value) is Number:
        if not value.removeprefix("-").isdecimal():
            return "a number with a fraction or an exponent"
        return "a number below 0" if value.startswith("-") else "a number of more than 64 bits"
    if type(value) is str:
        return (
            "digits in quotes"
            if value.strip().isdecimal()
            else "a text that is not a date and time in a known form"
        )
    return _KINDS[type(value)]
