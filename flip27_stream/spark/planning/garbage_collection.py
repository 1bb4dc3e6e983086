"""Garbage collection in the planning process."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OBJECTS = 200_000


@contextlib.contextmanager
def rare_collection() -> Iterator[None]:
    """Raises the threshold of garbage collection to 200,000 new objects while the block runs.

    A plan of 10,000 splits creates about as many objects, and no reference cycles. With Python's default threshold of
    700, the search for cycles takes as long as the plan. Collection stays on, because a plan may wait while other
    threads create garbage.
    """
    usual = gc.get_threshold()
    gc.set_threshold(max(_OBJECTS, usual[0]) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
