"""Columns of Arrow that are made without pandas.

``pa.array`` and ``pa.scalar`` import pandas, which takes half a second of processor time in each process of Spark that
creates a first column so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from flip27_stream.arrays import Flags, Int64s


def longs(values: Int64s, is_known: Flags | None = None) -> pa.Int64Array:
    """Returns a column of numbers, with null where ``is_known`` is false."""
    validity = None if is_known is None else pa.py_buffer(np.packbits(is_known, bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [validity, pa.py_buffer(values)])


def texts(values: Sequence[str]) -> pa.StringArray:
    joined = "".join(values)
    data = joined.encode()
    sizes = map(len, values) if len(data) == len(joined) else [len(value.encode()) for value in values]
    return pa.Array.from_buffers(pa.string(), len(values), _buffers(data, sizes))


def binaries(values: Sequence[bytes]) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), len(values), _buffers(b"".join(values), map(len, values)))


def _buffers(data: bytes, sizes: Iterable[int]) -> list[pa.Buffer | None]:
    ends = np.fromiter(accumulate(sizes, initial=0), np.int32)
    return [None, pa.py_buffer(ends), pa.py_buffer(data)]
