"""Returns freed memory to the operating system."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any


def return_freed_memory() -> None:
    """Returns the memory that this process has freed to the operating system, if the C library can (glibc).

    Glibc keeps freed arrays of up to 32 MB for later ones, also when no later one fits in their place. Large record
    batches, and the columns made of them, would then take tens of megabytes more than are in use.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@functools.cache
def _malloc_trim() -> Callable[[int], Any] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
