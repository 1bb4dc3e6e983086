"""Functions for names and types of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.types as pt


def is_list(kind: pa.DataType) -> bool:
    """Returns whether ``kind`` is a list type."""
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def find_column(names: Sequence[str], wanted: str) -> int | None:
    """Returns the index of a column, or ``None`` if ``names`` has no such column.

    A column with the same name is preferred to one with the same name in another case.
    """
    if wanted in names:
        return names.index(wanted)
    low = wanted.lower()
    return next((i for i, name in enumerate(names) if name.lower() == low), None)


def find_columns(names: Iterable[str], wanted: Iterable[str]) -> list[int | None]:
    """Returns the results of :func:`find_column` for many names, in one pass over both arguments."""
    exact: dict[str, int] = {}
    low: dict[str, int] = {}
    for at, name in enumerate(names):
        exact.setdefault(name, at)
        low.setdefault(name.lower(), at)
    return [exact.get(name, low.get(name.lower())) for name in wanted]
