"""Columns of Arrow that are made and read without pandas.

``pa.array``, ``pa.scalar`` and ``to_numpy`` import pandas, which takes 0.4 s to 0.8 s of processor time in each process
of Spark that calls one of them first. A query waits for it at its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flip27_stream.arrays import Flags, Int64s


def longs(values: Int64s, is_known: Flags | None = None) -> pa.Int64Array:
    """Returns a column of numbers, with null where ``is_known`` is false."""
    return _numbers(pa.int64(), values, is_known)


def ints(values: npt.NDArray[np.int32]) -> pa.Int32Array:
    """Returns a column of numbers of 32 bits."""
    return _numbers(pa.int32(), values, None)


def flags(values: Flags) -> pa.BooleanArray:
    """Returns a column of truth values, none of which is null."""
    data = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, data])


def numbers_of(column: pa.Int64Array, null: int = 0) -> Int64s:
    """Returns the values of a column as a NumPy array.

    Args:
        column: The column. Its memory is shared with the array if it has no nulls.
        null: The number that stands for a null.
    """
    count, first = len(column), column.offset
    if not count:
        return np.empty(0, np.int64)
    known_bits, data = column.buffers()
    numbers: Int64s = np.frombuffer(data, np.int64, first + count)[first:]
    if not column.null_count:
        return numbers
    is_known = np.unpackbits(np.frombuffer(known_bits, np.uint8), count=first + count, bitorder="little")[
        first:
    ]
    return np.where(is_known, numbers, null)


def texts(values: Sequence[str]) -> pa.StringArray:
    """Returns a column of texts, none of which is null."""
    joined = "".join(values)
    data = joined.encode()
    sizes = map(len, values) if len(data) == len(joined) else [len(value.encode()) for value in values]
    return pa.Array.from_buffers(pa.string(), len(values), _buffers(data, sizes))


def repeated(text: str, count: int) -> pa.StringArray:
    """Returns a column of ``count`` equal texts."""
    data = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def binaries(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Returns a column of byte strings, with null for ``None``."""
    given = [value or b"" for value in values]
    _, *buffers = _buffers(b"".join(given), map(len, given))
    is_known = np.array([value is not None for value in values], np.bool_)
    return pa.Array.from_buffers(pa.binary(), len(values), [validity(is_known), *buffers])


def _numbers(kind: pa.DataType, values: npt.NDArray[Any], is_known: Flags | None) -> pa.Array:
    return pa.Array.from_buffers(
        kind, len(values), [validity(is_known), pa.py_buffer(np.ascontiguousarray(values))]
    )


def validity(is_known: Flags | None) -> pa.Buffer | None:
    """Returns the bits that say which values of a column are not null; ``None`` if no value is null."""
    if is_known is None or is_known.all():
        return None
    return pa.py_buffer(np.packbits(is_known, bitorder="little"))


def _buffers(data: bytes, sizes: Iterable[int]) -> list[pa.Buffer | None]:
    ends = np.fromiter(accumulate(sizes, initial=0), np.int32)
    return [None, pa.py_buffer(ends), pa.py_buffer(data)]
