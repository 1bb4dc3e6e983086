"""Names and types of columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt


def is_list(kind: pa.DataType) -> bool:
    """Whether ``kind`` is a list type."""
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def find_column(names: Sequence[str], wanted: str) -> int | None:
    """The index of a column: of the same name, or else of the same name in another case; ``None`` if there is none."""
    if wanted in names:
        return names.index(wanted)
    low = wanted.lower()
    return next((i for i, name in enumerate(names) if name.lower() == low), None)
