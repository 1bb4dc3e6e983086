"""What an enumerator passes to its context, looked at where it is passed: a mistake is told in the line that makes it.

For those who write a :class:`~flip27_stream.api.SplitEnumeratorContext`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from flip27_stream.api.enumerator import SplitsAssignment
from flip27_stream.errors import ContractError, shortened


def check_assignment(assignment: object) -> None:
    """Raises ContractError if ``assign_splits`` was given anything but reader's splits, by reader."""
    splits = assignment.assignment if isinstance(assignment, SplitsAssignment) else None
    if not isinstance(splits, Mapping) or not all(_is_list(some) for some in splits.values()):
        raise ContractError(
            f"assign_splits() was given {shortened(repr(assignment))}; it takes a SplitsAssignment of a mapping from "
            "subtask ids to lists of splits. To assign one split, call assign_split(split, subtask_id)."
        )


def check_call(callable: object, handler: object, *times_ms: object) -> None:
    """Raises ContractError if ``call_async`` was given what cannot be called, or times that are none."""
    for name, function in (("callable", callable), ("handler", handler)):
        check_callable("call_async", name, function)
    for name, ms in zip(("initial_delay_ms", "period_ms"), times_ms, strict=True):
        if ms is not None and (type(ms) is not int or ms < 0):
            raise ContractError(
                f"call_async() was given {shortened(repr(ms))} as {name}; it must be an int, not negative, or None."
            )


def check_callable(method: str, name: str, function: object) -> None:
    """Raises ContractError if a ``method`` was given an argument that cannot be called."""
    if not callable(function):
        raise ContractError(
            f"{method}() was given {shortened(repr(function))} as {name}; it must be a function."
        )


def check_ids(method: str, split_ids: object) -> None:
    """Raises ContractError if a ``method`` was given anything but a collection of split ids."""
    if not _is_collection(split_ids) or not all(isinstance(name, str) for name in split_ids):  # type: ignore[attr-defined]
        raise ContractError(
            f"{method}() was given {shortened(repr(split_ids))}; it takes a collection of split ids, which are text."
        )


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_collection(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)
