"""Garbage collection in the planning process."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OBJECTS = 200_000


@contextlib.contextmanager
def rare_collection() -> Iterator[None]:
    """Collect garbage after every 200,000 new objects only.

    A plan of 10,000 splits makes about as many, and no cycles; to look for those takes as long as planning does, with
    Python's usual threshold of 700. It is not switched off, for a plan may wait, and what other threads leave behind
    meanwhile has to go.
    """
    usual = gc.get_threshold()
    gc.set_threshold(max(_OBJECTS, usual[0]) if usual[0] else 0, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
