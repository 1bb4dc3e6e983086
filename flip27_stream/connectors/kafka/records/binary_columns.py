"""Makes Arrow binary columns from pieces of a buffer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flip27_stream.arrays import Int64s
from flip27_stream.arrow_columns import longs, validity
from flip27_stream.connectors.kafka.records.varints import Bytes

_ARROW_LIMIT = 2**31 - 1
_LARGE = 1 << 13  # Bytes of the buffer per piece.


def gather(buffer: Bytes, at: Int64s, sizes: Int64s) -> pa.BinaryArray:
    """Returns the pieces of ``buffer`` as one binary column.

    Numpy copies pieces of one size as elements of an array of that size. For other pieces Arrow does the copy. Its
    arrays have no gaps between values, so the values and the gaps between them form one array over the buffer. Arrow
    takes every second element of it.

    Args:
        buffer: The bytes.
        at: The positions of the pieces, ascending; pieces do not overlap.
        sizes: The sizes of the pieces in bytes; a negative size is a null.
    """
    rows = len(at)
    if not rows:
        return pa.nulls(0, pa.binary())
    least, most = int(sizes.min()), int(sizes.max())
    if most < 0:
        return pa.nulls(rows, pa.binary())
    if least == most and least * rows <= _ARROW_LIMIT:
        return _of_one_size(buffer, at, least)
    null = sizes < 0
    if len(buffer) >= rows * _LARGE:
        return _joined(buffer, at, np.maximum(sizes, 0), null)
    bounds = np.empty((rows, 2), np.int32)
    bounds[:, 0] = at
    np.add(at, np.maximum(sizes, 0), out=bounds[:, 1], casting="same_kind")
    with_gaps = pa.Array.from_buffers(
        pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds), pa.py_buffer(buffer)]
    )
    found = pc.take(with_gaps, longs(np.arange(0, 2 * rows, 2)), boundscheck=False)
    if not null.any():
        return found
    return pa.Array.from_buffers(pa.binary(), rows, [validity(~null), *found.buffers()[1:]])


def _of_one_size(buffer: Bytes, at: Int64s, size: int) -> pa.BinaryArray:
    offsets = (
        np.arange(0, (len(at) + 1) * size, size, dtype=np.int32) if size else np.zeros(len(at) + 1, np.int32)
    )
    pieces = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer.data, 0, (1,))[at] if size else b""
    return pa.Array.from_buffers(pa.binary(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(pieces)])


def _joined(buffer: Bytes, at: Int64s, sizes: Int64s, null: npt.NDArray[np.bool_]) -> pa.BinaryArray:
    """Returns the pieces as one column. Arrow grows its result as it copies, which costs more for large pieces."""
    view, offsets = buffer.data, np.zeros(len(at) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = b"".join([view[begin:end] for begin, end in zip(at.tolist(), (at + sizes).tolist(), strict=True)])
    return pa.Array.from_buffers(
        pa.binary(), len(at), [validity(~null), pa.py_buffer(offsets), pa.py_buffer(data)]
    )
