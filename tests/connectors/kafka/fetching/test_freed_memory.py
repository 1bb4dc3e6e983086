"""Freed memory is returned to the operating system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest

from flip27_stream.connectors.kafka.fetching import freed_memory
from flip27_stream.connectors.kafka.fetching.freed_memory import return_freed_memory

STATM = Path("/proc/self/statm")
MB = 1_000_000


def resident() -> int:
    """Returns the memory of this process that is resident, in bytes."""
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    not STATM.exists() or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs Linux with glibc"
)
def test_memory_between_arrays_in_use_is_returned() -> None:
    """Glibc keeps the memory of freed arrays of 100 kB for itself if a later array is still in use."""
    arrays = [np.ones(100_000, np.uint8) for _ in range(1000)]
    del arrays[:-1]
    before = resident()
    return_freed_memory()
    assert resident() < before - 50 * MB


def test_a_c_library_without_the_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    freed_memory._malloc_trim.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    return_freed_memory()
    assert freed_memory._malloc_trim() is None
    freed_memory._malloc_trim.cache_clear()
