"""Checks of what the code of a source returns and sends, before it is used.

The two callers of a source make these checks: the Spark adapter, and the loop that drives a reader.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from flip27_stream.api.arguments import is_list
from flip27_stream.api.events import SourceEvent
from flip27_stream.api.split import SourceSplit
from flip27_stream.errors import ContractError, shortened


def check_made(what: str, value: object, kind: type) -> None:
    """Checks that the method named ``what`` returned a ``value`` of the type ``kind``.

    Raises:
        ContractError: The value is of another type.
    """
    if not isinstance(value, kind):
        raise ContractError(
            f"{what} returned {shortened(repr(value))}; it must return an object of {kind.__name__}."
        )


def check_bounded(split: SourceSplit, bounded: object) -> None:
    """Checks that ``between`` returned the same split with other bounds.

    Raises:
        ContractError: The split is another one.
    """
    if not isinstance(bounded, SourceSplit) or bounded.split_id != split.split_id:
        raise ContractError(
            f"{type(split).__name__}.between() of split {split.split_id!r} returned {shortened(repr(bounded))}; it "
            "must return a SourceSplit of the same id."
        )


def check_splits(what: str, splits: object) -> None:
    """Checks that the method named ``what`` returned a list of splits.

    Raises:
        ContractError: The value is not a list of splits.
    """
    if not is_list(splits) or not all(isinstance(split, SourceSplit) for split in splits):  # type: ignore[attr-defined]
        raise ContractError(f"{what} returned {shortened(repr(splits))}; it must return a list of splits.")


def check_records(records: object, schema: pa.Schema, split_id: str) -> None:
    """Checks that a reader emitted a record batch of the source's schema.

    Raises:
        ContractError: The value is not a record batch, or has another schema.
    """
    if not isinstance(records, pa.RecordBatch):
        raise ContractError(
            f"The reader emitted an object of {type(records).__name__} into split {split_id}; it must be a "
            "pyarrow.RecordBatch of the source's schema."
        )
    if not records.schema.equals(schema):
        raise ContractError(
            f"The reader emitted a record batch of {_columns(records.schema)} into split {split_id}; the source's "
            f"schema is {_columns(schema)}."
        )


def check_column(name: str, column: object, records: pa.RecordBatch, split_id: str) -> None:
    """Checks the ``timestamps`` or ``positions`` that a reader emitted.

    Raises:
        ContractError: The column is not an int64 array with one number for each record.
    """
    if column is None:
        return
    if not isinstance(column, pa.Array) or column.type != pa.int64() or len(column) != records.num_rows:
        raise ContractError(
            f"The reader emitted {records.num_rows} records into split {split_id} with {name} "
            f"{shortened(repr(column))}; they must be a pyarrow array of as many int64."
        )


def size_of_event(event: object) -> int:
    """Returns the length (bytes) of an event's payload as JSON.

    Raises:
        ContractError: ``event`` is not an event, or its payload is not JSON.
    """
    if not isinstance(event, SourceEvent) or not isinstance(event.name, str):
        raise ContractError(f"{shortened(repr(event))} is not a SourceEvent with a name, and cannot be sent.")
    try:
        text = json.dumps(event.payload)
        if json.loads(text) != _as_lists(event.payload):
            raise ValueError("the JSON text, parsed again, gives another value")
    except (TypeError, ValueError, RecursionError) as e:
        raise ContractError(
            f"The payload of event {event.name!r} cannot be sent as JSON: {e}. Make it of numbers, text, lists and "
            f"objects with text as keys; it is {shortened(repr(event.payload))}."
        ) from e
    return len(text)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _as_lists(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_as_lists(v) for v in value]
    return {k: _as_lists(v) for k, v in value.items()} if isinstance(value, dict) else value
