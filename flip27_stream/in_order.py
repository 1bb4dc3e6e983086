"""Look-ups in mappings that mostly have the same keys in the same order.

A plan goes through many mappings by split. With 100,000 splits, looking up each split in each of them takes longer than
the rest of the plan, because the look-ups miss the caches of the processor.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def values_of(keys: list[K], mapping: Mapping[K, V]) -> Collection[V]:
    """Returns the values of ``keys``, without looking them up if ``mapping`` has just these keys in this order.

    Raises:
        KeyError: A key is missing.
    """
    return mapping.values() if list(mapping) == keys else [mapping[key] for key in keys]


def found_in(keys: list[K], mapping: Mapping[K, V]) -> Collection[V | None]:
    """Returns the values of ``keys`` as :func:`values_of` does, with ``None`` for keys that are missing."""
    return mapping.values() if list(mapping) == keys else [mapping.get(key) for key in keys]


def missing_from(mapping: Mapping[K, object], keys: Mapping[K, object]) -> set[K]:
    """Returns the keys of ``keys`` that ``mapping`` does not have; usually these are few."""
    return set() if list(mapping) == list(keys) else keys.keys() - mapping.keys()
