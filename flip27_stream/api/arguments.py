"""Checks of what an enumerator passes to its context, so that the error comes from the line with the mistake.

Every implementation of :class:`~flip27_stream.api.SplitEnumeratorContext` makes these checks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from flip27_stream.api.enumerator import SplitsAssignment
from flip27_stream.errors import ContractError, shortened


def check_assignment(assignment: object) -> None:
    """Checks the argument of ``assign_splits``.

    Raises:
        ContractError: The argument is not a ``SplitsAssignment`` of lists of splits, by subtask id.
    """
    splits = assignment.assignment if isinstance(assignment, SplitsAssignment) else None
    if not isinstance(splits, Mapping) or not all(is_list(some) for some in splits.values()):
        raise ContractError(
            f"assign_splits() was given {shortened(repr(assignment))}; it takes a SplitsAssignment of a mapping from "
            "subtask ids to lists of splits. To assign one split, call assign_split(split, subtask_id)."
        )


def check_call(callable: object, handler: object, *times_ms: object) -> None:
    """Checks the arguments of ``call_async``.

    Raises:
        ContractError: A function cannot be called, or a time is not a number of milliseconds.
    """
    for name, function in (("callable", callable), ("handler", handler)):
        check_callable("call_async", name, function)
    for name, ms in zip(("initial_delay_ms", "period_ms"), times_ms, strict=True):
        if ms is not None and (type(ms) is not int or ms < 0):
            raise ContractError(
                f"call_async() was given {shortened(repr(ms))} as {name}; it must be an int, not negative, or None."
            )


def check_callable(method: str, name: str, function: object) -> None:
    """Checks that the argument ``name`` of ``method`` can be called.

    Raises:
        ContractError: The argument cannot be called.
    """
    if not callable(function):
        raise ContractError(
            f"{method}() was given {shortened(repr(function))} as {name}; it must be a function."
        )


def check_ids(method: str, split_ids: object) -> None:
    """Checks that ``method`` was given a collection of split ids.

    Raises:
        ContractError: The argument is not a collection of texts.
    """
    if not _is_collection(split_ids) or not all(isinstance(name, str) for name in split_ids):  # type: ignore[attr-defined]
        raise ContractError(
            f"{method}() was given {shortened(repr(split_ids))}; it takes a collection of split ids, which are text."
        )


def is_list(value: object) -> bool:
    """Returns whether ``value`` is a sequence, and not a text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_collection(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str)
