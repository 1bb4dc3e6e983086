"""Checks of the values that a source and its enumerator return, before they get into an offset.

A checkpoint with a wrong value could not be read again, even after the source was corrected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter, le
from typing import Any

from flip27_stream.api import (
    AdoptedOffset,
    Boundedness,
    ReadLimits,
    SimpleVersionedSerializer,
    Source,
    SourceSplit,
    SplitEnumerator,
    SplitRange,
)
from flip27_stream.api.contract import check_made, check_splits
from flip27_stream.errors import ContractError, shortened
from watermark_alignment.planner import NO_SPLITS


def check_source(source: Source[Any, Any]) -> None:
    """Checks the properties of ``source``.

    Raises:
        ContractError: A property has a wrong type or value.
    """
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
    """Returns the number of splits that the enumerator knows and has not assigned.

    Raises:
        ContractError: ``pending()`` did not return a number.
    """
    pending: object = enumerator.pending()
    if not isinstance(pending, int) or pending < 0:
        raise ContractError(
            f"{type(enumerator).__name__}.pending() returned {shortened(repr(pending))}; it must return an int, not "
            "negative."
        )
    return pending


def described(enumerator: SplitEnumerator[Any, Any], ranges: Mapping[str, SplitRange]) -> dict[str, Any]:
    """Returns the log ends in the form that users know, for Spark's progress.

    Raises:
        ContractError: The enumerator did not return a mapping from text to JSON.
    """
    who = type(enumerator).__name__
    ends = enumerator.log_ends(ranges)
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
    """Checks that ``split`` can be assigned: that it is hashable and an offset can store its id.

    Raises:
        ValueError: The split cannot be assigned.
    """
    if not isinstance(split, SourceSplit):
        raise ValueError(f"Cannot assign {shortened(repr(split))}: it is not a SourceSplit")
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
    """Checks the result of ``split_ranges``.

    Raises:
        ContractError: The result is not a mapping from ids of assigned splits to valid ranges.
    """
    who = f"{type(enumerator).__name__}.split_ranges()"
    check_made(who, answer, Mapping)
    if not _are_usual(answer, assigned):
        _check_each_range(who, answer, assigned)


def _are_usual(ranges: Mapping[Any, Any], assigned: Mapping[str, SourceSplit]) -> bool:
    """Returns whether all ranges are right. Nearly all answers are; no bytecode runs for each range."""
    found = ranges.values()
    if not found or set(map(type, found)) != {SplitRange} or not ranges.keys() <= assigned.keys():
        return False
    positions, ends = (list(map(attrgetter(name), found)) for name in ("position", "end"))
    flags = map(attrgetter("drained", "final", "limited"), found)
    return (
        set(map(type, positions)) == set(map(type, ends)) == {int}
        and set(map(type, chain.from_iterable(flags))) == {bool}
        and min(positions) >= 0
        and all(map(le, positions, ends))
    )


def _check_each_range(who: str, answer: Mapping[Any, Any], assigned: Mapping[str, SourceSplit]) -> None:
    for name, r in answer.items():
        if name not in assigned:
            raise ContractError(
                f"{who} returned a range for {shortened(repr(name))}, which is not the id of an assigned split."
            )
        if not isinstance(r, SplitRange) or type(r.position) is not int or type(r.end) is not int:
            raise ContractError(
                f"{who} returned {shortened(repr(r))} for split {name!r}; it must be a SplitRange whose position and "
                "end are of type int."
            )
        if not type(r.drained) is type(r.final) is type(r.limited) is bool:
            raise ContractError(
                f"{who} returned {shortened(repr(r))} for split {name!r}; drained, final and limited must be True or "
                "False."
            )
        if not 0 <= r.position <= r.end:
            raise ContractError(
                f"{who} returned for split {name!r} a range from position {r.position} up to {r.end}. A position must "
                "not be negative, and not greater than the end. If records are lost, return an empty range at a "
                "position that still exists, or raise DataLossError."
            )


def check_adopted(source: object, adopted: AdoptedOffset[Any, Any]) -> None:
    """Checks the positions in a result of ``adopt_offset``.

    Raises:
        ContractError: A position is not a number, or is negative.
    """
    for split, position in adopted.splits:
        if type(position) is not int or position < 0:
            raise ContractError(
                f"{type(source).__name__}.adopt_offset() returned position {shortened(repr(position))} of split "
                f"{split.split_id!r}; a position must be an int, and not negative."
            )


def check_same_splits(source: object, splits: Sequence[SourceSplit], made: object) -> None:
    """Checks the result of ``splits_for_readers``.

    Raises:
        ContractError: The result does not have the same splits in the same order.
    """
    what = f"{type(source).__name__}.splits_for_readers()"
    check_splits(what, made)
    wanted = [split.split_id for split in splits]
    found = [split.split_id for split in made]  # type: ignore[attr-defined]
    if found != wanted:
        raise ContractError(
            f"{what} was given {shortened(repr(wanted))} and returned {shortened(repr(found))}; it must return the "
            "same splits in the same order."
        )


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
