"""What a source's own code hands over, looked at before it is used: a mistake must not get into an offset.

A checkpoint that holds one cannot be read again, not even by the source once it is corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from flip27_stream.api import (
    Boundedness,
    ReadLimits,
    SimpleVersionedSerializer,
    Source,
    SourceEvent,
    SourceSplit,
    SplitEnumerator,
    SplitRange,
)
from flip27_stream.errors import ContractError, shortened
from watermark_alignment.planner import NO_SPLITS


def check_made(what: str, value: object, kind: type) -> None:
    """Raises ContractError if ``what`` returned a ``value`` of another kind than it must."""
    if not isinstance(value, kind):
        raise ContractError(
            f"{what} returned {shortened(repr(value))}; it must return an object of {kind.__name__}."
        )


def check_source(source: Source[Any, Any]) -> None:
    """Raises ContractError if a property of ``source`` is of another kind than it must be."""
    who = type(source).__name__
    for name, kind in (
        ("boundedness", Boundedness),
        ("fingerprint", str),
        ("read_limits", ReadLimits),
        ("split_serializer", SimpleVersionedSerializer),
        ("enumerator_checkpoint_serializer", SimpleVersionedSerializer),
    ):
        value = getattr(source, name)
        if not isinstance(value, kind) or value == "":
            raise ContractError(
                f"{who}.{name} is {shortened(repr(value))}; it must be an object of {kind.__name__}, and not empty."
            )
    for limit, value in vars(source.read_limits).items():
        if value is not None and (not isinstance(value, int) or value < 0):
            raise ContractError(
                f"{who}.read_limits has {limit} = {shortened(repr(value))}; it must be an int, not negative, or None."
            )


def pending_splits(enumerator: SplitEnumerator[Any, Any]) -> int:
    """How many splits are known and not assigned.

    Raises:
        ContractError: the enumerator answers anything but a number.
    """
    pending: object = enumerator.pending()
    if not isinstance(pending, int) or pending < 0:
        raise ContractError(
            f"{type(enumerator).__name__}.pending() returned {shortened(repr(pending))}; it must return an int, not "
            "negative."
        )
    return pending


def described(enumerator: SplitEnumerator[Any, Any], looked: Mapping[str, SplitRange]) -> dict[str, Any]:
    """The log ends as users write them, for Spark's progress.

    Raises:
        ContractError: the enumerator answers anything but a mapping from text to JSON.
    """
    who = type(enumerator).__name__
    ends = enumerator.log_ends(looked)
    check_made(f"{who}.log_ends()", ends, Mapping)
    shown = enumerator.describe_positions(ends)
    check_made(f"{who}.describe_positions()", shown, Mapping)
    try:
        json.dumps(dict(shown))
    except (TypeError, ValueError) as e:
        raise ContractError(
            f"{who}.describe_positions() returned {shortened(repr(shown))}; Spark can show JSON only: {e}."
        ) from e
    return dict(shown)


def check_split(split: object) -> None:
    """Raises ValueError if ``split`` cannot be assigned: as an offset stores it, and as it is looked up."""
    if not isinstance(split, SourceSplit):
        raise ValueError(f"Cannot assign {shortened(repr(split))}: it is no SourceSplit")
    name: object = split.split_id
    if not isinstance(name, str) or not name or _is_broken(name) or name in NO_SPLITS:
        raise ValueError(
            f"Cannot assign a split of {type(split).__name__} whose id is {shortened(repr(name))}: it must be text, "
            f"not empty, that UTF-8 can encode, and not {' or '.join(sorted(NO_SPLITS))}"
        )
    try:
        hash(split)
    except TypeError as e:
        raise ValueError(
            f"Cannot assign split {name!r}: {e}. Splits must be hashable; make {type(split).__name__} a frozen "
            "dataclass"
        ) from e


def check_ranges(answer: Any, assigned: Mapping[str, SourceSplit], enumerator: object) -> None:
    """Raises ContractError if ``split_ranges`` answered anything but ranges of assigned splits, by id."""
    who = f"{type(enumerator).__name__}.split_ranges()"
    check_made(who, answer, Mapping)
    for name, r in answer.items():
        if name not in assigned:
            raise ContractError(
                f"{who} answered about {shortened(repr(name))}, which is not the id of a split that is assigned."
            )
        if not isinstance(r, SplitRange) or type(r.position) is not int or type(r.end) is not int:
            raise ContractError(
                f"{who} answered {shortened(repr(r))} about split {name!r}; it must be a SplitRange whose position and "
                "end are of type int."
            )
        if not type(r.drained) is type(r.final) is type(r.limited) is bool:
            raise ContractError(
                f"{who} answered {shortened(repr(r))} about split {name!r}; drained, final and limited must be True or "
                "False."
            )
        if not 0 <= r.position <= r.end:
            raise ContractError(
                f"{who} answered that split {name!r} can be read from position {r.position} up to {r.end}. A position "
                "must not be negative, nor behind the end. Where records are gone, answer an empty range at a position "
                "that still exists, or raise DataLossError."
            )


def check_bounded(split: SourceSplit, bounded: object) -> None:
    """Raises ContractError if ``between`` made anything but the same split with other bounds."""
    if not isinstance(bounded, SourceSplit) or bounded.split_id != split.split_id:
        raise ContractError(
            f"{type(split).__name__}.between() of split {split.split_id!r} returned {shortened(repr(bounded))}; it "
            "must return a SourceSplit of the same id."
        )


def check_same_splits(source: object, splits: Sequence[SourceSplit], made: object) -> None:
    """Raises ContractError if ``splits_for_readers`` made anything but the same splits in the same order."""
    what = f"{type(source).__name__}.splits_for_readers()"
    check_splits(what, made)
    wanted = [split.split_id for split in splits]
    found = [split.split_id for split in made]  # type: ignore[attr-defined]
    if found != wanted:
        raise ContractError(
            f"{what} was given {shortened(repr(wanted))} and returned {shortened(repr(found))}; it must return the "
            "same splits in the same order."
        )


def check_splits(what: str, splits: object) -> None:
    """Raises ContractError if ``what`` returned anything but a list of splits."""
    if not _is_list(splits) or not all(isinstance(split, SourceSplit) for split in splits):  # type: ignore[attr-defined]
        raise ContractError(f"{what} returned {shortened(repr(splits))}; it must return a list of splits.")


def check_records(records: object, schema: pa.Schema, split_id: str) -> None:
    """Raises ContractError if a reader emitted anything but a record batch of the source's columns."""
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
    """Raises ContractError if a reader emitted ``timestamps`` or ``positions`` that are not those of its records."""
    if column is None:
        return
    if not isinstance(column, pa.Array) or column.type != pa.int64() or len(column) != records.num_rows:
        raise ContractError(
            f"The reader emitted {records.num_rows} records into split {split_id} with {name} "
            f"{shortened(repr(column))}; they must be a pyarrow array of as many int64."
        )


def size_of_event(event: object) -> int:
    """How long (bytes) an event is as JSON.

    Raises:
        ContractError: it is no event, or its payload is not JSON.
    """
    if not isinstance(event, SourceEvent) or not isinstance(event.name, str):
        raise ContractError(f"{shortened(repr(event))} is not a SourceEvent with a name, and cannot be sent.")
    try:
        text = json.dumps(event.payload)
        if json.loads(text) != _as_lists(event.payload):
            raise ValueError("it is changed on its way")
    except (TypeError, ValueError, RecursionError) as e:
        raise ContractError(
            f"The payload of event {event.name!r} cannot be sent as JSON: {e}. Make it of numbers, text, lists and "
            f"objects with text as keys; it is {shortened(repr(event.payload))}."
        ) from e
    return len(text)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _as_lists(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_as_lists(v) for v in value]
    return {k: _as_lists(v) for k, v in value.items()} if isinstance(value, dict) else value
