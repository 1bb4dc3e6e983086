"""Garbage collection in the planning process."""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Iterator

_OBJECTS, _OBJECTS_PER_SPLIT = 200_000, 20
_MANY = 1000
_BLOCKS = 100

_blocks = itertools.count(1)


@contextlib.contextmanager
def rare_collection(splits: int = 0) -> Iterator[None]:
    """Raises the threshold of garbage collection to 200,000 new objects, or 20 per split, while the block runs.

    A plan of 10,000 splits creates about as many objects, and no reference cycles. With Python's default threshold of
    700, the search for cycles takes as long as the plan. Collection stays on, because a plan may wait while other
    threads create garbage.

    With 1,000 splits and more, the objects that a block leaves are moved to the oldest generation, which only a full
    collection examines: an earlier search would take a tenth of the time of the plan. Every 100th of these blocks does
    a full collection.
    """
    usual = gc.get_threshold()
    most = max(_OBJECTS, _OBJECTS_PER_SPLIT * splits, usual[0])
    gc.set_threshold(most if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        if splits >= _MANY and gc.isenabled() and usual[0]:
            _pass_over()
        gc.set_threshold(*usual)


def _pass_over() -> None:
    """Moves all objects to the oldest generation without examining them; every 100th call collects garbage instead."""
    if next(_blocks) % _BLOCKS == 0:
        gc.collect()
    else:
        gc.freeze()
        gc.unfreeze()
